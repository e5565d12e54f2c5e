#!/usr/bin/env python3
"""Cost of capturing on the server: CPU time per statement of all the server's processes, with each way of capturing.

    benches/attach_cost.py REHEARSE [BLOCKS] [CLIENTS] [MODE]

Each block has one turn of `pgbench -S` for each way, in random order, and is judged by its differences to the turn
without a capture:

    none     no capture
    attach   `rehearse capture attach`
    stderr   log_statement = all, log_destination = stderr, with the logging collector
    csvlog   log_statement = all, log_destination = csvlog, with the logging collector
    proxy    `rehearse capture proxy`

The server's time includes the logging collector, which is one of its processes, and excludes the capturing programs, whose
time is printed separately. The time to read a log later is not included. pgbench connects by TCP in each turn. MODE is
simple or prepared. Prints medians, and quartiles in brackets. Needs root, pgbench and psql.
"""

import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

rehearse = os.path.abspath(sys.argv[1])
blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 10
clients = int(sys.argv[3]) if len(sys.argv) > 3 else 8
mode = sys.argv[4] if len(sys.argv) > 4 else "simple"
STATEMENTS = 60_000
TICK = os.sysconf("SC_CLK_TCK")
NAME = f"attach-cost-{os.getpid()}"
WAYS = ["none", "attach", "stderr", "csvlog", "proxy"]


def out(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def children(parent):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(stat(pid)[1]) == parent:
                yield int(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass


def seconds(pid):
    """CPU time of a process, of the children that it has waited for, and of its living children."""
    total = sum(map(int, stat(pid)[11:15])) / TICK
    for child in children(pid):
        try:
            total += sum(map(int, stat(child)[11:15])) / TICK
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def ask(sql):
    return out("psql", url, "-Atc", sql).strip()


def wait_for_port(port):
    for _ in range(100):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


class Capture:
    """Capturing program."""

    def __init__(self, *arguments):
        workload = tempfile.mktemp(suffix=".workload", dir=place)
        command = [rehearse, "capture", *arguments, "-o", workload, "--json"]
        self.log = open(os.path.join(place, "log"), "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def seconds(self):
        return seconds(self.process.pid)

    def finish(self):
        self.process.send_signal(signal.SIGINT)
        text, _ = self.process.communicate()
        if self.process.returncode:
            self.log.seek(0)
            sys.exit(self.log.read())
        return json.loads(text)


def set_log(destination):
    statements = "none" if destination is None else "all"
    ask(f"ALTER SYSTEM SET log_statement = '{statements}'")
    ask(f"ALTER SYSTEM SET log_destination = '{destination or 'stderr'}'")
    ask("SELECT pg_reload_conf()")
    time.sleep(0.3)


def turn(way):
    """Returns microseconds per statement of the server and of the capturing program, and the report of the latter."""
    capture, target = None, url
    if way in ("stderr", "csvlog"):
        set_log(way)
    elif way == "attach":
        capture = Capture("attach", "--port", str(port))
        time.sleep(1.5)
    elif way == "proxy":
        capture = Capture("proxy", "--listen", f"127.0.0.1:{proxy_port}", "--upstream", url)
        wait_for_port(proxy_port)
        target = url.replace(f":{port}/", f":{proxy_port}/")
    each = STATEMENTS // clients
    own = capture.seconds() if capture else 0
    before = seconds(postmaster)
    text = out("pgbench", "-n", "-S", "-M", mode, "-c", str(clients), "-j", "2", "-t", str(each), target)
    # The collector has read its pipe, ended backends are waited for, and the capture has read its buffers.
    time.sleep(0.5)
    server = seconds(postmaster) - before
    own = capture.seconds() - own if capture else 0
    if way in ("stderr", "csvlog"):
        set_log(None)
    report = capture.finish() if capture else None
    done = int(re.search(r"actually processed: (\d+)", text)[1])
    return server / done * 1e6, own / done * 1e6, report


def spread(values):
    low, _, high = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):6.2f} [{low:.2f} to {high:.2f}]"


with socket.create_server(("127.0.0.1", 0)) as free:
    proxy_port = free.getsockname()[1]
place = tempfile.mkdtemp()
up = out(rehearse, "sandbox", "up", NAME, "--tcp", "--postgres-version", "15", "--set", "logging_collector=on")
try:
    url = next(line.strip() for line in up.splitlines() if "postgres://" in line)
    port = int(re.search(r":(\d+)/", url)[1])
    with open(os.path.join(ask("SHOW data_directory"), "postmaster.pid")) as file:
        postmaster = int(file.readline())
    out("pgbench", "-i", "-q", "-s", "1", url)
    turn("none")
    server = {way: [] for way in WAYS}
    own = {way: [] for way in WAYS}
    lost = {way: 0 for way in WAYS}
    for block in range(blocks):
        for way in random.sample(WAYS, len(WAYS)):
            cost, of_capture, report = turn(way)
            server[way].append(cost)
            own[way].append(of_capture)
            if report:
                lost[way] += report.get("lost_bytes", 0)
        print(f"block {block + 1}: " + ", ".join(f"{way} {server[way][-1]:.2f}" for way in WAYS), flush=True)
    print(f"\n{mode}, {clients} clients, {blocks} blocks of {STATEMENTS} statements; CPU time per statement in µs")
    print(f"{'':8}{'server':>26}{'more than none':>28}{'capturing program':>28}  lost bytes")
    for way in WAYS:
        more = [cost - base for cost, base in zip(server[way], server["none"])]
        print(f"{way:8}{spread(server[way]):>26}{spread(more):>28}{spread(own[way]):>28}  {lost[way]}")
finally:
    out(rehearse, "sandbox", "down", NAME)
    subprocess.run(["rm", "-rf", place], check=True)
