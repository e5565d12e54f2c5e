#!/usr/bin/env python3
"""Three applications for rehearsals of upgrades, and the plans of their statements with and without the data.

    benches/upgrade_applications.py REHEARSE load APPLICATION VERSION [SETTING=VALUE ...]
    benches/upgrade_applications.py REHEARSE capture APPLICATION VERSION DIRECTORY [SECONDS]
    benches/upgrade_applications.py REHEARSE plans APPLICATION OLD NEW DIRECTORY

The applications are shop, ledger and booking. Each has a schema with data, and about 45 statements, in
upgrade_applications/APPLICATION.sql and .statements. Data and values depend on hashes and a seed only.

load: fills the database APPLICATION of the private server apps-VERSION, which is created if necessary.
capture: captures six sessions for SECONDS (default 60) through the proxy, on a copy of that database. Writes
APPLICATION.workload, and APPLICATION.traffic.json with the text and values of each statement.
plans: compares `plans check` with EXPLAIN on the loaded servers of both versions: the upgrade, settings and a migration.
Prints a line for each change, and each plan that only one of the two calls changed. Both servers must be loaded with
default_statistics_target=10000, so that samples do not differ.

Needs psql. Nothing else may use the private servers apps-VERSION.
"""

import calendar, json, os, random, re, signal, socket, struct, subprocess, sys, threading, time, urllib.parse

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upgrade_applications")
SESSIONS, PAUSE = 6, 0.1
SETTINGS = [
    {"random_page_cost": "1.1"},
    {"work_mem": "64kB"},
    {"effective_cache_size": "16MB", "seq_page_cost": "0.2"},
    {"max_parallel_workers_per_gather": "0"},
    {"enable_hashjoin": "off"},
]
MIGRATIONS = {
    "shop": "DROP INDEX orders_customer; CREATE INDEX lines_product_price ON lines (product, price); "
        "CREATE INDEX customers_tier ON customers (tier); ALTER TABLE products ALTER COLUMN category TYPE bigint; "
        "ALTER TABLE orders DETACH PARTITION orders_01",
    "ledger": "DROP INDEX transfers_account; CREATE INDEX transfers_amount ON transfers (amount); "
        "DROP STATISTICS transfers_kinds; CREATE INDEX events_type ON events (type, at); "
        "ALTER TABLE accounts ALTER COLUMN kind TYPE bigint; DROP INDEX holds_valid",
    "booking": "DROP INDEX people_town; CREATE INDEX people_prefix ON people (name text_pattern_ops); "
        "CREATE INDEX bookings_state ON bookings (state, place); DROP INDEX places_features; "
        "ALTER TABLE places ALTER COLUMN beds TYPE bigint",
}


class Client:
    """A session by protocol 3.0, without authentication and TLS. Values are texts."""

    def __init__(self, url, database=None):
        parts = urllib.parse.urlsplit(url)
        host, _, port = parts.netloc.rpartition("@")[2].rpartition(":")
        host = urllib.parse.unquote(host)
        if host.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb")
        database = database or parts.path.lstrip("/")
        words = ["user", parts.username or "postgres", "database", database, "application_name", "app", ""]
        body = struct.pack("!i", 196608) + b"".join(word.encode() + b"\0" for word in words)
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.prepared = set()
        self.answer()

    def answer(self):
        """Returns the rows up to ReadyForQuery. Raises the server's error."""
        rows, error = [], None
        while True:
            kind, length = struct.unpack("!ci", self.file.read(5))
            body = self.file.read(length - 4)
            if kind == b"E":
                error = RuntimeError(body.replace(b"\0", b" ").decode())
            elif kind == b"D":
                rows.append(self.row(body))
            elif kind == b"Z":
                if error:
                    raise error
                return rows

    @staticmethod
    def row(body):
        (count,), at, row = struct.unpack_from("!h", body), 2, []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", body, at)
            row.append(None if length < 0 else body[at + 4:at + 4 + length].decode())
            at += 4 + max(length, 0)
        return row

    @staticmethod
    def message(kind, body):
        return kind + struct.pack("!i", len(body) + 4) + body

    def query(self, sql):
        self.socket.sendall(self.message(b"Q", sql.encode() + b"\0"))
        return self.answer()

    def execute(self, sql, values, name=""):
        """Executes by the extended protocol. A name is prepared once."""
        send = b""
        if not name or name not in self.prepared:
            send = self.message(b"P", f"{name}\0{sql}\0".encode() + struct.pack("!h", 0))
            self.prepared.add(name)
        values = [value.encode() for value in values]
        bind = f"\0{name}\0".encode() + struct.pack("!hh", 0, len(values))
        bind += b"".join(struct.pack("!i", len(value)) + value for value in values) + struct.pack("!h", 0)
        send += self.message(b"B", bind) + self.message(b"D", b"P\0") + self.message(b"E", b"\0" + struct.pack("!i", 0))
        self.socket.sendall(send + self.message(b"S", b""))
        return self.answer()

    def run(self, statement):
        if statement["form"] == "plain":
            return self.query(statement["sql"])
        return self.execute(statement["sql"], statement["values"], statement["name"])

    def close(self):
        self.socket.sendall(self.message(b"X", b""))
        self.file.close()
        self.socket.close()


