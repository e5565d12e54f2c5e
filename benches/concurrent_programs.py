#!/usr/bin/env python3
"""Known programs with concurrent sessions, captured by the proxy and replayed several times onto copies.

    benches/concurrent_programs.py REHEARSE SOURCE TARGET [REPLAYS] [PROGRAM ...] [-- REPLAY OPTION ...]

SOURCE and TARGET are `host=… port=… user=…` of servers of one version on which databases may be created. Programs: pgbench
(TPC-B), dump and restore with four jobs, notify, advisory (locks), prepared (two-phase commit), skip_locked (a queue). Half
of the replays run at the captured speed and half at full speed. Prints, for each program, the replays in which every
statement did what it did in the capture and in which the final tables are equal. Needs psycopg 3, pgbench and pg_dump; the
servers need max_prepared_transactions.
"""

import os, random, re, subprocess, sys, tempfile, threading

import psycopg

arguments = sys.argv[1:]
options = arguments[arguments.index("--") + 1:] if "--" in arguments else []
arguments = arguments[:arguments.index("--")] if "--" in arguments else arguments
rehearse, source, target = os.path.abspath(arguments[0]), arguments[1], arguments[2]
replays = int(arguments[3]) if len(arguments) > 3 else 20
wanted = arguments[4:]
WORKERS, ROUNDS = 8, 60


def parts(server):
    return dict(part.split("=", 1) for part in server.split())


def url(server):
    of = parts(server)
    return f"postgres://{of.get('user', 'postgres')}@{of['host']}:{of['port']}/work"


def sql(server, text, database="work"):
    with psycopg.connect(f"{server} dbname={database}", autocommit=True) as c:
        return c.execute(text)


def create(server):
    sql(server, "drop database if exists work with (force)", "postgres")
    sql(server, "create database work", "postgres")


def run(command, server, *more):
    of = parts(server)
    environment = {**os.environ, "PGHOST": of["host"], "PGPORT": of["port"], "PGUSER": of.get("user", "postgres")}
    subprocess.run([*command, *more], env=environment, check=True, capture_output=True)


