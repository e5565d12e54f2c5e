#!/usr/bin/env bash
# Client CPU per statement: a replay at full speed beside pgbench in the same mode, by turns, against a
# server of its own; then the memory of 10,000 sessions against a stub.
#
#   benches/replay_cpu.sh [STATEMENTS] [TURNS]
#
# Needs pgbench (Debian: postgresql-15) and GNU time. A loaded machine makes both dearer: look at the
# ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
statements=${1:-100000}
turns=${2:-3}
for program in pgbench /usr/bin/time; do
    command -v "$program" >/dev/null || { echo "$program is not there" >&2; exit 3; }
done
cargo build --release --quiet -p rehearse
cargo build --release --quiet -p replay --example closed_loop --example many_sessions
rehearse=target/release/rehearse
name="replay-cpu-$$"
url=$("$rehearse" sandbox up "$name" --postgres-version 15 | grep -o 'postgres://[^ ]*')
trap '"$rehearse" sandbox down "$name" >/dev/null' EXIT
pgbench -i -q -s 1 "$url" 2>/dev/null
for sessions in 8 64; do
    for mode in simple extended prepared; do
        ratios=()
        for _ in $(seq "$turns"); do
            each=$((statements / sessions))
            peer=$({ /usr/bin/time -f '%U %S' \
                pgbench -n -S -M "$mode" -c "$sessions" -j 1 -t "$each" "$url" >/dev/null; } 2>&1 |
                tail -1 | awk -v n="$((each * sessions))" '{ printf "%.2f", ($1 + $2) * 1e6 / n }')
            ours=$(target/release/examples/closed_loop "$url?sslmode=disable" \
                "$mode" "$sessions" "$statements" | grep -oP '[0-9.]+(?= µs of CPU)')
            ratios+=("$(awk -v a="$ours" -v b="$peer" 'BEGIN { printf "%.2f", a / b }')")
            echo "$mode, $sessions sessions: pgbench $peer µs, replay $ours µs a statement"
        done
        median=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n "$(((turns + 1) / 2))p")
        echo "$mode, $sessions sessions: replay / pgbench = $median (median of $turns)"
    done
done
target/release/examples/many_sessions 10000
