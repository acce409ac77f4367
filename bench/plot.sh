#!/usr/bin/env bash
# plot.sh RESULTS SERIES FOLDER: draws rate.svg and snapshot.svg there, each if
# its part was run. bench.sh calls it.
set -euo pipefail
results=$1 series=$2 folder=$3

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# draw NAME: data/NAME with report/NAME.gp. The data are blocks of "# case",
# "title" and lines of x and y; two empty lines part blocks. The case's first
# digit chooses its colour. gnuplot's SVG ends some lines with a space.
draw() {
    local cases
    cases=$(sed -n 's/^# \(.\).*/\1/p' "$data/$1" | tr '\n' ' ')
    [[ -n $cases ]] || return 0
    gnuplot -e "data = '$data/$1'; cases = '$cases'" bench/report/style.gp "bench/report/$1.gp" |
        sed 's/[[:space:]]*$//' >"$folder/$1.svg"
}

bash bench/report.sh plot "$results" >"$data/rate"
draw rate

# With and without the snapshot in turn, the means of the rounds
[[ -s $series ]] || exit 0
awk -F '\t' '
    FILENAME == ARGV[1] { title[$1] = $2; next }
    { k = $1 SUBSEP $2 }
    !(k in seen) { seen[k] = 1; order[++n] = k }
    {
        if (!(k SUBSEP $3 in times))
            seconds[k] = seconds[k] " " $3
        times[k SUBSEP $3]++
        sum[k SUBSEP $3] += $4
    }
    END {
        for (i = 1; i <= n; i++) {
            split(order[i], part, SUBSEP)
            print "# " part[1]
            print "\"" title[part[1]] "\""
            count = split(seconds[order[i]], at, " ")
            for (j = 1; j <= count; j++)
                print at[j], sum[order[i] SUBSEP at[j]] / times[order[i] SUBSEP at[j]]
            print "\n"
        }
    }' <(for case in bench/cases/one_key/*/; do
    printf '%s\t%s\n' "$(basename "$case")" "$(cat "$case/title")"
done) "$series" >"$data/snapshot"
draw snapshot
