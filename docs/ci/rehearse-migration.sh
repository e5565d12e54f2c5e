#!/usr/bin/env bash
# Rehearses a migration: replays a workload on a database as it is and on one with the migration, and
# compares both. The GitHub Action and the GitLab example call this script; it needs bash and psql only.
#
# Exit code: 0 no condition holds, 1 a condition of FAIL_ON holds, 2 usage, 3 it could not be done,
# 4 (with STRICT=1) nothing was shown: not enough data, or most statements were never sent.
#
# From the environment:
#   WORKLOAD          NAME.workload (required)
#   MIGRATION         the SQL file with the change; this or the next is required
#   MIGRATION_COMMAND  a shell command that makes the change, such as 'alembic upgrade head'. It runs with
#                     PGHOST, PGPORT, PGUSER and PGDATABASE set, and PGPASSFILE if SERVER names a passfile
#   DUMP              the data: SQL, plain or .gz (pg_dump --format plain), or a file for pg_restore;
#                     without it the databases are empty
#   SERVER            postgres://… of a superuser on a separate server, on which databases may be created
#                     and dropped; without it a private server is started (rehearse sandbox). Its
#                     password is passed on as PGPASSWORD, so that no command line shows it
#   POSTGRES_VERSION  the private server's major version
#   FAIL_ON           conditions, one per line (docs/reference/fail-on.md) [default: regression]
#   SPEED             of the replays [default: 1]
#   RUNS              replays per side [default: 3]. With one, the difference between two replays on the
#                     same server is unknown, and chance may be taken for a finding
#   STRICT            1: a comparison that shows nothing ends with 4 instead of 0 [default: 0, a warning]
#   REPLAY_OPTIONS    further options of rehearse replay
#   OUT               the directory of the results [default: rehearsal]
#   REHEARSE, PSQL, PG_RESTORE   the programs, if they are not on the PATH
set -euo pipefail

usage() {
    echo "rehearse-migration: $1" >&2
    exit 2
}
could_not() {
    echo "rehearse-migration: $1" >&2
    exit 3
}

REHEARSE=${REHEARSE:-rehearse}
PSQL=${PSQL:-psql}
PG_RESTORE=${PG_RESTORE:-pg_restore}
OUT=${OUT:-rehearsal}
RUNS=${RUNS:-3}
STRICT=${STRICT:-0}
FAIL_ON=${FAIL_ON:-regression}
database=rehearse_migration

[ -n "${WORKLOAD:-}" ] || usage "WORKLOAD is not set; set it to a NAME.workload"
[ -n "${MIGRATION:-}${MIGRATION_COMMAND:-}" ] ||
    usage "MIGRATION is not set; set it to the SQL file with the change, or MIGRATION_COMMAND to a command"
[ -z "${MIGRATION:-}" ] || [ -z "${MIGRATION_COMMAND:-}" ] || usage "MIGRATION and MIGRATION_COMMAND are set; set one"
[ -d "$WORKLOAD" ] || usage "there is no workload $WORKLOAD; make one with rehearse capture"
[ -z "${MIGRATION:-}" ] || [ -f "$MIGRATION" ] || usage "there is no file $MIGRATION; set MIGRATION to the SQL file with the change"
[ -z "${DUMP:-}" ] || [ -f "$DUMP" ] || usage "there is no file $DUMP; set DUMP to a dump, or to nothing"
case $RUNS in
    [1-9]) ;;
    *) usage "RUNS is $RUNS; set it to a number from 1 to 9" ;;
esac
case $STRICT in
    0 | 1) ;;
    *) usage "STRICT is $STRICT; set it to 1 or 0" ;;
esac
command -v "$REHEARSE" >/dev/null || usage "there is no program $REHEARSE; install it, or set REHEARSE"
command -v "$PSQL" >/dev/null || usage "there is no program $PSQL; install PostgreSQL's client, or set PSQL"

conditions=()
while IFS= read -r condition; do
    [ -z "${condition// /}" ] || conditions+=(--fail-on "$condition")
done <<<"$FAIL_ON"

