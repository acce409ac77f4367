#!/usr/bin/env bash
# make fuzz: the targets of test/fuzz with libFuzzer, as many at once as there are
# processors. Ends with "N passed, N failed". Inputs with findings, the logs and
# the inputs that took new paths stay in results/fuzz.
#   FUZZ_TIME=600      seconds for each target
#   FUZZ='hash cms'    these targets only
#   FUZZ_JOBS=N        so many at once
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib.sh
source test/lib.sh

seconds=${FUZZ_TIME:-600}
jobs=${FUZZ_JOBS:-$(nproc)}
bash test/deps.sh fuzz

read -r -a targets <<<"${FUZZ:-$(make -s -C test/fuzz targets)}"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
make -s -j"$jobs" -C test/fuzz libfuzzer TARGETS="${targets[*]}" BUILD="$build"

# fuzz NAME: in a folder of its own. Its corpus continues from earlier runs. An input that takes 10
# s, or 1 GB at once, is a finding.
fuzz() {
    local folder=results/fuzz/$1
    mkdir -p "$folder/corpus"
    # Findings of an earlier run would look like this one's.
    rm -f "$folder"/{crash,leak,oom,timeout,slow-unit}-*
    if "$build/$1_libfuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$folder/" "$folder/corpus" "test/fuzz/seeds/$1" \
        >"$folder/log" 2>&1; then
        sed -n "s/^stat::number_of_executed_units: */ok - fuzz $1, inputs: /p" "$folder/log"
    else
        tail -n 40 "$folder/log"
        echo "not ok - fuzz $1"
    fi
}
export -f fuzz
export build seconds

# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'fuzz "$1"' fuzz | tee "$build/out"
passed=$(grep -c '^ok ' "$build/out" || true)
failed=$(grep -c '^not ok ' "$build/out" || true)
# A target that said nothing has failed too.
failed=$((${#targets[@]} - passed > failed ? ${#targets[@]} - passed : failed))
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
