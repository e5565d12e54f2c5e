#!/usr/bin/env bash
# What a proxy costs: pgbench -S directly, through PgBouncer (session pooling), and through `rehearse
# capture proxy` that writes a workload, by turns, before the same server, at 1, 8 and 64 clients, in
# simple and prepared mode.
#
#   benches/proxy_cost.sh [SECONDS] [TURNS]
#
# Both programs are begun anew with each turn: how fast a process is depends on where its memory happens to lie.
# Prints for each the medians of the turns: statements a second, median latency, what it adds to the
# direct one of the same turn, and the proxy's own CPU time a statement (user and system, of all its
# threads); then the proxy's numbers as ratios to PgBouncer's of the same turn, medians as well. Each
# line of a turn is printed before that. After each run a second passes before the CPU time is read, so
# that what is done behind the traffic counts too; what ending the workload costs is said apart.
#
# How much of the time the processors were idle, the warm second and the start of pgbench included, tells runs over
# several processors apart: saturated or not is what decides there (docs/benchmarks/proxy.md).
#
# Needs pgbench (Debian: postgresql-15), python3, GNU time, and PgBouncer (Debian: pgbouncer); without
# PgBouncer, or with a program that has no `capture proxy`, that part is left out, and said so. REHEARSE
# names a program that is there already; otherwise it is built. CLIENTS="1 8 64" and MODES="simple
# prepared" can be set. RATE=2000 has all clients together send so many a second instead of as many as they
# can: the latencies are then those of a server and a proxy that are not saturated. Clients, proxy and
# server share the machine: it should do nothing else. COUNT=samples counts CPU time by samples of all processors (perf,
# 997 a second) and not by the kernel's count, which may charge who is woken with what others do until they leave
# (docs/explanation/cpu-profiles.md); what a statement takes with the end of the workload is the kernel's count in any case.
# PROCESSORS=0 keeps all of it, the server too, on the processors that taskset is given: on one, nobody is woken on
# another, which on a virtual machine can cost more than all else and differs from run to run (docs/benchmarks/proxy.md). How
# long an idle processor of a virtual machine is awake before it halts is printed first; as root,
# /sys/module/haltpoll/parameters/guest_halt_poll_ns sets it.
#
# Throughput and latency are those of what ended after the first second of a run (WARM=1): a server process that was just
# opened does its first statements slowly. WARM=0 counts all. So that all ways begin alike, PgBouncer closes its server
# processes a second after a run (IDLE=1): otherwise, as with IDLE=600, it has those of the run before, and the others
# run beside as many idle ones as it keeps.
set -euo pipefail
if [[ -n ${PROCESSORS:-} && -z ${KEPT_ON_THEM:-} ]]; then
    KEPT_ON_THEM=yes exec taskset -c "$PROCESSORS" "$0" "$@"
fi
cd "$(dirname "$0")/.."
seconds=${1:-10}
turns=${2:-5}
read -ra clients <<<"${CLIENTS:-1 8 64}"
rate=${RATE:+-R $RATE}
count_by=${COUNT:-kernel}
warm=${WARM:-1}
idle=${IDLE:-1}
((warm < seconds)) || { echo "WARM=$warm leaves nothing of a run of $seconds s" >&2; exit 2; }
read -ra modes <<<"${MODES:-simple prepared}"
for program in pgbench python3 /usr/bin/time; do
    command -v "$program" >/dev/null || { echo "$program is not there" >&2; exit 3; }
done
case $count_by in
kernel) ;;
samples) command -v perf >/dev/null || { echo "perf is not there" >&2; exit 3; } ;;
*) echo "COUNT is kernel or samples, not $count_by" >&2; exit 2 ;;
esac
rehearse=${REHEARSE:-}
if [[ -z $rehearse ]]; then
    cargo build --release --quiet -p rehearse
    rehearse=target/release/rehearse
fi
pgbouncer=$(PATH=$PATH:/usr/sbin command -v pgbouncer || true)
ways=(direct)
if [[ -n $pgbouncer ]]; then
    ways+=(pgbouncer)
else
    echo "LEFT OUT: pgbouncer is not there (apt-get install pgbouncer)"
fi
if "$rehearse" capture proxy --help >/dev/null 2>&1; then
    ways+=(rehearse)
else
    echo "LEFT OUT: $rehearse has no \`capture proxy\`"
fi
awake=/sys/module/haltpoll/parameters/guest_halt_poll_ns
if [[ -r $awake ]]; then
    echo "an idle processor is awake for at most $(<"$awake") ns before it halts"
fi
name="proxy-cost-$$"
place=$(mktemp -d)
chmod 755 "$place"
bouncer="" proxy=""
ended() {
    [[ -z $bouncer ]] || kill "$bouncer" 2>/dev/null || true
    [[ -z $proxy ]] || kill "$proxy" 2>/dev/null || true
    wait
    "$rehearse" sandbox down "$name" >/dev/null
    rm -rf "$place"
}
trap ended EXIT
url=$("$rehearse" sandbox up "$name" --postgres-version 15 --set max_connections=200 |
    grep -o 'postgres://[^ ]*')
