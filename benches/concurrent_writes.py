#!/usr/bin/env python3
"""Concurrent writes of a generated shop, captured by the proxy and replayed onto a server whose sequences are elsewhere.

    benches/concurrent_writes.py REHEARSE SOURCE TARGET moderate|hot|purchases [SEED] [TRANSACTIONS] [--from-log] [--same-sequences]
        [REPLAY OPTION ...]

SOURCE and TARGET are `host=… port=… user=…` of servers on which databases may be created. 30 workers make orders (identity,
uuid), pay and ship those of other workers, and write unique names. hot: all take from five products. Prints the statements
that did the same as in the capture, the counters of the run, and whether the tables are equal without generated values.
Needs psycopg 3.

--from-log: also captures the same traffic from the csvlog of SOURCE, which needs `logging_collector = on` and a log
directory that is readable here, and replays both. A log has no numbers of rows, so what is compared are failures, and the
orders that end in the right state. --same-sequences: the target's sequences have the source's values.

purchases: each statement of a purchase goes to any of 8 connections, as from a web application with a pool. A pg_dump begins
0.24 s after the capture, and the copy is made of it with the commands of docs/how-to/make-the-copy.md. Needs pg_dump.
"""

import collections, glob, json, os, queue, random, subprocess, sys, tempfile, threading, time

import psycopg

rehearse, source, target, mode = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
transactions = int(sys.argv[6]) if len(sys.argv) > 6 else 3000
options = [option for option in sys.argv[7:] if option not in ("--from-log", "--same-sequences")]
from_log, ahead = "--from-log" in sys.argv, "--same-sequences" not in sys.argv
WORKERS, CUSTOMERS, PRODUCTS = 30, 20 if mode == "hot" else 500, 5 if mode == "hot" else 200

SCHEMA = """
create table customers (id bigint generated always as identity primary key, name text);
insert into customers (name) select 'c' || i from generate_series(1, 500) i;
create table products (id bigint generated always as identity primary key, stock int);
insert into products (stock) select 1000 from generate_series(1, 200);
create table orders (id bigint generated always as identity primary key, ref uuid default gen_random_uuid() unique,
    customer_id bigint references customers, note text, paid bigint);
create table items (order_id bigint references orders, no int, product_id bigint references products, pieces int,
    primary key (order_id, no));
create table payments (id bigint generated always as identity primary key, order_id bigint references orders, amount int,
    settled bool default false);
create table shipments (id bigint generated always as identity primary key, order_id bigint references orders,
    payment_id bigint references payments);
create table accounts (id bigint generated always as identity primary key, name text unique);
"""
AHEAD = "alter sequence orders_id_seq restart 40000; alter sequence payments_id_seq restart 70"
STATE = """
select (select count(*) || '/' || count(paid) from orders), (select sum(pieces * product_id) from items),
    (select sum(amount) || '/' || count(*) filter (where settled) from payments), (select count(*) from shipments),
    (select string_agg(name, ',' order by name) from accounts), (select string_agg(stock::text, ',' order by id) from products),
    (select md5(string_agg(concat_ws(':', customer_id, n, a), ',' order by customer_id, n, a)) from (select o.customer_id,
        (select count(*) from items where order_id = o.id) n, (select amount from payments where id = o.paid) a
        from orders o) x)"""
# An order without the values that the server made: its items, its payments, and whether these were shipped.
ORDERS = """
select md5(concat_ws(':', o.customer_id, (select string_agg(concat_ws('-', no, product_id, pieces), ',' order by no)
    from items where order_id = o.id), (select string_agg(concat_ws('-', amount, settled, (select count(*) from shipments
        where payment_id = p.id and order_id = o.id)), ',' order by amount) from payments p where order_id = o.id),
    (select amount from payments where id = o.paid))) from orders o"""


def make(server):
    with psycopg.connect(server + " dbname=postgres", autocommit=True) as c:
        c.execute("drop database if exists shop with (force)")
        c.execute("create database shop")
    with psycopg.connect(server + " dbname=shop", autocommit=True) as c:
        c.execute(SCHEMA)
        if server == target and ahead:
            c.execute(AHEAD)


def state(server):
    with psycopg.connect(server + " dbname=shop") as c:
        return c.execute(STATE).fetchone()


