"""pgbench's story: story.py URL STATEMENTS.json

pgbench's program is the one on PATH, or PGBENCH's; psql looks at what it has done. pgbench tells with
--debug what it sends; its own script below has no random values, so that parameters are known too.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from said import Story

url, path = sys.argv[1:]
pgbench_program = os.environ.get("PGBENCH", "pgbench")
story = Story("pgbench")
equal = story.equal
CLIENTS, EACH = 4, 25

# {m} is the mode. What pgbench sends is what stands here, with values or $1 for :variables.
SCRIPT = r"""\set i :i + 1
\set key :client_id * 1000 + :i
BEGIN;
INSERT INTO pgbench_story VALUES (:client_id, :key, '{m}');
SELECT sum(key) AS total FROM pgbench_story WHERE client = :client_id AND mode = '{m}' \gset
UPDATE pgbench_story SET total = :total WHERE key = :key AND mode = '{m}';
END;
"""
PIPELINE = r"""\set i :i + 1
\startpipeline
SELECT :client_id::int + :i;
SELECT :i::int * 2;
UPDATE pgbench_story SET total = :i WHERE client = :client_id AND mode = 'simple' AND key < :i;
\endpipeline
"""


def run(application, *options):
    done = subprocess.run(
        [pgbench_program, *options, url],
        capture_output=True,
        text=True,
        env={**os.environ, "PGAPPNAME": application, "LC_ALL": "C.UTF-8"},
        timeout=120,
    )
    if done.returncode:
        sys.exit(f"pgbench: {' '.join(options)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def ask(part, sql):
    """What psql gives for one query, in a session of its own."""
    said = story.connection(part)
    done = subprocess.run(
        [os.environ.get("PSQL", "psql"), "-X", "-A", "-t", "-d", url, "-c", sql],
        capture_output=True,
        text=True,
        env={**os.environ, "PGAPPNAME": said.application},
        timeout=60,
    )
    if done.returncode:
        sys.exit(f"pgbench: psql said: {done.stderr}")
    said.said(sql, kind="simple")
    return done.stdout.strip()


def counted(done, transactions):
    """What pgbench says of itself."""
    found = re.search(r"transactions actually processed: (\d+)/(\d+)", done.stdout)
    equal(found.groups(), (str(transactions),) * 2, "transactions that pgbench counted")
    failed = re.search(r"number of failed transactions: (\d+)", done.stdout)
    equal(failed[1] if failed else "0", "0", "failed transactions that pgbench counted")


def initialise():
    said = story.connection("init")
    run(said.application, "-i", "-q", "-s", "1")
    said.said("begin", kind="simple")
    server = int(ask("version", "SHOW server_version_num")) // 10000
    newer = " with (freeze on)" if server >= 14 else ""
    sql = f"copy pgbench_accounts from stdin{newer}"
    # pgbench 17 and later load the smaller tables in this way as well.
    said.said(sql, rows=100000)
    said.said("commit")
    said.said("vacuum analyze pgbench_accounts")
    said.said("alter table pgbench_accounts add primary key (aid)")
    equal(ask("loaded", "SELECT count(*) FROM pgbench_accounts"), "100000", "accounts")


def own_script(mode, folder):
    script = folder / "script"
    script.write_text(SCRIPT.replace("{m}", mode))
    application = f"pgbench-own-{mode}"
    options = ["-n", "-M", mode, "-c", str(CLIENTS), "-j", "2", "-t", str(EACH), "-D", "i=0", "-f", str(script)]
    counted(run(application, *options), CLIENTS * EACH)
    simple = mode == "simple"
    for client in range(CLIENTS):
        said = story.connection(f"own-{mode}").said
        total = 0
        for i in range(1, EACH + 1):
            key = client * 1000 + i
            total += key
            say(said, mode, "BEGIN;", [])
            say(said, mode, f"INSERT INTO pgbench_story VALUES ($1, $2, '{mode}');", [client, key], rows=1)
            sql = f"SELECT sum(key) AS total FROM pgbench_story WHERE client = $1 AND mode = '{mode}' "
            say(said, mode, sql, [client], rows=1)
            sql = f"UPDATE pgbench_story SET total = $1 WHERE key = $2 AND mode = '{mode}';"
            say(said, mode, sql, [total, key], rows=1)
            say(said, mode, "END;", [])
    # The connection on which pgbench looks around before it begins.
    story.connection(f"own-{mode}")
    sums = ask(f"sums-{mode}", f"SELECT count(*), sum(key) FROM pgbench_story WHERE mode = '{mode}'")
    expected = sum(client * 1000 + i for client in range(CLIENTS) for i in range(1, EACH + 1))
    equal(sums, f"{CLIENTS * EACH}|{expected}", f"what {mode} mode has written")


def say(said, mode, sql, values, **more):
    """A statement as a mode sends it: with the values in its text, or beside it."""
    if mode == "simple":
        for n, value in enumerate(values):
            sql = sql.replace(f"${n + 1}", str(value))
        said(sql, kind="simple", **more)
    else:
        said(sql, [str(value) for value in values], kind="execute", named=mode == "prepared", **more)


def pipelines(mode, folder):
    script = folder / "pipeline"
    script.write_text(PIPELINE)
    options = ["-n", "-M", mode, "-c", "2", "-t", str(EACH), "-D", "i=0", "-f", str(script)]
    counted(run(f"pgbench-pipeline-{mode}", *options), 2 * EACH)
    for client in range(2):
        said = story.connection(f"pipeline-{mode}").said
        for i in range(1, EACH + 1):
            say(said, mode, "SELECT $1::int + $2;", [client, i], rows=1)
            say(said, mode, "SELECT $1::int * 2;", [i], rows=1)
            sql = "UPDATE pgbench_story SET total = $1 WHERE client = $2 AND mode = 'simple' AND key < $3;"
            rows = max(0, i - 1) if client == 0 else 0
            say(said, mode, sql, [i, client, i], rows=rows)
    story.connection(f"pipeline-{mode}")


def builtin(mode):
    """pgbench's own load, with random values: what it says that it sends."""
    application = f"pgbench-builtin-{mode}"
    options = ["-n", "-d", "-M", mode, "-c", str(CLIENTS), "-t", str(EACH), "-b", "tpcb-like"]
    done = run(application, *options)
    counted(done, CLIENTS * EACH)
    texts = [
        "BEGIN;",
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1;",
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;",
        "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);",
        "END;",
    ]
    sent = {str(client): [] for client in range(CLIENTS)}
    for client, text in re.findall(r"client (\d+) sending (.*)", done.stderr):
        sent[client].append(text)
    equal({len(of) for of in sent.values()}, {7 * EACH}, "statements that pgbench says it sent")
    for client in sent:
        said = story.connection(f"builtin-{mode}").said
        for n, text in enumerate(sent[client]):
            # In prepared mode it says only the statement's name.
            sql = texts[n % 7] if mode == "prepared" else text
            more = {} if sql in ("BEGIN;", "END;") else {"rows": 1}
            said(sql, kind="simple" if mode == "simple" else "execute", **more)
    look = story.connection(f"builtin-{mode}")
    look.said("select count(*) from pgbench_branches", kind="simple")
    sums = ask(
        f"balances-{mode}",
        "SELECT count(DISTINCT balance) FROM (SELECT sum(abalance) AS balance FROM pgbench_accounts"
        " UNION ALL SELECT sum(tbalance) FROM pgbench_tellers UNION ALL SELECT sum(bbalance) FROM pgbench_branches"
        " UNION ALL SELECT sum(delta) FROM pgbench_history) AS balances",
    )
    equal(sums, "1", f"sums of balances after {mode} mode")


with tempfile.TemporaryDirectory() as place:
    initialise()
    ask("drop", "DROP TABLE IF EXISTS pgbench_story")
    ask("create", "CREATE TABLE pgbench_story (client int, key int, mode text, total int)")
    for mode in ("simple", "extended", "prepared"):
        own_script(mode, Path(place))
        builtin(mode)
    for mode in ("extended", "prepared"):
        pipelines(mode, Path(place))
story.end(path)
