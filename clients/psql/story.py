"""psql's story: story.py URL STATEMENTS.json

psql's program is the one on PATH, or PSQL's. What it prints is checked, and what it has sent is known from
its scripts: a query goes as it stands in the script, up to its semicolon.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from said import Story

url, path = sys.argv[1:]
program = os.environ.get("PSQL", "psql")
story = Story("psql")
equal = story.equal
version = int(re.search(r"(\d+)", subprocess.check_output([program, "--version"], text=True))[1])


def environment(application):
    return {**os.environ, "PGAPPNAME": application, "PGCLIENTENCODING": "UTF8", "LC_ALL": "C.UTF-8"}


def psql(part, script, *options, code=0, more={}):
    """Runs a script in a session of its own: what was printed, and where to note what it sent."""
    said = story.connection(part, **more)
    done = subprocess.run(
        [program, "-X", "-q", "-A", "-t", *options, "-d", url],
        input=script,
        capture_output=True,
        text=True,
        env=environment(said.application),
        timeout=60,
    )
    if done.returncode != code:
        sys.exit(f"psql: {part} ended with {done.returncode}, not {code}: {done.stdout} {done.stderr}")
    return done, said.said


def statements():
    done, said = psql(
        "statements",
        """
DROP TABLE IF EXISTS psql_items;
CREATE TABLE psql_items (id int PRIMARY KEY, name text);
INSERT INTO psql_items SELECT n, 'it''s "ü" ' || n FROM generate_series(1, 10) n;
SELECT 1 AS one \\; SELECT 2 AS two;
SELECT max(id) AS most FROM psql_items \\gset
SELECT :most + 1;
PREPARE item (int) AS SELECT name FROM psql_items WHERE id = $1;
EXECUTE item (3);
SELECT 'SELECT ' || n FROM generate_series(7, 8) n \\gexec
\\d psql_items
""",
        "-v",
        "ON_ERROR_STOP=1",
    )
    lines = done.stdout.splitlines()
    equal(lines[:6], ["1", "2", "11", "it's \"ü\" 3", "7", "8"], "what the statements gave")
    equal([line for line in lines if line.startswith("id|")], ["id|integer||not null|"], "a table's description")
    said("DROP TABLE IF EXISTS psql_items;", kind="simple")
    said("CREATE TABLE psql_items (id int PRIMARY KEY, name text);")
    said("INSERT INTO psql_items SELECT n, 'it''s \"ü\" ' || n FROM generate_series(1, 10) n;", rows=10)
    said("SELECT 1 AS one ; SELECT 2 AS two;", kind="simple")
    said("SELECT max(id) AS most FROM psql_items ", rows=1)
    said("SELECT 10 + 1;", rows=1)
    said("PREPARE item (int) AS SELECT name FROM psql_items WHERE id = $1;")
    said("EXECUTE item (3);", rows=1)
    said("SELECT 'SELECT ' || n FROM generate_series(7, 8) n ", rows=2)
    said("SELECT 7", rows=1)
    said("SELECT 8", rows=1)


def transactions():
    done, said = psql(
        "transactions",
        """
BEGIN;
UPDATE psql_items SET name = 'a' WHERE id = 1;
INSERT INTO psql_items VALUES (1);
SELECT count(*) FROM psql_items WHERE name = 'a';
COMMIT;
BEGIN;
\\set ON_ERROR_ROLLBACK off
SELECT nothing FROM psql_items;
SELECT 1;
ROLLBACK;
""",
        "-v",
        "ON_ERROR_ROLLBACK=on",
        "-v",
        "VERBOSITY=sqlstate",
    )
    equal(done.stdout.splitlines(), ["1"], "what the transactions gave")
    codes = [line.split()[-1] for line in done.stderr.splitlines() if "ERROR" in line]
    equal(codes, ["23505", "42703", "25P02"], "the errors")
    save, back, release = (
        f"{word} pg_psql_temporary_savepoint" for word in ("SAVEPOINT", "ROLLBACK TO", "RELEASE")
    )
    said("BEGIN;")
    said(save)
    said("UPDATE psql_items SET name = 'a' WHERE id = 1;", rows=1)
    said(release)
    said(save)
    said("INSERT INTO psql_items VALUES (1);", sqlstate="23505")
    said(back)
    said(save)
    said("SELECT count(*) FROM psql_items WHERE name = 'a';", rows=1)
    said(release)
    said("COMMIT;")
    said("BEGIN;")
    said("SELECT nothing FROM psql_items;", sqlstate="42703")
    said("SELECT 1;", sqlstate="25P02")
    said("ROLLBACK;")


def copies(folder):
    data = "".join(f"{n}\tline {n} ü\n" for n in range(1000))
    (folder / "in").write_text(data, encoding="utf-8")
    done, said = psql(
        "copies",
        f"""
