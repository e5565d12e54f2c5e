#!/usr/bin/env bash
# How late statements go out: 2,000 a second over 200 sessions, replayed by this tool, by pgreplay
# and, where its path is given in PGREPLAY_GO, by pgreplay-go from the same log, by turns. All are judged by the server's own log (to the millisecond): how far
# behind the earliest each statement came.
#
#   benches/replay_lag.sh [SECONDS] [TURNS]
#
# Needs pgreplay (Debian) and python3, and an otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
turns=${2:-3}
for program in pgreplay python3; do
    command -v "$program" >/dev/null || { echo "$program is not there" >&2; exit 3; }
done
cargo build --release --quiet -p rehearse
rehearse=$PWD/target/release/rehearse
name="replay-lag-$$"
place=$(mktemp -d)
url=$("$rehearse" sandbox up "$name" --postgres-version 15 --set log_statement=all \
    --set 'log_line_prefix=%n ' --set max_connections=300 | grep -o 'postgres://[^ ]*')
trap '"$rehearse" sandbox down "$name" >/dev/null; rm -rf "$place"' EXIT
log=$("$rehearse" sandbox list --json | python3 -c "
import json, sys
print(next(one['log'] for one in json.load(sys.stdin) if one['name'] == '$name'))")
python3 - "$seconds" >"$place/lag.log" <<'PYTHON'
import sys

seconds, sessions, rate = int(sys.argv[1]), 200, 2000


def line(us, session, text):
    second = us // 1_000_000
    time = "2026-03-01 09:%02d:%02d.%03d UTC" % (second // 60, second % 60, us // 1000 % 1000)
    print(f"{time}|postgres|postgres|65e1.{session + 256:x}|LOG:  {text}")


for session in range(sessions):
    line(0, session, "connection authorized: user=postgres database=postgres")
for n in range(seconds * rate):
    line(1_000_000 + n * (1_000_000 // rate), n % sessions, f"statement: SELECT {n}")
for session in range(sessions):
    line((seconds + 2) * 1_000_000, session, "disconnection: session time: 0:00:20.000 user=postgres database=postgres host=")
PYTHON
"$rehearse" capture log "$place/lag.log" --prefix '%m|%u|%d|%c|' -o "$place/lag.workload" >/dev/null 2>&1
late() {
    python3 - "$log" "$1" <<'PYTHON'
import re, sys

late = []
for line in open(sys.argv[1], errors="replace"):
    found = re.match(r"(\d+\.\d+) .*statement: SELECT (\d+)$", line)
    if found:
        late.append(float(found[1]) - int(found[2]) * 0.0005)
first = min(late)
late = sorted((moment - first) * 1000 for moment in late)
at = lambda share: late[min(len(late) - 1, int(share * len(late)))]
print(f"{sys.argv[2]}: {len(late)} statements, ms behind the earliest: p50 {at(.5):.2f} p90 {at(.9):.2f} p99 {at(.99):.2f} p99.9 {at(.999):.2f}")
PYTHON
}
port=$(grep -oP ':\K[0-9]+(?=/)' <<<"$url")
for turn in $(seq "$turns"); do
    : >"$log"
    "$rehearse" replay "$place/lag.workload" --target "$url?sslmode=disable" -o "$place/$turn.run" |
        grep 'tool lag'
    late rehearse
    : >"$log"
    pgreplay -h 127.0.0.1 -p "$port" "$place/lag.log" >/dev/null 2>&1
    late pgreplay
    if [[ -x ${PGREPLAY_GO:-} ]]; then
        : >"$log"
        PGSSLMODE=disable "$PGREPLAY_GO" --metrics-address 127.0.0.1 --metrics-port 19445 run --host 127.0.0.1 \
            --port "$port" --user postgres --database postgres --errlog-input "$place/lag.log" >/dev/null 2>&1
        late pgreplay-go
    fi
done
