#!/usr/bin/env python3
"""How samples stand to the kernel's counts of the server's processor time, where client and server share processors and
where they do not: to its scheduler's (`/proc`), and to its counters of tasks (`task-clock`).

    benches/samples_beside_kernel.py REHEARSE [TURNS] [CLIENTS] [PROTOCOL] [SECONDS]

pgbench's selects (prepared, unless said otherwise) against a sandbox, profiled at 499 Hz; in turn
shared: client and server on the first two processors, wherever the scheduler puts them;
batch:  the same with all of them as batch work (SCHED_BATCH), so that who is woken takes no processor from another;
own:    the server on the first processor, the client on the second.
Prints samples in percent of both counts, and what the hypervisor took from the profile's start-up to its end. Needs Linux, pgbench, perf and two
processors that do nothing else.
"""

import json, os, statistics, subprocess, sys, tempfile, time

rehearse = os.path.abspath(sys.argv[1])
turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
clients = sys.argv[3] if len(sys.argv) > 3 else "4"
protocol = sys.argv[4] if len(sys.argv) > 4 else "prepared"
seconds = int(sys.argv[5]) if len(sys.argv) > 5 else 8
NAME = f"beside-{os.getpid()}"


def out(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def family():
    found = [postmaster]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(stat(pid)[1]) == postmaster:
                found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def threads(pid):
    return map(int, os.listdir(f"/proc/{pid}/task"))


def stolen_ms():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) * 10


def turn(how, number):
    server, client = ({0}, {1}) if how == "own" else ({0, 1}, {0, 1})
    policy = os.SCHED_BATCH if how == "batch" else os.SCHED_OTHER
    pgbench = [os.environ.get("PGBENCH", "pgbench"), "-n", "-S", "-M", protocol, "-c", clients, "-j", "2", "-T", "600"]
    load = subprocess.Popen([*pgbench, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        for pid, processors in [*((pid, server) for pid in family()), (load.pid, client)]:
            try:
                for thread in threads(pid):
                    os.sched_setaffinity(thread, processors)
                    os.sched_setscheduler(thread, policy, os.sched_param(0))
            except (FileNotFoundError, ProcessLookupError):
                pass
        run = f"{directory}/{how}-{number}.run"
        before = stolen_ms()
        out(rehearse, "profile", "--target", url, "--for", f"{seconds}s", "--frequency", "499", "-o", run)
        stolen = stolen_ms() - before
        if load.poll() is not None:
            sys.exit("pgbench ended before the profile did")
    finally:
        load.terminate()
        load.wait()
    profile = json.loads(out(rehearse, "phases", run, "--json"))["profile"]
    sampled, scheduler, tasks = (profile[name] for name in ("sampled_cpu_us", "kernel_cpu_us", "task_clock_us"))
    if not scheduler or not tasks:
        sys.exit("a count of the kernel's is missing: " + "; ".join(profile["notes"]))
    told = any("the scheduler's count" in note for note in profile["notes"])
    of_scheduler, of_tasks = 100 * sampled / scheduler, 100 * sampled / tasks
    print(
        f"{number} {how}: samples {of_tasks:.1f} % of {tasks / 1e6:.2f} s by tasks, {of_scheduler:.1f} % of {scheduler / 1e6:.2f} s"
        f" by the scheduler{' (told)' if told else ''}, stolen {stolen} ms",
        flush=True,
    )
    return of_tasks, of_scheduler


up = out(rehearse, "sandbox", "up", NAME)
try:
    url = next(line.strip() for line in up.splitlines() if "postgres://" in line)
    postmaster = int(out("psql", url, "-Atc", "SELECT pg_read_file('postmaster.pid', 0, 40)").split()[0])
    with tempfile.TemporaryDirectory() as directory:
        out("pgbench", "-i", "-q", "-s", "10", url)
        ways = ["shared", "batch", "own"]
        percents = {how: [] for how in ways}
        for number in range(1, turns + 1):
            for how in ways:
                percents[how].append(turn(how, number))
        for how, all in percents.items():
            for count, of in zip(("tasks", "the scheduler"), zip(*all)):
                within = sum(95 <= one <= 105 for one in of)
                print(f"{how}, by {count}: median {statistics.median(of):.1f} %, {within} of {len(of)} within 5 %")
finally:
    out(rehearse, "sandbox", "down", NAME)
