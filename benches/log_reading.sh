#!/usr/bin/env bash
# How fast logs are read, beside the programs that people would use instead.
#
#   benches/log_reading.sh [--size 1GiB] [--slow-size 64MiB] [--runs 5] [--formats "stderr csvlog jsonlog"]
#                          [--profile pgbench|mixed] [--logging ended|started|both]
#                          [--directory DIR] [--stream 10GiB]
#
# Builds the release program and the generator, has the generator write one log of each format, and
# runs every reader over the same file, as whole processes, taking turns, RUNS times. Prints the
# medians: CPU time (user + system), wall time, MB of log a second of CPU time, and times wc's and
# grep's CPU time; and the highest peak of memory. CPU time is what to compare: it hardly changes on
# a machine that does other things too.
#
# Readers: wc -l, grep -c LOG, rehearse (checking only, and with the workload written, on one core
# and on two), and, where installed, pgreplay -f, pgreplay-go and pgBadger. pgreplay-go's program is
# called pgreplay too: give its path in PGREPLAY_GO. Programs that take a minute and more for a GiB
# read a shorter log of the same kind (--slow-size), once; their lines say so, and their times wc's and
# grep's are by the MB.
#
# --stream LENGTH adds a log of that length that is never on disk, for peak memory.
set -euo pipefail

size=1GiB slow_size=64MiB runs=5 formats="stderr csvlog jsonlog" profile=pgbench logging=ended
directory="" stream=""
while (($#)); do
    case $1 in
    --size) size=$2 ;;
    --slow-size) slow_size=$2 ;;
    --runs) runs=$2 ;;
    --formats) formats=$2 ;;
    --profile) profile=$2 ;;
    --logging) logging=$2 ;;
    --directory) directory=$2 ;;
    --stream) stream=$2 ;;
    *)
        echo "log_reading.sh: no option $1; see the text at its beginning" >&2
        exit 2
        ;;
    esac
    shift 2
done

clock=$(command -v time || true)
[[ -x $clock ]] || clock=/usr/bin/time
[[ -x $clock ]] || { echo "log_reading.sh: GNU time is needed (apt-get install time)" >&2; exit 3; }

# The one prefix that pgreplay and pgreplay-go read.
prefix='%m|%u|%d|%c|'

cd "$(dirname "$0")/.."
cargo build --release --quiet -p rehearse
cargo build --release --quiet -p capture --example generate_log
target=${CARGO_TARGET_DIR:-target}/release
rehearse=$target/rehearse
generate=$target/examples/generate_log

work=$(mktemp -d "${directory:-${TMPDIR:-/tmp}}/log_reading.XXXXXX")
trap 'rm -rf "$work"' EXIT

# log FILE SIZE FORMAT: writes a log; prints how many statements its clients sent.
log() {
    "$generate" --bytes "$2" --format "$3" --profile "$profile" --logging "$logging" \
        --prefix "$prefix" --output "$1" 2>"$work/said"
    sed -n 's/.* statements: \([0-9]*\),.*/\1/p' "$work/said"
}

# measure NAME FILE COMMAND...: runs it, and notes name, bytes, CPU s, wall s, KiB, exit code.
measure() {
    local name=$1 file=$2 code=0
    shift 2
    # Times are the shell's, to the millisecond: GNU time's hundredths are a fifth of what wc takes.
    local TIMEFORMAT='%3U %3S %3R'
    { time "$clock" -q -f '%M' -o "$work/peak" "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || code=$?
    paste -d ' ' "$work/time" "$work/peak" | awk -v name="$name" -v bytes="$(stat -c %s "$file")" -v code="$code" \
        -v OFS='\t' '{ print name, bytes, $1 + $2, $3, $4, code }' >>"$work/results"
    if ((code)); then
        echo "$name ended with exit code $code: $(head -n 1 "$work/err")" >&2
    fi
}

# The readers of one round, by turns.
round() {
    local run=$1 format=$2 file=$3 slow=$4 statements=$5 name counted
    measure "wc -l" "$file" wc -l "$file"
    measure "grep -c LOG" "$file" grep -c LOG "$file"
    for cores in 0 0,1; do
        name="one core"
        [[ $cores == 0 ]] || name="two cores"
        measure "rehearse --dry-run, $name" "$file" \
            taskset -c "$cores" "$rehearse" capture log "$file" --dry-run --json
        counted=$(sed -n 's/.*"statements": *\([0-9]*\).*/\1/p' "$work/out" | head -n 1)
        if [[ $counted != "$statements" ]]; then
            echo "rehearse found ${counted:-no} statements, not the $statements that were sent" >&2
        fi
        rm -rf "$work/log.workload"
        measure "rehearse -o, $name" "$file" \
            taskset -c "$cores" "$rehearse" capture log "$file" -o "$work/log.workload"
    done
    ((run == 1)) || return 0
    case $format in
    stderr)
        peer pgreplay && measure "pgreplay -f *" "$slow" pgreplay -f -o /dev/null "$slow"
        [[ -x ${PGREPLAY_GO:-} ]] && measure "pgreplay-go filter *" "$slow" \
            "$PGREPLAY_GO" --metrics-address 127.0.0.1 --metrics-port 19445 filter --errlog-input "$slow" --null-output
        peer pgbadger && measure "pgbadger *" "$slow" \
            pgbadger -q -f stderr -p "$prefix" -o "$work/report.html" "$slow"
        ;;
    csvlog)
        peer pgreplay && measure "pgreplay -f -c *" "$slow" pgreplay -f -c -o /dev/null "$slow"
        [[ -x ${PGREPLAY_GO:-} ]] && measure "pgreplay-go filter *" "$slow" \
            "$PGREPLAY_GO" --metrics-address 127.0.0.1 --metrics-port 19445 filter --csvlog-input "$slow" --null-output
        peer pgbadger && measure "pgbadger *" "$slow" \
            pgbadger -q -f csv -o "$work/report.html" "$slow"
        ;;
    jsonlog)
        peer pgbadger && measure "pgbadger *" "$slow" \
            pgbadger -q -f jsonlog -o "$work/report.html" "$slow"
        ;;
    esac
    return 0
}