def order(c, r, mine, made):
    with c.transaction():
        sql = "insert into orders (customer_id, note) values (%s, %s) returning id, ref"
        id, ref = c.execute(sql, (r.randint(1, CUSTOMERS), "n")).fetchone()
        taken = sorted(r.randint(1, PRODUCTS) for _ in range(3))
        for n in range(r.randint(1, 3)):
            item = "insert into items (order_id, no, product_id, pieces) values (%s, %s, %s, %s)"
            c.execute(item, (id, n + 1, r.randint(1, 200), r.randint(1, 9)))
            if r.random() < 0.5:
                c.execute("update products set stock = stock - %s where id = %s", (r.randint(1, 3), taken[n]))
    mine.append(id)
    made.put((id, ref))


def pay(c, r, made, paid):
    id, ref = made.get_nowait()
    with c.transaction():
        c.execute("select id, customer_id from orders where ref = %s for update", (ref,))
        sql = "insert into payments (order_id, amount) values (%s, %s) returning id"
        payment = c.execute(sql, (id, r.randint(1, 1000))).fetchone()[0]
        c.execute("update orders set paid = %s where id = %s", (payment, id))
    paid.put((id, payment))


def ship(c, r, paid):
    id, payment = paid.get_nowait()
    c.execute("update payments set settled = true where id = %s", (payment,))
    c.execute("insert into shipments (order_id, payment_id) values (%s, %s)", (id, payment))
    c.execute("select count(*) from items where order_id = %s", (id,))
    if r.random() < 0.3:
        c.execute(f"delete from items where order_id = {id} and no = 1")


def purchase(c, r, pool):
    """Every statement takes any connection."""
    def run(sql, values):
        c = pool.get()
        try:
            return c.execute(sql, values)
        finally:
            pool.put(c)

    insert = "insert into orders (customer_id, note) values (%s, %s) returning id"
    id = run(insert, (r.randint(1, CUSTOMERS), "n")).fetchone()[0]
    for n in range(r.randint(1, 3)):
        item = "insert into items (order_id, no, product_id, pieces) values (%s, %s, %s, %s)"
        run(item, (id, n + 1, r.randint(1, 200), r.randint(1, 9)))
    insert = "insert into payments (order_id, amount) values (%s, %s) returning id"
    payment = run(insert, (id, r.randint(1, 1000))).fetchone()[0]
    run("update orders set note = 'paid' where id = %s", (id,))
    run("update payments set settled = true where id = %s", (payment,))


def buy(number, port, left, pool, _):
    r = random.Random(seed * 1000 + number)
    while left.acquire(blocking=False):
        purchase(None, r, pool)
        time.sleep(r.expovariate(50))


