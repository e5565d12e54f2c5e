#!/usr/bin/env bash
# Real clients, and what a capture has of them.
#
#   clients/run.sh URL                  each client directly against this server: its own checks
#   clients/run.sh --proxy REHEARSE     against a server of its own: directly; then through
#                                       `rehearse capture proxy`, and the workload is compared with what
#                                       the client says it sent; then all at once through one proxy
#   clients/run.sh --log REHEARSE       directly, and the workload is made from the server's log
#
#   --only NAMES              some of: psql pgbench psycopg asyncpg jdbc pgx node-postgres
#   --postgres-version 15     of the server of its own
#   --scram                   it wants a password, by SCRAM-SHA-256
#   --tls                     clients speak TLS with the proxy (needs openssl)
#   --scratch DIR             where libraries are installed and files written (~/.cache/rehearse-clients)
#   --proxy-options OPTIONS   more for `rehearse capture proxy`
#
# URL is postgres://USER@HOST:PORT/DATABASE. The clients make tables of their own in that database, named
# after them, and drop those that are there. REHEARSE is the program. Needs psql and pgbench, and for
# the libraries python3, java 17 with Maven, Go and Node; what is not there is a failure, unless --only
# leaves it out. Exit code 0: everything ran and every check passed; 1: not; 2: usage.
set -euo pipefail

known="psql pgbench psycopg asyncpg jdbc pgx node-postgres"
mode=direct url="" rehearse="" only=$known version=15 more="" scram="" tls=""
scratch=${XDG_CACHE_HOME:-$HOME/.cache}/rehearse-clients
usage() { echo "run.sh: $1; see the text at its beginning" >&2; exit 2; }
while (($#)); do
    case $1 in
    --proxy | --log) mode=${1#--} rehearse=${2:?the path of rehearse is missing} && shift ;;
    --only) only=${2//,/ } && shift ;;
    --postgres-version) version=$2 && shift ;;
    --scram) scram=1 ;;
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
[[ -z $tls || $mode == proxy ]] || usage "--tls is for --proxy"
[[ -z $scram || $mode != direct ]] || usage "--scram is for a server of its own"
if [[ $mode == direct ]]; then
    [[ -n $url ]] || usage "give a server's URL, or --proxy or --log with the path of rehearse"