peer() { command -v "$1" >/dev/null; }

# Medians of what was noted, and the table.
table() {
    awk -F '\t' -v OFS='\t' '
        function median(list, count,   order, i, j, held) {
            for (i = 1; i <= count; i++) order[i] = list[i]
            for (i = 2; i <= count; i++)
                for (j = i; j > 1 && order[j] < order[j - 1]; j--) {
                    held = order[j]; order[j] = order[j - 1]; order[j - 1] = held
                }
            return count % 2 ? order[(count + 1) / 2] : (order[count / 2] + order[count / 2 + 1]) / 2
        }
        !($1 in runs) { names[++known] = $1 }
        {
            n = ++runs[$1]; bytes[$1] = $2; cpu[$1, n] = $3; wall[$1, n] = $4
            if ($5 > peak[$1]) peak[$1] = $5
            if ($6) failed[$1] = 1
        }
        END {
            print "program", "CPU s", "wall s", "MB/s", "x wc", "x grep", "peak MiB", "runs"
            for (k = 1; k <= known; k++) {
                name = names[k]
                for (i = 1; i <= runs[name]; i++) { c[i] = cpu[name, i]; w[i] = wall[name, i] }
                used = median(c, runs[name]); took = median(w, runs[name])
                per_byte = used / bytes[name]
                if (name == "wc -l") wc = per_byte
                if (name == "grep -c LOG") grep = per_byte
                printf "%s\t%.3f\t%.3f\t%.1f\t%.2f\t%.2f\t%.1f\t%d%s\n", name, used, took,
                    used ? bytes[name] / 1e6 / used : 0, wc ? per_byte / wc : 0,
                    grep ? per_byte / grep : 0, peak[name] / 1024, runs[name],
                    failed[name] ? " (failed)" : ""
            }
        }' "$work/results" | column -t -s $'\t'
}

for format in $formats; do
    file=$work/postgresql.$format slow=$work/slow.$format
    statements=$(log "$file" "$size" "$format")
    log "$slow" "$slow_size" "$format" >/dev/null
    : >"$work/results"
    echo "== $format: $profile, $logging, $(stat -c %s "$file") bytes, $(wc -l <"$file") lines, $statements statements"
    # Into the page cache.
    cat "$file" "$slow" >/dev/null
    for ((run = 1; run <= runs; run++)); do
        round "$run" "$format" "$file" "$slow" "$statements"
    done
    table
    echo "* reads $slow_size of the same kind"
    rm -rf "$file" "$slow" "$work/log.workload"
done

if [[ -n $stream ]]; then
    for format in $formats; do
        "$generate" --bytes "$stream" --format "$format" --profile "$profile" --logging "$logging" \
            --prefix "$prefix" --output - 2>"$work/said" |
            "$clock" -q -f '%U %S %e %M' -o "$work/time" \
                "$rehearse" capture log - --dry-run --json >"$work/out" 2>"$work/err"
        awk -v format="$format" -v stream="$stream" \
            '{ printf "== %s, %s streamed: %.2f s of CPU, %.2f s, peak %.1f MiB\n", format, stream, $1 + $2, $3, $4 / 1024 }' \
            "$work/time"
    done
fi
