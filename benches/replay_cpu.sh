#!/usr/bin/env bash
# Client CPU per statement: a replay at full speed beside pgbench in the same mode, by turns, against a
# server of its own; then the memory of 10,000 sessions against a stub.
#
#   benches/replay_cpu.sh [STATEMENTS] [TURNS]
#
# Needs pgbench (Debian: postgresql-15) and GNU time. A loaded machine makes both dearer: look at the
# ratios. COUNT=tasks has the kernel's counters of tasks count (perf stat), whole processes, and not its scheduler, which
# may charge who is woken with what others do until they leave (docs/explanation/cpu-profiles.md). Both are run by turns, each first in
# every other one. OVER=unix goes over the server's unix socket, where less of the time is the network's.
# PROCESSORS=0 keeps all of it, the server too, on the processors that taskset is given: on one, nobody is woken on
# another, which on a virtual machine can cost more than all else and differs from run to run (docs/benchmarks/replay.md).
set -euo pipefail
if [[ -n ${PROCESSORS:-} && -z ${KEPT_ON_THEM:-} ]]; then
    KEPT_ON_THEM=yes exec taskset -c "$PROCESSORS" "$0" "$@"
fi
cd "$(dirname "$0")/.."
statements=${1:-100000}
turns=${2:-3}
count_by=${COUNT:-scheduler}
case $count_by in
scheduler) ;;
tasks) command -v perf >/dev/null || { echo "perf is not there" >&2; exit 3; } ;;
*) echo "COUNT is scheduler or tasks, not $count_by" >&2; exit 2 ;;
esac
for program in pgbench psql /usr/bin/time; do
    command -v "$program" >/dev/null || { echo "$program is not there" >&2; exit 3; }
done
cargo build --release --quiet -p rehearse
cargo build --release --quiet -p replay --example closed_loop --example many_sessions
rehearse=target/release/rehearse
name="replay-cpu-$$"
over=${OVER:-tcp}
case $over in
tcp | unix) ;;
*) echo "OVER is tcp or unix, not $over" >&2; exit 2 ;;
esac
url=$("$rehearse" sandbox up "$name" --postgres-version 15 | grep -o 'postgres://[^ ]*')
place=$(mktemp -d)
trap '"$rehearse" sandbox down "$name" >/dev/null; rm -rf "$place"' EXIT

# tasks NUMBER PROGRAM…: runs it, its output to $place/out; prints its µs for each of so many statements, by perf.
tasks() {
    local number=$1
    shift
    LC_ALL=C perf stat -x ';' -e task-clock -o "$place/count" -- "$@" >"$place/out" 2>&1
    awk -F ';' -v n="$number" '$2 == "msec" { printf "%.2f", $1 * 1000 / n }' "$place/count"
}
pgbench -i -q -s 1 "$url" 2>/dev/null
where="$url?sslmode=disable"
if [[ $over = unix ]]; then
    sockets=$(psql "$url" -AtXc "SHOW unix_socket_directories")
    where="postgres://postgres@/postgres?host=$sockets&port=$(grep -oP ':\K[0-9]+(?=/)' <<<"$url")"
fi
for sessions in 8 64; do
    for mode in simple extended prepared; do
        ratios=()
        each=$((statements / sessions))
        all=$((each * sessions))
        peer() {
            local pgbench=(pgbench -n -S -M "$mode" -c "$sessions" -j 1 -t "$each" "$where")
            if [[ $count_by = tasks ]]; then
                tasks "$all" "${pgbench[@]}"
            else
                { /usr/bin/time -f '%U %S' "${pgbench[@]}" >"$place/out"; } 2>&1 |
                    tail -1 | awk -v n="$all" '{ printf "%.2f", ($1 + $2) * 1e6 / n }'
            fi
        }
        ours() {
            local loop=(target/release/examples/closed_loop "$where" "$mode" "$sessions" "$all" "$place/$mode-$sessions.workload")
            if [[ $count_by = tasks ]]; then
                tasks "$all" "${loop[@]}"
            else
                "${loop[@]}" >"$place/out"
                grep -oP '[0-9.]+(?= µs of CPU)' "$place/out"
            fi
        }
        ours >/dev/null || true # makes the workload
        for turn in $(seq "$turns"); do
            if ((turn % 2)); then
                peer=$(peer) rate=$(grep -oP '^tps = \K[0-9]+' "$place/out")
                ours=$(ours) own_rate=$(grep -oP '[0-9]+(?= statements/s)' "$place/out")
            else
                ours=$(ours) own_rate=$(grep -oP '[0-9]+(?= statements/s)' "$place/out")
                peer=$(peer) rate=$(grep -oP '^tps = \K[0-9]+' "$place/out")
            fi
            ratios+=("$(awk -v a="$ours" -v b="$peer" 'BEGIN { printf "%.2f", a / b }')")
            echo "$mode, $sessions sessions: pgbench $peer µs, $rate a second; replay $ours µs, $own_rate a second"
        done
        median=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n "$(((turns + 1) / 2))p")
        echo "$mode, $sessions sessions: replay / pgbench = $median (median of $turns)"
    done
done
target/release/examples/many_sessions 10000
