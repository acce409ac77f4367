#!/usr/bin/env bash
# Style and consistency checks: prints "ok - name" or "not ok - name" for each,
# with the findings above it. Arguments select checks by name.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob globstar
export LC_ALL=C

sources=(src/**/*.[ch] bin/**/*.[ch] test/unit/**/*.[ch] test/fuzz/*.[ch] test/clock/*.c)
parts=(sql/parts/*.sql)
lite=(lite/parts/*.sql)
scripts=(container/*.sh lite/*.sh test/**/*.sh bench/**/*.sh examples/*/*.sh .ci/run)
status=0

# check NAME TITLE: runs check_NAME, which prints what is wrong and nothing else;
# a line that starts with "SKIP " says why it could not look
check() {
    local found
    [[ ${#only[@]} -eq 0 || " ${only[*]} " == *" $1 "* ]] || return 0
    found=$("check_$1" 2>&1 || true)
    if [[ $found == SKIP\ * ]]; then
        echo "ok - lint $1: $2 # $found"
    elif [[ -z $found ]]; then
        echo "ok - lint $1: $2"
    else
        sed 's/^/    /' <<<"$found"
        echo "not ok - lint $1: $2"
        status=1
    fi
}

check_format() {
    local major file
    major=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
    if [[ $major != 14 ]]; then
        echo "SKIP the style is that of clang-format 14, here is ${major:-none}"
        return
    fi
    for file in "${sources[@]}"; do
        clang-format "$file" | diff -u --label "$file" --label "clang-format -i $file" "$file" -
    done
}

check_shell() {
    if ! command -v shellcheck >/dev/null; then
        echo 'SKIP no shellcheck here'
        return
    fi
    # a file's sources are read again for each file, and all parts of the benchmark have the same
    shellcheck -S warning -e SC2154 bench/parts/*.sh
    printf '%s\n' "${scripts[@]}" | grep -v '^bench/parts/' | xargs shellcheck -x -S warning
}

# make unity=yes compiles a folder as one unit, in which two variables of a name without values are one. Two static functions have names of their own in
# the whole tree, and of more than a word: a backtrace says where it is.
check_statics() {
    local folder
    for folder in src/*/ src/*/*/ src/*/*/*/ bin/*/; do
        awk '/^static [^(]*;/ {
                sub(/ *=.*|;.*/, ""); gsub(/\[[^]]*\]/, ""); name = $0; sub(/.*[ *]/, "", name)
                if (name in file && file[name] != FILENAME) print FILENAME ": " name " is in " file[name] ", too"
                file[name] = FILENAME
            }' "$folder"*.c /dev/null
    done
    awk 'before ~ /^static [^=;()]*$/ && /^[a-z_0-9]+\(/ {
            name = $0; sub(/\(.*/, "", name)
            if (name in file && file[name] != FILENAME) print FILENAME ": " name "() is in " file[name] ", too"
            if (name !~ /_/) print FILENAME ": " name "() is one word"
            file[name] = FILENAME
        }
        { before = $0 }' {src,bin}/**/*.c
}

check_compat() {
    grep -n PG_VERSION_NUM src/**/*.[ch] /dev/null | grep -v '^src/base/compat\.h:'
}

# Pins and locks of rows' versions are those of src/core/rows/rowversions.c.
check_buffers() {
    grep -nwE 'LockBuffer|ReadBuffer(Extended)?|heap_hot_search_buffer' src/**/*.[ch] /dev/null |
        grep -vE '^src/(core/rows/rowversions|base/sequence)\.c:'
}

# The type of each value of a user's row must have been checked (src/base/rowread.c).
check_rows() {
    grep -nwE 'SPI_get(binval|value)|slot_getattr|(fast|heap_|nocache)getattr' src/**/*.[ch] /dev/null |
        grep -v '^src/base/rowread\.c:'
}

# A table that was found in a catalog or a cache may have gone (src/base/relopen.c); those of
# the server are there.
check_opens() {
    grep -nE '\<(table|relation|heap)_open\(|\<find_(inheritance_children|all_inheritors)\(|\<get_partition_parent\(' src/**/*.[ch] /dev/null |
        grep -vE '\<table_open\([A-Z]\w*RelationId,|^src/base/(compat\.h|relopen\.c):'
}

# A pid that was read under a lock is only good under it (src/core/worker/slots.c); the relay has
# children of its own.
check_signals() {
    grep -nE '\<kill(pg)?\(' src/**/*.[ch] bin/**/*.[ch] | grep -vE '^(src/core/worker/slots|bin/client/stop)\.c:'
}