def in_threads(server, *work):
    """Runs each function of a connection and a generator of random numbers in WORKERS threads."""
    def one(function, number):
        with psycopg.connect(f"{server} dbname=work", autocommit=True) as c:
            function(c, random.Random(number), number)
    threads = [threading.Thread(target=one, args=(function, n)) for function in work for n in range(WORKERS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def pgbench_tables(server):
    run(["pgbench", "-i", "-q", "work"], server)


def pgbench(server, directory):
    run(["pgbench", "-n", "-c", str(WORKERS), "-t", str(ROUNDS), "--protocol", "prepared", "work"], server)


def dump(server, directory):
    run(["pg_dump", "-Fd", "-j", "4", "-f", f"{directory}/dump", "work"], server)


def dumped(server):
    pgbench_tables(server)
    if server == source:
        with tempfile.TemporaryDirectory() as directory:
            run(["pg_dump", "-Fd", "-j", "4", "-f", f"{directory}/d", "work"], server)
            os.rename(f"{directory}/d", f"{kept}/restored")
    create(server)


def restore(server, directory):
    run(["pg_restore", "-j", "4", "-d", "work", f"{kept}/restored"], server)


def notify(server, directory):
    def listen(c, r, n):
        c.execute("listen news")
        for _ in range(ROUNDS):
            c.execute("select count(*) from news")
    def tell(c, r, n):
        for i in range(ROUNDS):
            with c.transaction():
                c.execute("insert into news (text) values (%s)", (f"{n}/{i}",))
                c.execute("select pg_notify('news', %s)", (str(n),))
    in_threads(server, listen, tell)


def advisory(server, directory):
    def count(c, r, n):
        for _ in range(ROUNDS):
            with c.transaction():
                key = r.randint(1, 3)
                c.execute("select pg_advisory_xact_lock(%s)", (key,))
                had = c.execute("select value from counters where id = %s", (key,)).fetchone()[0]
                c.execute("update counters set value = %s where id = %s", (had + 1, key))
    in_threads(server, count)


def prepared(server, directory):
    names = []
    def begin(c, r, n):
        for i in range(ROUNDS // 4):
            c.execute("begin")
            c.execute("insert into news (text) values (%s)", (f"{n}/{i}",))
            c.execute(f"prepare transaction 'p{n}-{i}'")
            names.append(f"p{n}-{i}")
    def end(c, r, n):
        done = 0
        while done < ROUNDS // 4:
            try:
                name = names.pop(0)
            except IndexError:
                continue
            c.execute(f"{'commit' if r.random() < 0.8 else 'rollback'} prepared '{name}'")
            done += 1
    in_threads(server, begin, end)


def skip_locked(server, directory):
    def make(c, r, n):
        for i in range(ROUNDS):
            c.execute("insert into jobs (task) values (%s), (%s)", (f"{n}/{i}", "x"))
    def take(c, r, n):
        for _ in range(ROUNDS):
            with c.transaction():
                job = c.execute("select id from jobs where state = 'new' order by id for update skip locked limit 1").fetchone()
                if job:
                    c.execute("update jobs set state = 'done' where id = %s", job)
    in_threads(server, make, take)


NEWS = "create table news (id bigint generated always as identity primary key, text text)"
PROGRAMS = {
    "pgbench": (pgbench_tables, pgbench, "select sum(bbalance), (select sum(tbalance) from pgbench_tellers), (select "
        "md5(string_agg(aid || ':' || abalance, ',' order by aid)) from pgbench_accounts where abalance <> 0), (select count(*) "
        "from pgbench_history) from pgbench_branches"),
    "dump": (pgbench_tables, dump, "select count(*) from pgbench_accounts"),
    "restore": (dumped, restore, "select count(*), (select count(*) from pg_index where indrelid >= 16384) from pgbench_accounts"),
    "notify": (lambda server: sql(server, NEWS), notify, "select string_agg(text, ',' order by text) from news"),
    "advisory": (lambda server: sql(server, "create table counters (id int primary key, value int); insert into counters "
        "select i, 0 from generate_series(1, 3) i"), advisory, "select string_agg(value::text, ',' order by id) from counters"),
    "prepared": (lambda server: sql(server, NEWS), prepared, "select string_agg(text, ',' order by text) from news"),
    "skip_locked": (lambda server: sql(server, "create table jobs (id bigint generated always as identity primary key, task "
        "text, state text default 'new')"), skip_locked, "select count(*), count(*) filter (where state = 'done') from jobs"),
}


def capture(work, workload, directory):
    command = [rehearse, "capture", "proxy", "--listen", "127.0.0.1:0", "--upstream", url(source), "-o", workload]
    proxy = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    port = next(line.split("127.0.0.1:")[1].split(",")[0] for line in proxy.stderr if "listening at" in line)
    work(f"host=127.0.0.1 port={port} user={parts(source).get('user', 'postgres')}", directory)
    proxy.send_signal(2)
    proxy.communicate()


def replay(workload, run_path, speed):
    command = [rehearse, "replay", workload, "--target", url(target), "--no-facts", "-o", run_path, "--speed", speed, *options]
    shown = subprocess.run(command, capture_output=True, text=True)
    text = shown.stdout
    if "Compared with the capture" not in text:
        sys.exit(f"the replay failed: {shown.stderr}")
    text = " ".join(text.split("Compared with the capture")[1].split("Rows were")[0].split())
    return text


for name, (prepare, work, state) in PROGRAMS.items():
    if wanted and name not in wanted:
        continue
    with tempfile.TemporaryDirectory() as kept:
        create(source)
        prepare(source)
        capture(work, f"{kept}/a.workload", kept)
        expected = sql(source, state).fetchone()
        same, equal, seen = 0, 0, {}
        for number in range(replays):
            create(target)
            prepare(target)
            text = replay(f"{kept}/a.workload", f"{kept}/{number}.run", ["1", "max"][number % 2])
            did_same = re.search(r"(\d[\d,]*) same", text)
            differs = "0 other" not in text
            seen[text] = seen.get(text, 0) + 1
            equal += sql(target, state).fetchone() == expected
        print(f"{name}: tables equal in {equal} of {replays}")
        for text, count in seen.items():
            print(f"    {count} × {text}")