def work(number, port, left, made, paid):
    r, mine = random.Random(seed * 1000 + number), []
    threshold = r.choice([None, 0, 3])
    server = f"host=127.0.0.1 port={port} dbname=shop " + " ".join(p for p in source.split() if p.startswith("user"))
    c = psycopg.connect(server, autocommit=True, prepare_threshold=threshold)
    while left.acquire(blocking=False):
        kind = r.random()
        try:
            if kind < 0.35:
                order(c, r, mine, made)
            elif kind < 0.6:
                pay(c, r, made, paid)
            elif kind < 0.75:
                ship(c, r, paid)
            elif kind < 0.85 and mine:
                c.execute("select * from orders where id = %s", (r.choice(mine),))
            elif kind < 0.93:
                c.execute("insert into accounts (name) values (%s)", (f"u{r.randint(1, 300)}",))
            else:
                c.execute("select * from products where id = %s", (r.randint(1, 200),))
        except (queue.Empty, psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
            pass
        time.sleep(r.expovariate(250))


def url(server):
    parts = dict(part.split("=", 1) for part in server.split())
    return f"postgres://{parts.get('user', 'postgres')}@{parts['host']}:{parts['port']}/shop"


def right_orders():
    """Share of the source's orders of which the target has an equal one."""
    left, right = (collections.Counter(psycopg.connect(server + " dbname=shop").execute(ORDERS).fetchall())
                   for server in (source, target))
    return (left & right).total() / max(1, left.total())


def drive(port):
    left, made, paid = threading.Semaphore(transactions), queue.Queue(), queue.Queue()
    workers = [threading.Thread(target=work, args=(n, port, left, made, paid)) for n in range(WORKERS)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]


def drive_purchases(port, dump):
    left, pool = threading.Semaphore(transactions), queue.Queue()
    for _ in range(8):
        pool.put(psycopg.connect(url(f"host=127.0.0.1 port={port}"), autocommit=True))
    workers = [threading.Thread(target=buy, args=(n, port, left, pool, None)) for n in range(8)]
    [worker.start() for worker in workers]
    time.sleep(0.24)
    subprocess.run(["pg_dump", "--format=custom", "-f", dump, url(f"host=127.0.0.1 port={port}")], check=True)
    [worker.join() for worker in workers]


def capture(workload):
    command = [rehearse, "capture", "proxy", "--listen", "127.0.0.1:0", "--upstream", url(source)]
    proxy = subprocess.Popen([*command, "--checksum-results", "rows", "-o", workload], stderr=subprocess.PIPE, text=True)
    port = next(line.split("127.0.0.1:")[1].split(",")[0] for line in proxy.stderr if "listening at" in line)
    drive_purchases(port, f"{workload}.dump") if mode == "purchases" else drive(port)
    proxy.send_signal(2)
    proxy.communicate()


def begin_log():
    """Sets what `capture settings` recommends, and returns the time before the first statement."""
    settings = subprocess.run([rehearse, "capture", "settings"], capture_output=True, text=True, check=True).stdout
    with psycopg.connect(source + " dbname=postgres", autocommit=True) as c:
        for line in settings.splitlines():
            if not line.startswith("--"):
                c.execute(line.split(" -- ")[0].rstrip().rstrip(";"))
        c.execute("alter database shop set application_name = 'shop'")
        time.sleep(1)
        return c.execute("select to_char(now() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS UTC')").fetchone()[0]


def capture_log(workload, since):
    time.sleep(1)
    with psycopg.connect(source + " dbname=postgres", autocommit=True) as c:
        directory, logs = c.execute(
            "select current_setting('data_directory'), current_setting('log_directory')").fetchone()
        c.execute("alter system reset log_min_duration_statement")
        c.execute("select pg_reload_conf()")
    logs = sorted(glob.glob(os.path.join(directory, logs, "*.csv")), key=os.path.getmtime)
    command = [rehearse, "capture", "log", *logs, "-o", workload, "--from", since, "--filter-database", "shop"]
    subprocess.run(command, capture_output=True, text=True, check=True)


def make_of_dump(workload, dump):
    """Makes the target of a dump, and returns the part of the workload that begins at its snapshot."""
    make(target)
    command = ["pg_restore", "--clean", "--if-exists", "-d", url(target), dump]
    subprocess.run(command, check=True)
    part = workload.replace(".workload", ".part.workload")
    subprocess.run([rehearse, "slice", workload, "--from-dump", "-o", part], check=True, capture_output=True)
    sequences = subprocess.run([rehearse, "inspect", part, "--sequences"], check=True, capture_output=True).stdout
    subprocess.run(["psql", "-qd", url(target)], input=sequences, check=True, stdout=subprocess.DEVNULL)
    return part


def replay(workload, run, dump):
    if mode == "purchases":
        workload = make_of_dump(workload, dump)
    else:
        make(target)
    command = [rehearse, "replay", workload, "--target", url(target), "--no-facts", "-o", run, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout
    print(" ".join(text.split("Compared with the capture")[1].split("Rows were")[0].split()))
    manifest = json.load(open(f"{run}/manifest.json"))["body"]
    names = ("learnt", "remapped", "deadlock_victims")
    shown = {k: v for k, v in manifest["options"].items() if k in names or "wait" in k or "let_go" in k or "generated" in k}
    print(shown, f"span {manifest['span_sent_ns'] / max(1, manifest['span_due_ns']):.2f}")
    print("tables are equal" if state(source) == state(target) else "tables differ",
          f"{100 * right_orders():.2f} % of the orders are right", flush=True)


with tempfile.TemporaryDirectory() as directory:
    wire, log = f"{directory}/wire.workload", f"{directory}/log.workload"
    make(source)
    since = begin_log() if from_log else None
    capture(wire)
    if from_log:
        capture_log(log, since)
    for workload in [wire, log] if from_log else [wire]:
        print("proxy" if workload == wire else "csvlog")
        replay(workload, workload.replace(".workload", ".run"), f"{wire}.dump")
