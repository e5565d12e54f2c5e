"""PgBouncer's story, in transaction mode: story.py URL STATEMENTS.json

PgBouncer's program is the one on PATH, or PGBOUNCER's; from 1.21 on it knows prepared statements. It runs
between psycopg and the server, so that a session is one of its connections to the server, with the
transactions of several clients: what these send is noted by the connection on which it arrives.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import errors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from said import Story

url, path = sys.argv[1:]
program = os.environ.get("PGBOUNCER", "pgbouncer")
story = Story("pgbouncer")
equal = story.equal
parts = urlsplit(url)


def settings(folder):
    password = unquote(parts.password or os.environ.get("PGPASSWORD", ""))
    server = f"host={parts.hostname} port={parts.port} dbname={parts.path[1:]} user={parts.username} password={password}"
    mode = "require" if "sslmode=require" in parts.query else "prefer"
    return f"""
[databases]
one = {server} pool_size=1 application_name=pgbouncer-one
reset = {server} pool_size=1 application_name=pgbouncer-reset
several = {server} pool_size=3 application_name=pgbouncer-several
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
pool_mode = transaction
max_prepared_statements = 3
server_tls_sslmode = {mode}
ignore_startup_parameters = extra_float_digits
"""


def client(database, **more):
    more = {"autocommit": True, "prepare_threshold": 0, "application_name": f"pgbouncer-{database}", **more}
    return psycopg.connect(host=str(folder), port=6432, user="anyone", password="", dbname=database, **more)


def shared():
    """Three clients on one connection to the server."""
    said = story.connection("one").said
    one, two, three = (client("one") for _ in range(3))
    for sql in ("DROP TABLE IF EXISTS pgbouncer_items", "CREATE TABLE pgbouncer_items (id int PRIMARY KEY, name text, at timestamptz)"):
        one.execute(sql, prepare=False)
        said(sql)
    # One text, prepared by each client under a name of its own, is prepared once; other texts push it out.
    insert = "INSERT INTO pgbouncer_items (id, name) VALUES (%s, %s)"
    sent = "INSERT INTO pgbouncer_items (id, name) VALUES ($1, $2)"
    for n in range(12):
        who = (one, two, three)[n % 3]
        equal(who.execute(insert, (n, f"item {n}")).rowcount, 1, "rows inserted")
        said(sent, [str(n), f"item {n}"], types=["int2", "text"], named=True, rows=1)
        for more in range(n // 4 * 2):
            equal(who.execute(f"SELECT %s::int + {more}", (n,)).fetchone(), (n + more,), "a sum")
            said(f"SELECT $1::int + {more}", [str(n)], types=["int2"], named=True, rows=1)
    # Transactions of two clients: one waits for the other's end.
    done = []

    def second():
        two.execute("UPDATE pgbouncer_items SET name = 'second' WHERE id = 1", prepare=False)
        done.append(1)

    with one.transaction():
        one.execute(insert, (50, "first"))
        said("BEGIN")
        said(sent, ["50", "first"], types=["int2", "text"], named=True, rows=1)
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        equal(done, [], "that the second waits")
        try:
            with one.transaction("inner"):
                said('SAVEPOINT "inner"')
                said(sent, ["50", "again"], types=["int2", "text"], sqlstate="23505")
                one.execute(insert, (50, "again"))
            sys.exit("pgbouncer: a second row with one key was taken")
        except errors.UniqueViolation as error:
            story.failed(error, "23505", "a second row with one key")
        said('ROLLBACK TO "inner"')
        said('RELEASE "inner"')
    said("COMMIT")
    thread.join()
    said("UPDATE pgbouncer_items SET name = 'second' WHERE id = 1", rows=1)
    # What PgBouncer carries over for each client, and what it does not: the next one has it.
    two.execute("SET TimeZone TO 'Asia/Tokyo'", prepare=False)
    said("SET TimeZone TO 'Asia/Tokyo'")
    show = "UPDATE pgbouncer_items SET at = '2024-02-29 12:00', name = current_setting('TimeZone') || current_setting('work_mem') WHERE id = %s"
    for who, n, expected in ((one, 3, None), (two, 4, "Asia/Tokyo4MB"), (three, 5, None)):
        who.execute(show, (n,))
        said(show.replace("%s", "$1"), [str(n)], types=["int2"], named=True, rows=1)
        name = who.execute("SELECT name FROM pgbouncer_items WHERE id = %s", (n,)).fetchone()[0]
        said("SELECT name FROM pgbouncer_items WHERE id = $1", [str(n)], types=["int2"], named=True, rows=1)
        equal(name == expected, expected is not None, "the time zone of a client")
    for sql, n, expected in (("SET work_mem = '5MB'", 6, "5MB"), ("RESET work_mem", 7, "4MB")):
        three.execute(sql, prepare=False)
        said(sql)
        one.execute(show, (n,))
        said(show.replace("%s", "$1"), [str(n)], types=["int2"], named=True, rows=1)
        name = one.execute("SELECT name FROM pgbouncer_items WHERE id = %s", (n,)).fetchone()[0]
        said("SELECT name FROM pgbouncer_items WHERE id = $1", [str(n)], types=["int2"], named=True, rows=1)
        equal(name.endswith(expected), True, "a setting of another client")
    with two.transaction():
        two.execute("SET LOCAL work_mem = '6MB'", prepare=False)
        two.execute(show, (8,))
    said("BEGIN")
    said("SET LOCAL work_mem = '6MB'")
    said(show.replace("%s", "$1"), ["8"], types=["int2"], named=True, rows=1)
    said("COMMIT")
    for who in (one, two, three):
        who.close()


def reset():
    """An abandoned transaction, a copy, a pipeline with an error, and a cancelled statement."""
    noted = story.connection("reset")
    said = noted.said
    one, two = client("reset", autocommit=False), client("reset")
    one.execute("UPDATE pgbouncer_items SET name = 'lost'", prepare=False)
    said("BEGIN")
    said("UPDATE pgbouncer_items SET name = 'lost'", rows=13)
    # PgBouncer closes the connection to the server, and opens another.
    one.close()
    said = story.connection("reset").said
    for sql in ("DROP TABLE IF EXISTS pgbouncer_copied", "CREATE TABLE pgbouncer_copied (id int, name text)"):
        two.execute(sql, prepare=False)
        said(sql)
    with two.cursor() as cursor:
        with cursor.copy("COPY pgbouncer_copied FROM STDIN") as copy:
            copy.write("100\tcopied\n101\tcopied\n")
    said("COPY pgbouncer_copied FROM STDIN", rows=2, copy_data="100\tcopied\n101\tcopied\n")
    insert = "INSERT INTO pgbouncer_items (id, name) VALUES (%s, %s)"
    sent = "INSERT INTO pgbouncer_items (id, name) VALUES ($1, $2)"
    try:
        with two.pipeline():
            for n in (200, 201, 200, 202):
                two.execute(insert, (n, "pipeline"))
        sys.exit("pgbouncer: a second row with one key was taken")
    except errors.UniqueViolation as error:
        story.failed(error, "23505", "an error in a pipeline")
    equal(two.execute("SELECT count(*) FROM pgbouncer_items WHERE id BETWEEN 200 AND 299", prepare=False).fetchone(), (0,), "what a pipeline left")
    for n, more in ((200, {"rows": 1}), (201, {"rows": 1}), (200, {"sqlstate": "23505"}), (202, {"unanswered": True})):
        said(sent, [str(n), "pipeline"], types=["int2", "text"], named=True, **more)
    said("SELECT count(*) FROM pgbouncer_items WHERE id BETWEEN 200 AND 299", rows=1)
    threading.Timer(0.5, two.cancel_safe).start()
    said("SELECT pg_sleep(30)", sqlstate="57014")
    story.connections[-1].cancelled()
    try:
        two.execute("SELECT pg_sleep(30)", prepare=False)
        sys.exit("pgbouncer: the cancel did not come")
    except errors.QueryCanceled as error:
        story.failed(error, "57014", "a cancelled statement")
    equal(two.execute("SELECT 1", prepare=False).fetchone(), (1,), "what comes after a cancel")
    said("SELECT 1", rows=1)
    two.close()


def several():
    """Eight clients at once, and three connections, which tell by their process which one they are."""
    lock, lines, wrong = threading.Lock(), {}, []

    def work(place):
        with client("several") as one:
            for n in range(10):
                with one.transaction():
                    process = one.execute("SELECT pg_backend_pid()", prepare=False).fetchone()[0]
                    with lock:
                        if process not in lines:
                            lines[process] = story.connection("several")
                        # Its next transaction comes after this one's end.
                        lines[process].said("BEGIN")
                    for sql, values in (
                        ("INSERT INTO pgbouncer_items (id, name) VALUES (%s, %s)", (1000 + place * 100 + n, f"several {n}")),
                        (f"UPDATE pgbouncer_items SET name = name || '{place}' WHERE id = %s", (1000 + place * 100 + n,)),
                    ):
                        if one.execute(sql, values).rowcount != 1:
                            wrong.append((place, n))
                        text = sql.replace("%s", "$1", 1).replace("%s", "$2")
                        with lock:
                            lines[process].said(text, map(str, values), types=["int2", "text"], named=True, rows=1)
                    with lock:
                        lines[process].said("COMMIT")

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [], "transactions of eight clients")
    equal(len(lines), 3, "connections to the server")
    story.checks += 80


with tempfile.TemporaryDirectory() as place:
    folder = Path(place)
    (folder / "pgbouncer.ini").write_text(settings(folder), encoding="utf-8")
    command = [program, str(folder / "pgbouncer.ini")]
    if os.getuid() == 0:
        # It refuses to run as root.
        import pwd

        nobody = pwd.getpwnam("nobody")
        for one in (folder, folder / "pgbouncer.ini"):
            os.chown(one, nobody.pw_uid, nobody.pw_gid)
        command[1:1] = ["-u", "nobody"]
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(100):
            if (folder / ".s.PGSQL.6432").exists():
                break
            time.sleep(0.05)
        shared()
        reset()
        several()
    except psycopg.Error as error:
        sys.exit(f"pgbouncer: {error}\n{(folder / 'log').read_text(encoding='utf-8')}")
    finally:
        process.terminate()
        process.wait(timeout=20)
story.end(path)