class Application:
    """Statements of an application, with generators of their values."""

    def __init__(self, name):
        self.name, self.values, self.units = name, {}, []
        with open(f"{HERE}/{name}.statements") as file:
            for line in file:
                if line.startswith("#"):
                    continue
                word, rest = line.rstrip("\n").split(" ", 1)
                if word == "value":
                    value, kind, arguments = rest.split(" ", 2)
                    self.values[value] = (kind, arguments)
                else:
                    form, sql = rest.split(" ", 1)
                    self.units.append((int(word), form, sql.split(" ;; ")))

    def value(self, name, draw):
        """Draws a value: `skewed` and `choice` prefer the first ones."""
        kind, arguments = self.values[name]
        if kind == "choice":
            words = arguments.split(",")
            return words[int(draw.random() ** 2 * len(words))]
        first, last = arguments.split(" ")
        if kind == "time":
            seconds = calendar.timegm(time.strptime(first, "%Y-%m-%d")) + draw.randrange(int(last) * 24) * 3600
            return time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(seconds))
        power = 2.5 if kind == "skewed" else 1
        return str(int(first) + int(draw.random() ** power * (int(last) - int(first) + 1)))

    def unit(self, number, draw):
        """Returns the statements of a unit with new values."""
        _, form, texts = self.units[number]
        drawn = {}
        for text in texts:
            for name in re.findall(r"{(\w+)}", text):
                drawn.setdefault(name, self.value(name, draw))
        statements = []
        for place, text in enumerate(texts):
            names = list(dict.fromkeys(re.findall(r"{(\w+)}", text)))
            if form == "plain":
                sql, values = re.sub(r"{(\w+)}", lambda found: drawn[found[1]], text), []
            else:
                sql = re.sub(r"{(\w+)}", lambda found: f"${names.index(found[1]) + 1}", text)
                values = [drawn[name] for name in names]
            name = f"s{number}_{place}" if form == "named" else ""
            statements.append({"form": form, "sql": sql, "values": values, "name": name})
        begin = {"form": "plain", "sql": "BEGIN", "values": [], "name": ""}
        return statements if len(texts) == 1 else [begin, *statements, {**begin, "sql": "COMMIT"}]

    def session(self, number, units):
        """Returns the units of a session: each once in a random order, then by weight."""
        draw = random.Random(f"{self.name} {number}")
        order = list(range(len(self.units)))
        draw.shuffle(order)
        order += draw.choices(range(len(self.units)), [unit[0] for unit in self.units], k=max(0, units - len(order)))
        return [(draw.expovariate(1 / PAUSE), self.unit(number, draw)) for number in order]