CREATE TEMPORARY TABLE copied (a int, b text);
\\copy copied FROM '{folder}/in'
\\copy copied TO '{folder}/out'
COPY copied FROM STDIN;
1\tinline
\\.
COPY copied (a) FROM STDIN;
x
\\.
COPY copied TO STDOUT;
""",
        "-v",
        "VERBOSITY=sqlstate",
    )
    equal((folder / "out").read_text(encoding="utf-8"), data, "what was copied into a file")
    equal(done.stdout, data + "1\tinline\n", "what was copied out")
    equal(done.stderr.split()[-1], "22P02", "the error of a copy")
    said("CREATE TEMPORARY TABLE copied (a int, b text);")
    said("COPY  copied FROM STDIN ", kind="simple", rows=1000, copy_data=data)
    said("COPY  copied TO STDOUT ", rows=1000)
    # Until 17 psql sends the line that ends the data as well.
    end = "\\.\n" if version < 18 else ""
    said("COPY copied FROM STDIN;", rows=1, copy_data="1\tinline\n" + end)
    said("COPY copied (a) FROM STDIN;", sqlstate="22P02", copy_data="x\n" + end)
    said("COPY copied TO STDOUT;", rows=1001)


def large():
    sql = "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, 10000) n"
    walk = "SELECT n FROM generate_series(1, 1000) n"
    done, said = psql("large", f"{sql};\n\\set FETCH_COUNT 400\n{walk};\n")
    lines = done.stdout.splitlines()
    equal(len(lines), 11000, "lines of a large result")
    equal(sum(len(line.split("|")[1]) for line in lines[:10000]), 5120000, "a large result")
    equal(lines[10000:], [str(n) for n in range(1, 1001)], "what came in parts")
    said(f"{sql};", rows=10000)
    if version >= 17:
        said(f"{walk};", rows=1000)
        return
    # Until 16 psql fetches with a cursor.
    said("BEGIN")
    said(f"DECLARE _psql_cursor NO SCROLL CURSOR FOR\n{walk};")
    for rows in (400, 400, 200):
        said("FETCH FORWARD 400 FROM _psql_cursor", rows=rows)
    said("CLOSE _psql_cursor")
    said("COMMIT")


def cancelled():
    said = story.connection("cancel")
    process = subprocess.Popen(
        [program, "-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-d", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(said.application),
    )
    process.stdin.write("SELECT 1;\nSELECT pg_sleep(30);\nSELECT 2;\n")
    process.stdin.close()
    equal(process.stdout.readline(), "1\n", "what came before")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    equal(process.stderr.read().split()[-1], "57014", "a cancelled statement")
    said.said("SELECT 1;", rows=1)
    said.said("SELECT pg_sleep(30);", sqlstate="57014")
    said.cancelled()
    # psql goes on with its script where it is interactive, and ends it otherwise.
    rest = process.stdout.read()
    if rest:
        equal(rest, "2\n", "what came after a cancel")
        said.said("SELECT 2;", rows=1)


def notifications():
    done, said = psql("news", "LISTEN psql_news;\nNOTIFY psql_news, 'hello';\nSELECT 1;\n")
    equal('notification "psql_news" with payload "hello"' in done.stdout, True, "the notification")
    said("LISTEN psql_news;")
    said("NOTIFY psql_news, 'hello';")
    said("SELECT 1;", rows=1)


def large_objects(folder):
    """By function calls of the protocol."""
    (folder / "object").write_bytes(bytes(range(256)) * 100)
    _, said = psql("objects", f"\\lo_import '{folder}/object'\n\\lo_export :LASTOID '{folder}/back'\nSELECT 1;\n")
    equal((folder / "back").read_bytes(), bytes(range(256)) * 100, "a large object")
    said("SELECT 1;", rows=1)


def replication():
    """A replication connection; it is no session of a workload."""
    said = story.connection("replication", absent=True)
    target = url + ("&" if "?" in url else "?") + "replication=database"
    done = subprocess.run(
        [program, "-X", "-q", "-A", "-t", "-d", target, "-c", "IDENTIFY_SYSTEM"],
        capture_output=True,
        text=True,
        env=environment(said.application),
        timeout=60,
    )
    equal((done.returncode, done.stdout.count("|")), (0, 3), f"a replication connection {done.stderr}")


def refused():
    """A login that the server refuses: psql says why, and there is no session."""
    target = re.sub(r"/[^/?]*(\?|$)", r"/psql_no_such_database\1", url)
    done = subprocess.run(
        [program, "-X", "-d", target, "-c", "SELECT 1"],
        capture_output=True,
        text=True,
        env=environment("refused by the server"),
        timeout=60,
    )
    equal(done.returncode, 2, "the exit code of a refused login")
    equal('database "psql_no_such_database" does not exist' in done.stderr, True, "a refused login")


with tempfile.TemporaryDirectory() as place:
    folder = Path(place)
    statements()
    transactions()
    copies(folder)
    large()
    cancelled()
    notifications()
    large_objects(folder)
    replication()
    refused()
story.end(path)
