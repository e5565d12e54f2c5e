#!/usr/bin/env python3
"""What watching costs a busy server: the processor time of all its processes for each transaction, with and without.

Mirrored blocks of short turns of pgbench in random order; between turns `rehearse observe` is stopped and
continued (SIGSTOP, SIGCONT), or the events of `perf record` are switched off and on, or counters of tasks (`perf stat`) are
opened and closed. What the probes' own backend takes is
part of the server's time. Needs pgbench and, for the second, perf; a machine that does nothing else.

    benches/watching_ab.py REHEARSE probes|perf|perf-dwarf|task-clock [BLOCKS] [selects|ranges] [DOSE]

What it costs is less than turns differ by on most machines, so it is taken many times over: DOSE watchers at once, or
so many times as many samples a second; what one costs is the difference divided by the dose.

Selects are single rows by key, some 30 µs each, most of it messages; ranges add up 2,000 rows each, and vary less.
"""

import math, os, random, signal, statistics, subprocess, sys, tempfile, time

rehearse, mode = os.path.abspath(sys.argv[1]), sys.argv[2]
blocks = int(sys.argv[3]) if len(sys.argv) > 3 else 40
dose = int(sys.argv[5]) if len(sys.argv) > 5 else 10
work = sys.argv[4] if len(sys.argv) > 4 else "ranges"
CLIENTS, TRANSACTIONS = (4, 8000) if work == "selects" else (2, 1500)
SCRIPT = "\\set aid random(1, 900000)\nSELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 2000;\n"
TICK = os.sysconf("SC_CLK_TCK")
NAME = f"watching-{os.getpid()}"


def out(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


up = out(rehearse, "sandbox", "up", NAME, "--set", "shared_preload_libraries=pg_stat_statements")
url = next(line.strip() for line in up.splitlines() if "postgres://" in line)


def ask(sql):
    return out("psql", url, "-Atc", sql).strip()


def stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def server_seconds():
    """Of the first process with what it waited for, and of all that live."""
    first = stat(postmaster)
    total = sum(map(int, first[11:15])) / TICK
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(stat(pid)[1]) == postmaster:
                with open(f"/proc/{pid}/schedstat") as file:
                    total += int(file.read().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def turn():
    before = server_seconds()
    what = ["-S"] if work == "selects" else ["-f", script]
    out("pgbench", "-n", *what, "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-t", str(TRANSACTIONS), url)
    # Ended backends are waited for by the first process.
    time.sleep(0.05)
    return (server_seconds() - before) / (CLIENTS * TRANSACTIONS) * 1e6


try:
    ask("CREATE EXTENSION pg_stat_statements")
    out("pgbench", "-i", "-q", "-s", "10", url)
    backend = ask("SELECT pg_backend_pid()")
    postmaster = int(ask("SELECT pg_read_file('postmaster.pid')").split()[0])
    folder = tempfile.mkdtemp()
    script = f"{folder}/ranges.sql"
    with open(script, "w") as file:
        file.write(SCRIPT)
    if mode == "probes":
        watchers = [subprocess.Popen(
            [rehearse, "observe", "--target", url, "--for", "10h", "-o", f"{folder}/{number}.run"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for number in range(dose)]
        time.sleep(3 + dose / 4)
        on = lambda: [one.send_signal(signal.SIGCONT) for one in watchers]
        off = lambda: [one.send_signal(signal.SIGSTOP) for one in watchers]
    elif mode == "task-clock":
        watchers = []

        def on():
            off()
            family = [postmaster]
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if int(stat(pid)[1]) == postmaster:
                        family.append(int(pid))
                except (FileNotFoundError, ProcessLookupError):
                    pass
            for _ in range(dose):
                watchers.append(subprocess.Popen(
                    ["perf", "stat", "-e", "task-clock", "-p", ",".join(map(str, family))],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(0.4)
            assert all(one.poll() is None for one in watchers), "perf stat ended"

        def off():
            while watchers:
                one = watchers.pop()
                one.send_signal(signal.SIGINT)
                one.wait()

        on()
        off()
    else:
        fifo = f"{folder}/control"
        os.mkfifo(fifo)
        watchers = [subprocess.Popen(
            ["perf", "record", "-q", "-e", "cpu-clock:I", "-F", str(99 * dose), "-a", "--call-graph", "dwarf,16384" if mode == "perf-dwarf" else "fp", "-k", "CLOCK_MONOTONIC",
             "-m", "2M", "-D", "-1", f"--control=fifo:{fifo}", "-o", "-"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        control = open(fifo, "w")
        def say(word):
            control.write(word + "\n")
            control.flush()
        on, off = lambda: say("enable"), lambda: say("disable")
    assert all(one.poll() is None for one in watchers), "a watcher ended"
    turn(), turn()
    ratios, plain = [], []
    for block in range(blocks):
        order = random.choice([[0, 1, 1, 0], [1, 0, 0, 1]])
        costs = {0: [], 1: []}
        for side in order:
            (on if side else off)()
            time.sleep(0.1)
            costs[side].append(turn())
        plain += costs[0]
        ratios.append(math.log(sum(costs[1]) / sum(costs[0])))
        mean, error = statistics.mean(ratios), 0.0
        if block > 1:
            error = 1.98 * statistics.stdev(ratios) / math.sqrt(len(ratios))
        print(f"block {block + 1}: {statistics.median(plain):.2f} µs without; with {dose} times {100 * math.expm1(mean):+.2f} % ± {100 * error:.2f} %, so with one {100 * math.expm1(mean) / dose:+.3f} % ± {100 * error / dose:.3f} %", flush=True)
finally:
    for one in globals().get("watchers", []):
        one.send_signal(signal.SIGCONT)
        one.terminate()
    subprocess.run([rehearse, "sandbox", "down", NAME])