def out(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def server(rehearse, version):
    return out(rehearse, "sandbox", "url", f"apps-{version}").strip()


def load(rehearse, name, version, settings):
    """Creates the server if necessary, and the database."""
    if subprocess.run([rehearse, "sandbox", "url", f"apps-{version}"], capture_output=True).returncode:
        chosen = [word for setting in settings for word in ("--set", setting)]
        chosen += ["--set", "autovacuum=off", "--set", "fsync=off"]
        out(rehearse, "sandbox", "up", f"apps-{version}", "--postgres-version", version, "--fetched", *chosen)
    url = server(rehearse, version)
    admin = Client(url)
    admin.query(f"DROP DATABASE IF EXISTS {name}")
    admin.query(f"CREATE DATABASE {name} TEMPLATE template0")
    out("psql", "-qX", "-v", "ON_ERROR_STOP=1", f"{url.rpartition('/')[0]}/{name}", "-f", f"{HERE}/{name}.sql")
    client = Client(url, name)
    client.query("VACUUM ANALYZE")
    client.query("CHECKPOINT")
    print(f"{name} on {version}: {client.query('SELECT pg_size_pretty(pg_database_size(current_database()))')[0][0]}")


def capture(rehearse, name, version, directory, seconds):
    """Runs the sessions through the proxy. The data of the database stay: sessions use a copy in its place."""
    url, application = server(rehearse, version), Application(name)
    admin = Client(url)
    admin.query(f"ALTER DATABASE {name} RENAME TO {name}_kept")
    admin.query(f"CREATE DATABASE {name} TEMPLATE {name}_kept")
    command = [rehearse, "capture", "proxy", "--listen", "127.0.0.1:0", "--upstream", url, "--checksum-results", "rows"]
    proxy = subprocess.Popen([*command, "-o", f"{directory}/{name}.workload"], stderr=subprocess.PIPE, text=True)
    try:
        port = next(line.split("127.0.0.1:")[1].split(",")[0] for line in proxy.stderr if "listening at" in line)
        # Read on, so that a full pipe cannot stop the proxy.
        threading.Thread(target=proxy.stderr.read, daemon=True).start()
        clients = [Client(f"postgres://postgres@127.0.0.1:{port.split()[0]}/{name}") for _ in range(SESSIONS)]
        plans = [application.session(number, int(seconds / PAUSE)) for number in range(SESSIONS)]
        sent, end = [[] for _ in plans], time.monotonic() + seconds

        def session(number):
            for pause, unit in plans[number]:
                if time.monotonic() > end:
                    break
                for statement in unit:
                    clients[number].run(statement)
                    sent[number].append(statement)
                time.sleep(pause)
            clients[number].close()

        threads = [threading.Thread(target=session, args=(number,)) for number in range(SESSIONS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        proxy.send_signal(signal.SIGINT)
        proxy.wait()
        admin.query(f"DROP DATABASE {name}")
        admin.query(f"ALTER DATABASE {name}_kept RENAME TO {name}")
    with open(f"{directory}/{name}.traffic.json", "w") as file:
        json.dump(sent, file)
    print(f"{name}: {sum(map(len, sent))} statements, {len(application.units)} units")

CONDITIONS = ["Index Cond", "Recheck Cond", "TID Cond", "Order By", "Hash Cond", "Merge Cond", "Join Filter", "One-Time Filter",
    "Filter", "Run Condition", "Sort Key", "Presorted Key", "Group Key", "Cache Key", "Conflict Arbiter Indexes"]


def shape_of_server(node):
    """Returns the steps of a plan of EXPLAIN (FORMAT JSON), without numbers and texts of conditions."""
    get = node.get
    relation = get("Relation Name") or get("Function Name") or get("CTE Name")
    aside = get("Parent Relationship") if get("Parent Relationship") in ("InitPlan", "SubPlan") else None
    partial = None if get("Partial Mode") == "Simple" else get("Partial Mode")
    return [get("Node Type"), get("Strategy"), partial, get("Join Type"), get("Operation"), get("Scan Direction") == "Backward",
        get("Parallel Aware", False), get("Workers Planned"), aside, relation, get("Alias"), get("Index Name"),
        [label for label in CONDITIONS if label in node], [shape_of_server(child) for child in get("Plans", [])]]


def shape_of_check(node):
    """Returns the same of a plan of `plans check`."""
    aside = node["relationship"] if node["relationship"] in ("InitPlan", "SubPlan") else None
    labels = {condition["label"] for condition in node["conditions"]}
    return [node["kind"], node["strategy"], node["partial"], node["join"], node["operation"], node["backward"], node["parallel"],
        node["workers"], aside, node["relation"], node["alias"], node["index"], [label for label in CONDITIONS if label in labels],
        [shape_of_check(child) for child in node["children"]]]


def explain(client, statement, generic):
    """Returns the plan of a statement for its values, or without values."""
    sql = statement["sql"]
    if not generic:
        return json.loads(client.execute(f"EXPLAIN (FORMAT JSON) {sql}", statement["values"])[0][0])[0]["Plan"]
    client.query("SET plan_cache_mode = force_generic_plan")
    client.query(f"PREPARE generic AS {sql}")
    values = ", ".join("'" + value + "'" for value in statement["values"])
    rows = client.query(f"EXPLAIN (FORMAT JSON) EXECUTE generic({values})")
    client.query("DEALLOCATE generic")
    client.query("RESET plan_cache_mode")
    return json.loads(rows[0][0])[0]["Plan"]


def lines(node, depth=0):
    """Returns the steps of a shape as lines."""
    words = [str(word) for word in node[:12] if word not in (None, False)]
    below = [line for child in node[13] for line in lines(child, depth + 1)]
    return [f"        {'  ' * depth}{' '.join(words)} {node[12]}"] + below


def compare(title, check, sent, before, after):
    """Prints the counts of a change, and the plans on which `plans check` and the servers disagree."""
    counts = dict.fromkeys(("plans", "changed", "predicted", "right", "equal_before", "equal_after", "refused"), 0)
    example, wrong = {}, []
    for checked in check["statements"]:
        for pair in checked["plans"]:
            values, sides = pair["values"], [pair["plans"][side] for side in ("before", "after")]
            if values["kind"] == "captured":
                # The connection is the first event of a session.
                event = sent[values["session"]][values["sequence"] - 1]
                # The first one is an example of the generic plan.
                example.setdefault(checked["fingerprint"], event)
            generic = values["kind"] == "generic"
            statement = example[checked["fingerprint"]] if generic else event
            copies = [shape_of_check(side["plan"]["root"]) if side["status"] == "planned" else side for side in sides]
            servers = []
            for client in (before, after):
                try:
                    servers.append(shape_of_server(explain(client, statement, generic)))
                except RuntimeError as error:
                    servers.append(str(error))
                    client.query("ROLLBACK")
            predicted = sides[0].get("shape") != sides[1].get("shape")
            changed = servers[0] != servers[1]
            counts["plans"] += 1
            counts["changed"] += changed
            counts["predicted"] += predicted
            counts["right"] += changed and predicted
            counts["equal_before"] += copies[0] == servers[0]
            counts["equal_after"] += copies[1] == servers[1]
            counts["refused"] += any(isinstance(server, str) for server in servers)
            if changed != predicted or copies != servers:
                wrong.append((changed, predicted, statement, generic, copies, servers))
    print(f"{title}: {json.dumps(counts)}, {len(check['unchecked'])} statements unchecked", flush=True)
    for changed, predicted, statement, generic, copies, servers in wrong:
        kind = "missed" if changed and not predicted else "invented" if predicted and not changed else "other"
        print(f"    {kind}{' (generic)' if generic else ''}: {statement['sql']} {statement['values']}")
        for side, copy, server in zip(("before", "after"), copies, servers):
            if copy != server:
                for name, shape in (("check", copy), ("data", server)):
                    print(f"      {name} {side}", *(lines(shape) if isinstance(shape, list) else [shape]), sep="\n")
    return counts


def plans(rehearse, name, old, new, directory):
    with open(f"{directory}/{name}.traffic.json") as file:
        sent = json.load(file)
    urls = [server(rehearse, version) for version in (old, new)]
    planner = f"{directory}/{name}-{old}.planner"
    if os.path.exists(planner):
        os.unlink(planner)
    begun = time.monotonic()
    out(rehearse, "plans", "export", "--target", f"{urls[0].rpartition('/')[0]}/{name}", "-o", planner)
    print(f"{name} {old}: export {time.monotonic() - begun:.2f} s, {os.path.getsize(planner) / 1024:.0f} KiB", flush=True)
    before = Client(urls[0], name)

    def change(title, options, after):
        begun = time.monotonic()
        check = out(rehearse, "plans", "check", f"{directory}/{name}.workload", "--planner", planner, "--json", *options)
        taken = time.monotonic() - begun
        check = json.loads(check)
        counts = compare(f"{name} {title}, {taken:.1f} s", check, sent, before, after)
        for limit in check["limitations"]:
            print(f"    limit: {limit['side']} {limit['subject']}: {limit['reason']}")
        for one in check["unchecked"]:
            print(f"    unchecked: {one['sql']}: {one['reason']}")
        return counts

    change(f"{old} to {new}", ["--version", old, "--version", new], Client(urls[1], name))
    for settings in SETTINGS:
        client = Client(urls[0], name)
        for setting, value in settings.items():
            client.query(f"SET {setting} = '{value}'")
        options = [word for setting, value in settings.items() for word in ("--set", f"{setting}={value}")]
        change(f"{old} {settings}", options, client)
        client.close()
    migration = f"{directory}/{name}-migration.sql"
    with open(migration, "w") as file:
        file.write(MIGRATIONS[name].replace("; ", ";\n") + ";\n")
    before.close()
    admin = Client(urls[0])
    admin.query(f"DROP DATABASE IF EXISTS {name}_migrated")
    admin.query(f"CREATE DATABASE {name}_migrated TEMPLATE {name}")
    client = Client(urls[0], f"{name}_migrated")
    client.query(MIGRATIONS[name])
    client.query("CHECKPOINT")
    client.close()
    before = Client(urls[0], name)
    client = Client(urls[0], f"{name}_migrated")
    change(f"{old} migration", ["--change", migration], client)
    client.close()
    admin.query(f"DROP DATABASE {name}_migrated")


if __name__ == "__main__":
    rehearse, action, name = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    if action == "load":
        load(rehearse, name, sys.argv[4], sys.argv[5:])
    elif action == "capture":
        capture(rehearse, name, sys.argv[4], sys.argv[5], float(sys.argv[6]) if len(sys.argv) > 6 else 60)
    elif action == "plans":
        plans(rehearse, name, sys.argv[4], sys.argv[5], sys.argv[6])
    else:
        sys.exit(f"{action} is none of load, capture, plans")
