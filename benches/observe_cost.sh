#!/usr/bin/env bash
# What watching costs the server: processor time of all its processes, as the kernel counts it, for the
# same work of pgbench with and without `rehearse observe` beside it, by turns.
#
#   benches/observe_cost.sh REHEARSE URL [ROUNDS] [SECONDS] [TRANSACTIONS A SECOND]
#
# The server has to be on this machine, with pgbench's tables (pgbench -i -s 10) and pgbench and psql at
# hand. Prints each turn and the medians. Times of processes that have ended are their postmaster's.
set -euo pipefail
rehearse=$1 url=$2 rounds=${3:-8} seconds=${4:-10} rate=${5:-1000}
pgbench=${PGBENCH:-pgbench}

postmaster=$(psql "$url" -Atc "SELECT pg_read_file('postmaster.pid', 0, 40)" | head -1)

# Milliseconds of the postmaster, its children, and those of them that have ended.
server_ms() {
    for pid in "$postmaster" $(cat "/proc/$postmaster/task/$postmaster/children"); do
        sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null || true
    done | awk -v tick=10 'NR == 1 { ms += ($14 + $15) * tick } { ms += ($12 + $13) * tick } END { print ms }'
}

turn() {
    local how=$1 watch= before after
    if [ "$how" = on ]; then
        "$rehearse" observe --target "$url" >/dev/null 2>&1 &
        watch=$!
    fi
    sleep 2
    before=$(server_ms)
    "$pgbench" -n -S -c 8 -j 1 -R "$rate" -T "$seconds" "$url" >/dev/null 2>&1
    sleep 0.3
    after=$(server_ms)
    if [ -n "$watch" ]; then
        kill -INT "$watch"
        wait "$watch" || true
    fi
    echo "$how $(((after - before)))"
}

results=$(mktemp)
trap 'rm -f "$results"' EXIT
for round in $(seq "$rounds"); do
    if [ $((round % 2)) = 0 ]; then order="on off"; else order="off on"; fi
    for how in $order; do turn "$how" | tee -a "$results"; done
done
median() {
    awk -v how="$1" '$1 == how { print $2 }' "$results" | sort -n | awk '{ a[NR] = $1 } END { print (NR % 2) ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'
}
off=$(median off) on=$(median on)
awk -v off="$off" -v on="$on" -v s="$seconds" 'BEGIN {
    printf "medians: %.0f ms without, %.0f ms with: %.1f ms for each second, %.2f %% of one processor, %.1f %% of what the work took\n",
        off, on, (on - off) / s, (on - off) / s / 10, (on - off) / off * 100 }'
