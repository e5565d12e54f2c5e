# Waits for the end of the process that owns the sandbox "$1": that process alone has the other end
# of our standard input. Then stops the server and deletes the sandbox. "$2" is its socket's
# directory, or empty. When the owner cleans up itself, it kills us first.
root=$1
sockets=$2
data=$root/data
while read -r _; do :; done

# The server may be just starting, so look more than once.
round=0
while [ "$round" -lt 40 ]; do
    round=$((round + 1))
    [ -f "$root/sandbox.json" ] || exit 0
    pid=
    here=
    { read -r pid; read -r here; } 2>/dev/null <"$data/postmaster.pid"
    case $pid in '' | *[!0-9]*) pid=0 ;; esac
    # The number may be another process's by now: ours was started on this data directory.
    if [ "$pid" -gt 1 ] && [ "$here" -ef "$data" ] && kill -0 "$pid" 2>/dev/null &&
        { [ ! -d /proc/self ] || grep -qF -e "$data" "/proc/$pid/cmdline"; }; then
        if [ "$round" -lt 30 ]; then kill -QUIT "$pid"; else kill -KILL "$pid"; fi
        sleep 0.5
    elif [ "$round" -gt 2 ]; then
        break
    else
        sleep 0.2
    fi
done 2>/dev/null

if [ -f "$root/sandbox.json" ]; then
    # An initdb that lost its parent may still be writing; without its files it soon ends.
    round=0
    while [ "$round" -lt 20 ] && ! rm -rf "$root/data" "$root/snapshots"; do
        round=$((round + 1))
        sleep 0.5
    done
    # The marker goes with the rest: what a deletion cut short leaves stays recognisable.
    [ -e "$root/data" ] || rm -rf "$root"
    if [ -n "$sockets" ] && [ -d "$sockets" ]; then
        rm -f "$sockets"/.s.PGSQL.*
        rmdir "$sockets"
    fi
fi 2>/dev/null