port=$(grep -oP ':\K[0-9]+(?=/)' <<<"$url")
pgbench -i -q -s 1 "$url" 2>/dev/null

# free: a port that nobody listens on.
free() {
    python3 -c "
import socket
with socket.create_server(('127.0.0.1', 0)) as one: print(one.getsockname()[1])"
}

# listening PORT PID: waits until the process listens, without connecting to it.
listening() {
    local hex
    hex=$(printf '0100007F:%04X 00000000:0000 0A' "$1")
    for _ in $(seq 100); do
        ! grep -q "$hex" /proc/net/tcp || return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    return 1
}

# It refuses to be root.
if [[ -n $pgbouncer ]]; then
    through_bouncer=$(free)
    cat >"$place/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$port
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $through_bouncer
unix_socket_dir =
auth_type = trust
auth_file = $place/users
pool_mode = session
default_pool_size = 100
max_client_conn = 200
server_idle_timeout = $idle
client_tls_sslmode = disable
server_tls_sslmode = disable
INI
    echo '"postgres" ""' >"$place/users"
    as=()
    ((EUID)) || as=(-u nobody)
fi

# start_bouncer: PgBouncer anew.
start_bouncer() {
    [[ -z $bouncer ]] || { kill "$bouncer"; wait "$bouncer" || true; }
    "$pgbouncer" -q "${as[@]}" "$place/pgbouncer.ini" >"$place/pgbouncer.out" 2>&1 &
    bouncer=$!
    listening "$through_bouncer" "$bouncer" ||
        { cat "$place/pgbouncer.out" >&2; echo "pgbouncer did not start" >&2; exit 3; }
}

# start WORKLOAD: the proxy that captures.
start() {
    through_proxy=$(free)
    /usr/bin/time -f '%U %S' -o "$place/time" "$rehearse" capture proxy \
        --listen "127.0.0.1:$through_proxy" --upstream "$url" -o "$1" >"$place/proxy.out" 2>&1 &
    timed=$!
    for _ in $(seq 50); do
        proxy=$(cat "/proc/$timed/task/$timed/children") && [[ -n $proxy ]] && break
        sleep 0.1
    done
    proxy=${proxy% }
    listening "$through_proxy" "$timed" ||
        { cat "$place/proxy.out" >&2; echo "the proxy did not start" >&2; exit 3; }
}

# cpu PID: user and system time of all its threads, in ms.
cpu() {
    sed 's/.*) //' "/proc/$1/stat" | awk -v tick="$(getconf CLK_TCK)" '{ print ($12 + $13) * 1000 / tick }'
}