mkdir -p "$OUT"
rm -rf "$OUT"/before-*.run "$OUT"/after-*.run "$OUT"/*.run.partial

sandbox=
finish() {
    if [ -n "$sandbox" ]; then
        "$REHEARSE" sandbox down "$sandbox" >/dev/null || true
    fi
}
trap finish EXIT

if [ -z "${SERVER:-}" ]; then
    sandbox=rehearse-migration-$$
    version=()
    [ -z "${POSTGRES_VERSION:-}" ] || version=(--postgres-version "$POSTGRES_VERSION")
    "$REHEARSE" sandbox up "$sandbox" ${version[@]+"${version[@]}"} >/dev/null ||
        could_not "no private server could be started; see above, or set SERVER to one of your own"
    SERVER=$("$REHEARSE" sandbox url "$sandbox")
fi

# Sets a variable to a decoded part of a URL: %40 is a @.
decode() {
    local text=${2//\\/\\\\}
    printf -v "$1" '%b' "${text//\%/\\x}"
}
# All users of the machine can read command lines, but not the environment: it gets the password.
hide_password() {
    local start credentials rest
    if [[ $SERVER =~ ^(postgres(ql)?://)([^/?#]*)@(.*)$ ]]; then
        start=${BASH_REMATCH[1]} credentials=${BASH_REMATCH[3]} rest=${BASH_REMATCH[4]}
        if [[ $credentials == *:* ]]; then
            decode PGPASSWORD "${credentials#*:}"
            export PGPASSWORD
            SERVER=$start${credentials%%:*}@$rest
        fi
    fi
    # sslpassword is another parameter.
    if [[ $SERVER =~ (^|[?\&[:space:]])password[[:space:]]*= ]]; then
        usage "SERVER has a password as a parameter, which command lines would show; write it as postgres://USER:PASSWORD@HOST, or set PGPASSWORD"
    fi
}
hide_password
# MIGRATION_COMMAND does not get SERVER, which may name a password file.
export_passfile() {
    local words="(^|[[:space:]])passfile[[:space:]]*=[[:space:]]*('[^']*'|(\\\\.|[^[:space:]'])+)"
    if [[ $SERVER =~ ^postgres(ql)?:// ]]; then
        [[ $SERVER =~ [?\&]passfile=([^\&]+) ]] || return 0
        decode PGPASSFILE "${BASH_REMATCH[1]}"
    elif [[ $SERVER =~ $words ]]; then
        PGPASSFILE=${BASH_REMATCH[2]//[\'\\]/}
    else
        return 0
    fi
    export PGPASSFILE
}
export_passfile
# Report a misspelt condition before the replays.
"$REHEARSE" compare --dry-run ${conditions[@]+"${conditions[@]}"} || usage "FAIL_ON has an error; see above"

sql() {
    "$PSQL" --no-psqlrc --quiet --set ON_ERROR_STOP=1 --dbname "$SERVER" "$@"
}
user=$(sql --no-align --tuples-only --command 'SELECT current_user') ||
    could_not "the server cannot be reached; see above"

migrate() {
    if [ -n "${MIGRATION:-}" ]; then
        sql --command "\\connect $database" --file "$MIGRATION" >/dev/null
        return
    fi
    local place host port login
    # One a line, since the directory of a socket may have spaces.
    place=$(sql --command '\echo :HOST' --command '\echo :PORT' --command '\echo :USER') || return
    {
        IFS= read -r host
        IFS= read -r port
        IFS= read -r login
    } <<<"$place"
    PGHOST=$host PGPORT=$port PGUSER=$login PGDATABASE=$database sh -c "$MIGRATION_COMMAND" >&2
}

# Makes the database, for `after` with the migration.
prepare() {
    sql --command "DROP DATABASE IF EXISTS $database" --command "CREATE DATABASE $database" \
        >/dev/null 2>"$OUT/psql.log" || {
        cat "$OUT/psql.log" >&2
        could_not "the database $database cannot be made; SERVER must be a superuser's"
    }
    local into=(--command "\\connect $database")
    if [ -n "${DUMP:-}" ]; then
        case $DUMP in
            *.sql) sql "${into[@]}" --file "$DUMP" >/dev/null ;;
            *.sql.gz) gzip -dc "$DUMP" | sql "${into[@]}" --file - >/dev/null ;;
            *) "$PG_RESTORE" --no-owner --no-privileges --exit-on-error --file - "$DUMP" | sql "${into[@]}" --file - >/dev/null ;;
        esac || could_not "the dump $DUMP cannot be loaded; see above. If a role does not exist, dump with --no-owner --no-privileges"
    fi
    if [ "$1" = after ]; then
        migrate || could_not "the migration ${MIGRATION:-${MIGRATION_COMMAND:-}} fails on the data; see above"
    fi
    sql "${into[@]}" --command 'VACUUM ANALYZE' --command 'CHECKPOINT' >/dev/null ||
        could_not "the database could not be made ready; see above"
}

# Plans explain differences; REPLAY_OPTIONS may set their number.
plans=(--explain)
case " ${REPLAY_OPTIONS:-} " in
    *" --explain"*) plans=() ;;
esac

before=()
after=()
replay() {
    local run="$OUT/$1-$2.run"
    echo "rehearse-migration: replaying $1 the migration ($2 of $RUNS)" >&2
    prepare "$1"
    # shellcheck disable=SC2086 # options are words
    "$REHEARSE" replay "$WORKLOAD" --target "$SERVER" --as-database "$database" --as-user "$user" \
        --speed "${SPEED:-1}" --output "$run" ${plans[@]+"${plans[@]}"} ${REPLAY_OPTIONS:-} >"$OUT/$1-$2.txt" ||
        could_not "the replay $1 the migration did not reach its end; see above and $OUT/$1-$2.txt"
    if [ "$1" = before ]; then before+=("$run"); else after+=("$run"); fi
}

# Alternate the order of before and after, so that drift affects both sides.
for number in $(seq "$RUNS"); do
    if [ $((number % 2)) = 1 ]; then
        replay before "$number"
        replay after "$number"
    else
        replay after "$number"
        replay before "$number"
    fi
done
sql --command "DROP DATABASE IF EXISTS $database" >/dev/null 2>&1 || true

page=()
if "$REHEARSE" compare --help | grep -q -- '--html'; then
    page=(--html "$OUT/comparison.html")
fi
sarif=()
if [ -n "${MIGRATION:-}" ]; then
    sarif=(--sarif "$OUT/migration.sarif" --migration "$MIGRATION")
fi
code=0
"$REHEARSE" compare --before "${before[@]}" --after "${after[@]}" "${conditions[@]}" \
    --junit "$OUT/junit.xml" --markdown "$OUT/comment.md" ${page[@]+"${page[@]}"} ${sarif[@]+"${sarif[@]}"} || code=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$OUT/comment.md" ]; then
    cat "$OUT/comment.md" >>"$GITHUB_STEP_SUMMARY"
fi

# Prints the sum of a property over the runs of a side, from the JUnit report.
property() {
    local sum=0 value
    while IFS= read -r value; do
        sum=$((sum + value))
    done < <(sed -n -E "s|.*<property name=\"$1(\\.[0-9]+)?\\.$2\" value=\"([0-9]+)\"/>.*|\2|p" "$OUT/junit.xml")
    echo "$sum"
}
# Warns that the comparison shows too little.
shown_nothing=
nothing() {
    shown_nothing=1
    echo "rehearse-migration: WARNING: $1" >&2
    [ -z "${GITHUB_ACTIONS:-}" ] || echo "::warning::rehearse-migration: $1"
}
if [ "$code" -le 1 ] && [ -f "$OUT/junit.xml" ]; then
    if grep -q '<property name="verdict" value="inconclusive"/>' "$OUT/junit.xml"; then
        nothing "the comparison is inconclusive; take a longer workload, more RUNS, or a machine that does nothing else"
    fi
    for side in before after; do
        skipped=$(property "$side" skipped)
        sent=$(property "$side" statements)
        if [ "$skipped" -ge "$sent" ]; then
            nothing "of the statements $side the migration $sent were sent and $skipped were not; see why in $OUT/$side-1.txt"
        fi
    done
    if [ "$code" = 0 ] && [ "$STRICT" = 1 ] && [ -n "$shown_nothing" ]; then
        code=4
    fi
fi
exit "$code"