# The server's qsort() takes quadratic time for what is made to that end, so it must be possible to cancel it. "few:" in the line
# above says why there are not many; (qsort)(...) is the C library's.
check_sorts() {
    grep -rlE '[^(]\b(qsort|list_sort)\(' src --include='*.c' | sort | while read -r file; do
        awk -v file="$file" '
            /^[a-z_0-9]+\(.*\)$/ { name = $0; sub(/\(.*/, "", name) }
            /CHECK_FOR_INTERRUPTS\(\)/ { checks[name] = 1 }
            /[^(]\<(qsort|list_sort)\(/ && !/^ *\*|^ \*|\/\*.*sort\(|list_oid_cmp/ && previous !~ /few: / { by = $NF; sub(/\).*/, "", by); sorts[NR] = by }
            { previous = $0 }
            END { for (line in sorts) if (!(sorts[line] in checks)) print file ":" line ": " sorts[line] "() lacks CHECK_FOR_INTERRUPTS()" }' "$file"
    done
}

# For each row of a catalog there may be many an object: loops over them come soon to a look at the interrupts.
check_loops() {
    awk '
        FNR == 1 && loop { print loop; loop = "" }
        /foreach\(.*_read_all\(/ { loop = FILENAME ":" FNR ": lacks CHECK_FOR_INTERRUPTS()"; until = FNR + 14 }
        /CHECK_FOR_INTERRUPTS\(\)/ { loop = "" }
        loop && FNR == until { print loop; loop = "" }
        END { if (loop) print loop }' src/**/*.c
}

check_versions() {
    local control entry version
    control=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" dcounter.control)
    while read -r version; do
        [[ $version == "$control" ]] || echo "META.json says $version, dcounter.control $control"
    done < <(sed -n '/"meta-spec"/,$d; s/.*"version": *"\([^"]*\)".*/\1/p' META.json)
    grep -q "\"file\": \"sql/dcounter--$control.sql\"" META.json ||
        echo "META.json does not name sql/dcounter--$control.sql"
    entry=$(sed -n 's/^## \[\([^ ]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
    [[ $entry == "$control" ]] || echo "CHANGELOG.md begins with $entry, dcounter.control says $control"
    entry=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
    [[ $entry == "$control" ]] || echo "debian/changelog begins with $entry, dcounter.control says $control"
}

# The install script of a release never changes again, and has an update script from it.
check_frozen() {
    local version sum before=''
    while read -r version _ sum; do
        [[ $version != '#' ]] || continue
        echo "$sum  sql/dcounter--$version.sql" | sha256sum -c --quiet - 2>&1 || true
        [[ -z $before || -e sql/dcounter--$before--$version.sql ]] || echo "no sql/dcounter--$before--$version.sql"
        before=$version
    done <sql/releases
    version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" dcounter.control)
    [[ $version == "$before" || -e sql/dcounter--$before--$version.sql ]] || echo "no sql/dcounter--$before--$version.sql"
}

# The manual pages have each option that --help tells of.
check_manual() {
    local option folder
    for folder in dc_relay dc_region; do
        local page=doc/$folder.1
        while read -r option; do
            sed 's/\\-/-/g' "$page" | grep -qwF -e "$option" || echo "$page: no $option"
        done < <(sed -n 's/^ *"  \(-.*\)/\1/p' bin/$folder/*.c | grep -oE -e '^(-[a-zA-Z?], )?--[a-z-]+' | grep -oE -e '--[a-z-]+')
    done
}

# dcounter_lite: a comment for each function, what each function states, a screen at most for each,
# and no search_path that a caller could have set, except for those that say so.
check_lite() {
    local text name parts=("${lite[@]}")
    check_comments
    awk '/^CREATE (FUNCTION|PROCEDURE) / { name = $3; sub(/\(.*/, "", name); from = FNR }
        /^END \$\$;$/ && FNR - from > 60 { print FILENAME ": " name "() has " FNR - from " lines" }' "${lite[@]}"
    while read -r text; do
        name=${text#CREATE * }
        name=${name%%(*}
        [[ $text =~ \ LANGUAGE\ [a-z]+\ (IMMUTABLE|STABLE|VOLATILE)\ PARALLEL\ (SAFE|RESTRICTED|UNSAFE)\ COST\ [0-9]+\  ]] || echo "$name: lacks volatility, PARALLEL or COST"
        [[ $text == *' SET search_path = pg_catalog, pg_temp '* || $name == @(dc_incr|dc_create|dc_stock_create|dc_apply|dcounter_lite.@(version|slot|writer_of|hold_lines|take|take_one|take_statement)) ]] || echo "$name: search_path is not pinned"
    done < <(awk '/^CREATE FUNCTION / { text = ""; inside = 1 } inside { gsub(/^[ \t]+/, ""); text = text (text == "" ? "" : " ") $0 } inside && / AS \$\$/ { print text; inside = 0 }' "${lite[@]}")
    sed 's/--.*//' "${lite[@]}" | grep -nE '^CREATE OR REPLACE|IF NOT EXISTS [a-z]'
}

# Overloads are told apart by their number only; pgTAP looks at the real ones.
check_comments() {
    local kind='(FUNCTION|PROCEDURE|AGGREGATE)'
    diff <(sed -nE "s/^CREATE $kind ([^ (]+).*/\1 \2/p" "${parts[@]}" /dev/null | sort) \
        <(sed -nE "s/^COMMENT ON $kind ([^ (]+).*/\1 \2/p" "${parts[@]}" /dev/null | sort) |
        sed -n 's/^< /no COMMENT ON /p; s/^> /COMMENT without CREATE: /p'
}

# Statements that create one of the kinds, each on one line
created() {
    awk -v kind="^CREATE ($1) " '$0 ~ kind { text = ""; inside = 1 }
        inside { gsub(/^[ \t]+/, ""); text = text (text == "" ? "" : " ") $0 }
        inside && /;$/ { print text; inside = 0 }' "${parts[@]}"
}

# A procedure has none of these; PostgreSQL sets a cost for aggregates itself.
check_cost() {
    local text returns rows
    while read -r text; do
        returns=one
        rows=one
        [[ $text =~ \ (IMMUTABLE|STABLE|VOLATILE)\  ]] || echo "no volatility: $text"
        [[ $text =~ \ PARALLEL\ (SAFE|RESTRICTED|UNSAFE)\  ]] || echo "no PARALLEL: $text"
        [[ $text =~ \ COST\ [0-9]+( ROWS\ [0-9]+)?\;$ ]] || echo "no COST at the end: $text"
        [[ ! $text =~ \ RETURNS\ (SETOF|TABLE)\  ]] || returns=many
        [[ ! $text =~ \ ROWS\ [0-9]+\;$ ]] || rows=many
        [[ $returns == "$rows" ]] || echo "ROWS goes with SETOF or TABLE: $text"
    done < <(created FUNCTION)
}

# dc_VERB works on counters and events, dc_NOUN_VERB on the thing it names; the rest is in schema
# dcounter, without dc_. HOW is how a verb is done.
verbs='trending|incr_at|window|buckets|top_window|seal|throttle|allow|enter|beat|exit|present|unread|mark_read|replicate|unreplicate|add|remove|contains|merge|delta|bind|unbind|build|mark|unmark|reconcile|incr|decr|load|set|reset|delete|get|info|total|top|scan|sum|take|want|restock|hold|transfer|publish|fetch|ack|nack|seek|create|alter|adopt|drop|apply|compact|flush|maintain|grant|reserve|settle|release'
how='wait|regions|as|many|all|once|once_many|returning|hashed|up_to'
nouns='throttle|distinct|window|limit|presence|unread|right|region|gcounter|pncounter|vclock|gset|orset|lww|mvreg|hlc|node|value|stamp|merge|source|table|stock|hold|ledger|account|balance|transfer|op|hll|cms|topk|outbox|consumer|dead_letter|worker|stat|mark|drift|rank|budget|allowance'
# As SQL says it, count(DISTINCT item); the two forms of dc_rank().
phrases='count_distinct|around|at_rank'

check_parallel() {
    perl test/parlint.pl
}

# Errors about our own objects say how they are made or listed.
check_hints() {
    perl test/hintlint.pl
}

check_names() {
    local kind name rest symbol
    local -A in_src
    while read -r symbol; do
        in_src[$symbol]=1
    done < <(grep -ohE '\<[a-z0-9_]+\>' src/**/*.c | sort -u)
    while read -r _ kind name rest; do
        name=${name%%[(;]*}
        symbol=${name#dcounter.}
        [[ ! $rest =~ AS\ \'MODULE_PATHNAME\',\ \'([a-z0-9_]+)\' ]] || symbol=${BASH_REMATCH[1]}
        if [[ $name == dcounter.* ]]; then
            name=${name#dcounter.}
            [[ $name != dc_* ]] || echo "$kind dcounter.$name: no dc_ in this schema"
            [[ $symbol =~ ^(dc_)?"$name"$ ]] || echo "$kind dcounter.$name: its C symbol is $symbol"
        else
            [[ $name =~ ^dc_(($verbs)(_($how))?|($nouns)s?(_[a-z_]+)?|$phrases)$ ]] ||
                echo "$kind $name: not a name by the rule"
            [[ $symbol =~ ^"$name"(_cached)?(_int8|_uuid|_amounts?|_counter|_pncounter|_[go]r?set|_lww|_mvreg)?$ ]] || echo "$kind $name: its C symbol is $symbol"
        fi
        [[ $kind != @(FUNCTION|PROCEDURE) || $symbol == *_@(int8|uuid) || ${in_src[$symbol]:-} ]] ||
            echo "$kind $name: no $symbol in src"
    done < <(created 'FUNCTION|PROCEDURE|AGGREGATE|VIEW')
}

# Either could take over an object that another user put there before.
check_capture() {
    local part
    for part in "${parts[@]}"; do
        sed 's/--.*//' "$part" | grep -niE 'OR +REPLACE|IF +NOT +EXISTS' | sed "s,^,$part:,"
    done
}

check_run() {
    local file name
    for file in test/sql/*.sql; do
        name=$(basename "$file" .sql)
        grep -qx "$name" test/regress.list || echo "$file is not in test/regress.list"
        [[ $name != iso_* ]] || echo "$file: the prefix iso_ is for test/specs"
        [[ -e expected/$name.out ]] || echo "$file has no expected/$name.out"
    done
    while read -r name; do
        [[ -e test/sql/$name.sql ]] || echo "test/regress.list: no test/sql/$name.sql"
    done < <(grep -vE '^(#|$)' test/regress.list)
    sort test/regress.list | uniq -d | grep -E '^[a-z]' | sed 's/$/ is twice in test\/regress.list/'
    for file in test/specs/*; do
        name=$(basename "$file" .spec)
        [[ $file == test/specs/iso_*.spec ]] || echo "$file: isolation tests are named iso_*.spec"
        [[ -e expected/$name.out ]] || echo "$file has no expected/$name.out"
    done
    # NAME_1.out is a second accepted output of NAME
    for file in expected/*.out; do
        name=$(basename "$file" .out)
        [[ -e test/sql/$name.sql || -e test/specs/$name.spec ||
            -e test/sql/${name%_[0-9]}.sql || -e test/specs/${name%_[0-9]}.spec ]] ||
            echo "$file belongs to no test"
    done
    for file in test/t/* test/t/*/*; do
        [[ -d $file || $file =~ ^test/t/[a-z]+/[a-z0-9_]+\.pl$ ]] || echo "$file: TAP tests are in a folder of their room"
    done
    # the server's Perl modules name the folders of a test's servers by the name of its file
    printf '%s\n' test/t/*/*.pl | sed 's,.*/,,' | sort | uniq -d | sed 's/$/ is the name of several TAP tests/'
    for file in test/pgtap/*; do
        [[ $file =~ ^test/pgtap/[a-z0-9_]+\.sql$ ]] || echo "$file: pgTAP tests are named name.sql"
    done
}

# The wings of src, and the rooms of each, in the order in which one may include another. Each includes only those before it; what it needs of a later one
# goes through src/base/hooks.h.
rooms=(base
    core/table core/rows core/counter core/compact core/stats core/worker
    types/sketch types/sketch/hll types/sketch/cms types/sketch/topk types/crdt
    events/outbox events/consumer
    transactional/stock transactional/once transactional/ledger transactional/bound transactional/rank transactional/budget transactional/unread
    memory/buffer memory/cache memory/limit memory/presence
    time/trend time/distinct time/window
    region)
programs=(client dc_relay dc_region)

check_rooms() {
    local file room above=' ' folder
    for folder in src/**/; do
        folder=${folder#src/}
        [[ -z $folder || " ${rooms[*]} " == *" ${folder%/}"[\ /]* ]] || echo "src/$folder is in no list of rooms (test/lint.sh)"
    done
    for room in "${rooms[@]}"; do
        above+="$room "
        for file in src/"$room"/*.[ch]; do
            sed -n 's/^#include "\(.*\)\/\([^/]*\.h\)"$/\1 \2/p' "$file" | while read -r folder name; do
                [[ ! -e src/$folder/$name || $above == *" $folder "* ]] ||
                    echo "$file includes $folder/$name, of a room below"
            done
        done
    done
    above=' '
    for room in "${programs[@]}"; do
        above+="bin/$room "
        grep -nE '^#include "[^"]*/' bin/"$room"/*.[ch] | while IFS=: read -r file _ line; do
            folder=${line#*\"}
            [[ $above == *" ${folder%/*} "* ]] || echo "$file: $line"
        done
    done
}

# Our headers are in a block of their own: a name of the server's cannot be taken for one of ours.
check_includes() {
    awk 'FNR == 1 { theirs = ours = 0 }
        !/^#include/ { theirs = ours = 0; next }
        { name = $2; gsub(/["<>]/, "", name)
          if (name ~ /^(base|core|types|events|transactional|memory|time|region|bin)\//) ours = 1; else theirs = 1
          if (ours && theirs) print FILENAME ":" FNR ": " $0 }' {src,bin}/**/*.[ch]
}

# A file calls down its room, not around. Those with larger circles are from before this check: none may grow.
check_circles() {
    perl test/circlelint.pl src/transactional/{bound,stock}=1 src/memory/buffer=1 src/core/{compact,worker}=1 src/events/consumer=1 src/region=1 bin/dc_region=1 \
        src/transactional/ledger=4 src/memory/limit=5 src/memory/presence=8 src/core/table=4
}

# NAME.c and NAME.h of one room go together.
check_filenames() {
    local name
    printf '%s\n' src/**/*.[ch] bin/**/*.[ch] | sed 's/\.[ch]$//' | sort -u | sed 's,.*/,,' | sort | uniq -d |
        while read -r name; do
            echo "$name is the name of several files:" {src,bin}/**/"$name".[ch]
        done
    # nor do two differ by a plural
    printf '%s\n' {src,bin}/**/*.c | sed 's/\.c$//; s,.*/,,; s/s$//' | sort | uniq -d | sed 's/$/ and its plural are two files/'
}

# The README of a room names each of its files, in a table, and no others. A header goes with the .c file of its name. It has three screens at most, that of
# a wing one. A wing's README names its rooms, and doc/internals.md the wings.
check_readmes() {
    local folder file name names wing lines
    for folder in src/*/ bin/; do
        grep -qF "](../${folder}README.md)" doc/internals.md || echo "doc/internals.md does not name $folder"
    done
    for folder in "${rooms[@]/#/src/}" "${programs[@]/#/bin/}"; do
        [[ $folder != src/*/*/* ]] || continue # a part of a room: in its README
        [[ -e $folder/README.md ]] || {
            echo "$folder has no README.md"
            continue
        }
        lines=$(wc -l <"$folder/README.md")
        [[ $lines -le 150 ]] || echo "$folder/README.md: $lines lines"
        wing=${folder%/*}
        [[ $wing == src ]] || grep -qF "](${folder##*/}/README.md)" "$wing/README.md" || echo "$wing/README.md does not name ${folder##*/}"
        names=' '
        while read -r name; do
            names+="$name "
            [[ -e $folder/$name ]] || echo "$folder/README.md names $name, which does not exist"
        done < <(sed -n 's/^| \(`[^|]*\.[ch]`[^|]*\)|.*/\1/p' "$folder/README.md" | grep -oE '`[^`]+`' | tr -d '`')
        for file in "$folder"/**/*.[ch]; do
            name=${file#"$folder"/}
            [[ $names == *" $name "* || $names == *" ${name%.h}.c "* ]] || echo "$folder/README.md does not name $name"
        done
    done
    for wing in src/*/README.md bin/README.md; do
        lines=$(wc -l <"$wing")
        [[ $lines -le 50 || " ${rooms[*]} " == *" $(basename "$(dirname "$wing")") "* ]] || echo "$wing: $lines lines"
    done
}

# A path in a comment leads somewhere.
check_paths() {
    local file path
    grep -noE '\<(core|types|events|transactional|memory|time)/[a-z]+/[a-z/]+\.[ch]\>' src/**/*.[ch] test/unit/*.[ch] | while IFS=: read -r file line path; do
        [[ -e src/$path ]] || echo "$file:$line: there is no $path"
    done
}

# The statements of the user's pages about the sources and about each other.
check_reference() {
    perl test/doclint.pl reference
}

check_blocks() {
    perl test/doclint.pl blocks
}

check_links() {
    perl test/doclint.pl links
}

# Pages as people read them, in words that they search for (CONTRIBUTING.md).
check_pages() {
    perl test/doclint.pl pages
}

check_phrases() {
    perl test/doclint.pl phrases
}

check_widths() {
    perl test/doclint.pl widths
}

check_length() {
    local file lines most
    for file in {src,bin}/**/*.[ch] test/t/*/*.pl; do
        lines=$(wc -l <"$file")
        most=800
        [[ $file != test/t/* ]] || most=600
        [[ $lines -le $most ]] || echo "$file: $lines lines"
    done
}

written=(src bin sql/parts lite debian container Containerfile test bench examples .ci Makefile dcounter.control ./*.md doc)

# Binary files, build products, inputs of the fuzzers and patches are not
# looked at.
check_whitespace() {
    grep -rnIE --exclude='*.o' --exclude-dir={seeds,node_modules,__pycache__} --exclude='*.patch' '[[:space:]]+$' "${written[@]}" 2>/dev/null
}

check_leftovers() {
    grep -rnIwE --exclude-dir={seeds,node_modules,__pycache__} 'TO[D]O|FIX[M]E|X[X]X' "${written[@]}" 2>/dev/null
    find . \( -name .git -o -name node_modules \) -prune -o \( -name '*.part' -o -name '*.orig' -o -name '*.rej' -o -name '*.bak' -o -name '*~' \) -print
}

only=("$@")
# Words with a meaning of their own are few, and have one.
check_glossary() {
    local words
    words=$(awk '/^\| word \| meaning \|/ { table = 1; next } !/^\|/ { table = 0 }
        table && !/^\|---/ { split($0, cell, "|"); gsub(/^ +| +$/, "", cell[2]); print cell[2] }' doc/internals.md src/**/README.md)
    sort <<<"$words" | uniq -d | sed 's/$/ is explained twice/'
    [[ $(wc -l <<<"$words") -le 45 ]] || echo "the glossary has $(wc -l <<<"$words") words; 45 is the most"
}

# Name, purpose, copyright: as PostgreSQL's own.
check_headers() {
    awk 'FNR == 1 { if ($0 != "/*") print FILENAME ": does not begin with a comment" }
        FNR == 2 { name = FILENAME; sub(/.*\//, "", name); if ($0 != " * " name) print FILENAME ": its comment does not begin with its name" }
        FNR < 9 && /^ \* Copyright \(c\) 2026, the dcounter developers$/ { found[FILENAME] }
        FNR == 9 && !(FILENAME in found) { print FILENAME ": no copyright line" }' {src,bin}/**/*.[ch]
}

check format 'C files are formatted'
check headers 'each source file begins with its name, what it is for, and the copyright line'
check shell 'shellcheck finds nothing'
check statics 'static variables and functions have names of their own'
check compat 'only src/base/compat.h tests the PostgreSQL version'
check buffers 'only src/core/rows/rowversions.c locks buffers of rows'
check rows 'only src/base/rowread.c takes values out of rows'
check opens 'only tables of the server are opened as if they were there for good'
check signals 'only src/core/worker/slots.c signals workers'
check sorts 'a long sort can be canceled'
check loops 'a loop over the rows of a catalog can be canceled'
check versions 'control file, META.json and CHANGELOG.md agree'
check frozen 'what releases have installed is as it was, and can be updated'
check manual 'the manual pages have each option of dc_relay and dc_region'
check comments 'each SQL function has its comment'
check hints 'errors about missing objects of our own have a hint'
check lite 'functions of dcounter_lite state what they are, are short and have a pinned search_path'
check cost 'each SQL function states volatility, PARALLEL, COST and ROWS'
check parallel 'only PARALLEL UNSAFE functions take snapshots of their own'
check names 'names are by the rule, C symbols are named like them'
check capture 'the install script replaces nothing'
check run 'each test file is run and has its output'
check length 'no source file is longer than 800 lines, no TAP test longer than 600'
check rooms 'rooms include only rooms above them'
check includes 'our headers are in a block of their own'
check paths 'paths in comments lead somewhere'
check circles 'files of a room do not call each other in circles'
check filenames 'no two source files have one name, or nearly so'
check glossary 'the glossary has at most 45 words, each with one meaning'
check readmes 'the README of each room names its files'
check reference 'doc/reference.md has all that there is, and nothing else'
check blocks 'each block of the documentation is run by a test, or says why not'
check links 'links of the documentation lead somewhere'
check pages 'first pages of products begin with what the reader needs, and are short'
check phrases 'the documentation is in the words of the field'
check widths 'prose is wrapped at 100 columns'
check whitespace 'no trailing white space'
check leftovers 'nothing is marked as left over'
exit "$status"