# idle: for how many ms the processors that may be used have been idle, all together, and how many they are.
idle() {
    python3 -c "
import os
mine = os.sched_getaffinity(0)
lines = (line.split() for line in open('/proc/stat') if line[:3] == 'cpu' and line[3].isdigit())
ticks = sum(int(line[4]) + int(line[5]) for line in lines if int(line[0][3:]) in mine)
print(ticks * 1000 // os.sysconf('SC_CLK_TCK'), len(mine))"
}

# run WAY CLIENTS MODE: one run of pgbench; notes statements/s, median µs, CPU µs a statement and how idle the
# processors were.
run() {
    local way=$1 count=$2 mode=$3 target=$url pid="" before=0 after=0 threads idled begun
    case $way in
    pgbouncer) target=${url/:$port\//:$through_bouncer/} pid=$bouncer ;;
    rehearse) target=${url/:$port\//:$through_proxy/} pid=$proxy ;;
    esac
    threads=$((count < $(nproc) ? count : $(nproc)))
    rm -f "$place"/latency.*
    [[ -z $pid ]] || before=$(cpu "$pid")
    local sampled=()
    [[ $count_by != samples ]] ||
        sampled=(perf record -q -a -e cpu-clock:I -F 997 -m 2M -o "$place/perf.data" -- sh -c '"$@"; status=$?; sleep 1; exit $status' sh)
    idled=$(idle) begun=${EPOCHREALTIME/./}
    # shellcheck disable=SC2086
    "${sampled[@]}" pgbench $rate -n -S -M "$mode" -c "$count" -j "$threads" -T "$seconds" -l --log-prefix="$place/latency" \
        "$target?sslmode=disable" >"$place/pgbench.out" 2>"$place/pgbench.err" ||
        { cat "$place/pgbench.err" >&2; exit 3; }
    if [[ $count_by = samples ]]; then
        idled="" # perf has recorded for a second longer.
    else
        idled=$(awk -v us=$((${EPOCHREALTIME/./} - begun)) -v now="$(idle)" -v before="$idled" 'BEGIN {
            split(now, b); split(before, a); printf "%.1f", (b[1] - a[1]) * 1e5 / us / b[2] }')
    fi
    sleep 1
    [[ -z $pid ]] || after=$(cpu "$pid")
    if [[ $count_by = samples && -n $pid ]]; then
        before=0
        ! perf report -i "$place/perf.data" --stats 2>/dev/null | grep -q LOST || echo "perf LOST events: this turn's CPU is too low"
        after=$(perf script -i "$place/perf.data" -F pid 2>>"$place/perf.err" | awk -v pid="$pid" '$1 == pid { ms += 1000 / 997 } END { print ms + 0 }')
    fi
    local statements tps median
    statements=$(grep -oP 'actually processed: \K[0-9]+' "$place/pgbench.out")
    # With a rate, the third column has the wait of the seventh in it. The fifth and sixth are when a statement ended.
    awk -v warm="$warm" '
        FNR == NR { at = $5 + $6 / 1e6; if (!begun || at < begun) begun = at; if (at > ended) ended = at; next }
        $5 + $6 / 1e6 >= begun + warm { print $3 - $7; counted++ }
        END { printf "%.1f\n", counted / (ended - begun - warm) > "/dev/stderr" }
    ' <(cat "$place"/latency.*) <(cat "$place"/latency.*) 2>"$place/rate" >"$place/measured"
    tps=$(cat "$place/rate")
    median=$(sort -n "$place/measured" | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }')
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$count" "$mode" "$turn" "$way" "$tps" "$median" \
        "$(awk -v a="$after" -v b="$before" -v n="$statements" 'BEGIN { printf "%.3f", (a - b) * 1000 / n }')" "${idled:-nan}" |
        tee -a "$place/results" |
        awk -F '\t' '{ printf "%d clients, %s, turn %d, %s: %.0f a second, median %.1f µs, CPU %.2f µs, idle %s %%\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
    [[ $way != rehearse ]] || through=$((through + statements))
}

echo "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg); ${seconds} s a run, the first $warm s of it not counted, $turns turns${RATE:+, $RATE a second}, CPU by $count_by; ways: ${ways[*]}"
[[ -z $pgbouncer ]] || "$pgbouncer" -V | head -n 1
for mode in "${modes[@]}"; do
    for count in "${clients[@]}"; do
        for ((turn = 1; turn <= turns; turn++)); do
            through=0
            [[ -z $pgbouncer ]] || start_bouncer
            [[ " ${ways[*]} " != *" rehearse "* ]] || start "$place/cost.workload"
            # Each turn begins with another way.
            for ((n = 0; n < ${#ways[@]}; n++)); do
                run "${ways[$(((n + turn) % ${#ways[@]}))]}" "$count" "$mode"
            done
            [[ -n $proxy ]] || continue
            kill -TERM "$proxy"
            wait "$timed" || { cat "$place/proxy.out" >&2; echo "the proxy ended with a failure" >&2; exit 3; }
            proxy=""
            python3 - "$place/cost.workload" "$through" "$place/time" <<'PYTHON'
import json, os, sys

workload, through, time = sys.argv[1], int(sys.argv[2]), open(sys.argv[3]).read().split()
manifest = json.load(open(os.path.join(workload, "manifest.json")))
size = sum(file["bytes"] for file in manifest["files"])
print(f"  captured: {manifest['body']['events']} events of {through} statements, their connects and disconnects;"
      f" {size / through:.1f} bytes and, with the end of the workload,"
      f" {(float(time[-2]) + float(time[-1])) * 1e6 / through:.2f} µs of CPU a statement")
if manifest["body"]["events"] < through:
    print("  INCOMPLETE: there are fewer events than statements")
PYTHON
            rm -rf "$place/cost.workload"
        done
    done
done
python3 - "$place/results" <<'PYTHON'
import sys
from statistics import median

rows = {}
for line in open(sys.argv[1]):
    clients, mode, turn, way, tps, latency, cpu, idle = line.rstrip("\n").split("\t")
    rows.setdefault((mode, int(clients)), {}).setdefault(way, []).append(
        (float(tps), float(latency), float(cpu), float(idle))
    )


def ratio(ours, theirs):
    """The median of the turns' ratios; what divides by nothing says so."""
    found = [a / b for a, b in zip(ours, theirs) if b > 0]
    return f"{median(found):.2f}" if found else "none"


print()
print(f"{'mode':9} {'clients':>7}  {'way':10} {'a second':>9} {'median µs':>10} {'added µs':>9} {'CPU µs':>7} {'idle %':>6}   to PgBouncer: throughput, added, CPU")
for (mode, clients), ways in rows.items():
    direct = [one[1] for one in ways["direct"]]
    added = {way: [one[1] - base for one, base in zip(of, direct)] for way, of in ways.items()}
    for way in sorted(ways):
        of, beside = ways[way], ""
        if way == "rehearse" and "pgbouncer" in ways:
            peer = ways["pgbouncer"]
            beside = "   ".join((
                "  ",
                ratio([one[0] for one in of], [one[0] for one in peer]),
                ratio(added[way], added["pgbouncer"]),
                ratio([one[2] for one in of], [one[2] for one in peer]),
            ))
        own = " " * 17 if way == "direct" else f"{median(added[way]):9.1f} {median(one[2] for one in of):7.2f}"
        own += f" {median(one[3] for one in of):6.1f}"
        print(f"{mode:9} {clients:7}  {way:10} {median(one[0] for one in of):9.0f} {median(one[1] for one in of):10.1f} {own}{beside}")
PYTHON