else
    [[ -z $url ]] || usage "--$mode starts a server of its own; give no URL"
    rehearse=$(command -v "$rehearse") || { echo "run.sh: there is no program $rehearse" >&2; exit 2; }
    rehearse=$(realpath "$rehearse")
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
work=$(mktemp -d "$scratch/run.XXXXXX")
name="clients-$$" proxy=""
ended() {
    [[ -z $proxy ]] || kill "$proxy" 2>/dev/null || true
    [[ $mode == direct ]] || "$rehearse" sandbox down "$name" >/dev/null 2>&1 || true
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
        for of in . psycopg asyncpg; do cat "$here/$of/requirements.txt"; done >"$work/requirements/requirements.txt"
        fresh python "$work/requirements/requirements.txt" || return 0
        python3 -m venv "$scratch/python" &&
            "$scratch/python/bin/pip" install -q --disable-pip-version-check -r "$scratch/python/requirements.txt" &&
            installed python
        ;;
    jdbc)
        fresh jdbc "$here/jdbc/pom.xml" "$here/jdbc/Story.java" || return 0
        (cd "$scratch/jdbc" && mvn -q -B -Dstyle.color=never dependency:copy-dependencies -DoutputDirectory=lib &&
            javac -cp 'lib/*' -d classes Story.java) && installed jdbc
        ;;
    pgx)
        fresh pgx "$here"/pgx/* || return 0
        (cd "$scratch/pgx" && go build -o story .) && installed pgx
        ;;
    node-postgres)
        fresh node-postgres "$here"/node-postgres/* || return 0
        (cd "$scratch/node-postgres" && npm ci --silent --no-audit --no-fund) && installed node-postgres
        ;;
    *) command -v psql >/dev/null && command -v pgbench >/dev/null ;;
    esac
}

# story CLIENT URL STATEMENTS: its own checks.
story() {
    local client=$1
    shift
    case $client in
    jdbc) timeout 300 java -cp "$scratch/jdbc/classes:$scratch/jdbc/lib/*" Story "$@" ;;
    pgx) timeout 300 "$scratch/pgx/story" "$@" ;;
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

if [[ $mode != direct ]]; then
    settings=()
    if [[ $mode == log ]]; then
        settings=(--set log_min_duration_statement=0 --set 'log_line_prefix=%m|%u|%d|%a|%c|%e|'
            --set log_connections=on --set log_disconnections=on
            --set log_parameter_max_length=-1 --set log_parameter_max_length_on_error=-1)
    fi
    url=$("$rehearse" sandbox up "$name" --postgres-version "$version" "${settings[@]}" |
        grep -o 'postgres://[^ ]*')
    if [[ -n $scram ]]; then
        data=$("$rehearse" sandbox list --json | python3 -c "
import json, sys
print(next(one['data_dir'] for one in json.load(sys.stdin) if one['name'] == '$name'))")
        psql -X -q -d "$url" -c "SET password_encryption = 'scram-sha-256'" -c "ALTER ROLE postgres PASSWORD 'clients'"
        echo 'host all all 127.0.0.1/32 scram-sha-256' >"$data/pg_hba.conf"
        psql -X -q -d "$url" -c 'SELECT pg_reload_conf()' >/dev/null
        sleep 0.5
        ! PGPASSWORD=wrong psql -X -q -d "$url" -c 'SELECT 1' >/dev/null 2>&1 ||
            { echo "run.sh: the server takes any password" >&2; exit 1; }
        url=${url/postgres@/postgres:clients@}
    fi
    if [[ -n $tls ]]; then
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
            -addext subjectAltName=IP:127.0.0.1 -keyout "$work/proxy.key" -out "$work/proxy.crt" 2>/dev/null
        chmod 600 "$work/proxy.key"
    fi
fi
case $mode in
direct)
    for client in $clients; do
        told "$client" direct "$url" "$work/$client.json" || true
    done
    ;;
log)
    log=$("$rehearse" sandbox list --json | python3 -c "
import json, sys
print(next(one['log'] for one in json.load(sys.stdin) if one['name'] == '$name'))")
    for client in $clients; do
        : >"$log"
        told "$client" direct "$url" "$work/$client.json" || continue
        # The server writes a session's last line when it has ended, which may be a moment later.
        sleep 0.5
        "$rehearse" capture log "$log" --prefix '%m|%u|%d|%a|%c|%e|' -o "$work/$client.workload" \
            >"$work/$client.capture" 2>&1 || { failed "$client: $(tail -n 1 "$work/$client.capture")"; continue; }
        compare "$client" "$work/$client.workload" "$work/$client.json" --log
    done
    ;;
proxy)
    for client in $clients; do
        told "$client" direct "$url" "$work/$client.direct.json" || continue
        start "$work/$client.workload"
        right=1
        told "$client" proxy "$through" "$work/$client.json" || right=""
        stop
        [[ -z $right ]] || compare "$client" "$work/$client.workload" "$work/$client.json"
    done
    echo "all at once:"
    start "$work/together.workload"
    declare -A running=()
    for client in $clients; do
        (told "$client" together "$through" "$work/$client.together.json") >"$work/$client.together" &
        running[$client]=$!
    done
    right=""
    for client in $clients; do
        if wait "${running[$client]}"; then right+=" $client"; else failures=$((failures + 1)); fi
        cat "$work/$client.together"
    done
    stop
    for client in $right; do
        compare "$client" "$work/together.workload" "$work/$client.together.json" >"$work/$client.compared"
        sed "s/^ */$client: /" "$work/$client.compared" | grep -v ': also there: '
    done
    ;;
esac
if ((failures)); then
    echo "$failures failed; what was written is in $work"
    exit 1
fi
rm -rf "$work"
echo "all passed"
