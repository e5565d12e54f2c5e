"""psycopg 3's story: story.py URL STATEMENTS.json"""

import sys
import threading
import time
from pathlib import Path

import psycopg
from psycopg import errors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from said import Story

url, path = sys.argv[1:]
story = Story("psycopg")
equal = story.equal


def connect(part, **more):
    said = story.connection(part)
    return psycopg.connect(url, application_name=said.application, **more), said.said


def prepared_and_text():
    connection, said = connect("statements", autocommit=True)
    for sql in (
        "DROP TABLE IF EXISTS psycopg_items",
        "CREATE TABLE psycopg_items (id int PRIMARY KEY, name text, price numeric(10,2), data bytea, made date)",
    ):
        connection.execute(sql)
        said(sql, kind="simple")
    # The first five are not prepared; from the sixth on there is a name.
    insert = "INSERT INTO psycopg_items (id, name) VALUES ($1, $2)"
    for n in range(8):
        found = connection.execute(insert.replace("$1", "%s").replace("$2", "%s"), (n, f"item {n}"))
        equal(found.rowcount, 1, "rows inserted")
        said(insert, [str(n), f"item {n}"], kind="execute", named=n >= 5, rows=1)
    # Values in text form and in binary form, and NULL; results in both forms.
    from datetime import date
    from decimal import Decimal

    for mark in ("%t", "%b"):
        sql = f"UPDATE psycopg_items SET price = {mark}, data = {mark}, made = {mark}, name = {mark} WHERE id = {mark}"
        values = (Decimal("12.50"), b"\x00\xff", date(2024, 2, 29), None, 3)
        connection.execute(sql, values)
        said(
            "UPDATE psycopg_items SET price = $1, data = $2, made = $3, name = $4 WHERE id = $5",
            ["12.50", "\\x00ff", "2024-02-29", None, "3"],
            types=["numeric", "bytea", "date", "text", "int2"],
            rows=1,
        )
    for binary in (False, True):
        sql = "SELECT id, price, data, made, name FROM psycopg_items WHERE id = %s"
        row = connection.execute(sql, (3,), binary=binary).fetchone()
        equal(row, (3, Decimal("12.50"), b"\x00\xff", date(2024, 2, 29), None), "the row")
        said(sql.replace("%s", "$1"), ["3"], types=["int2"], rows=1)
    # An array, a negative number, text with quotes and a backslash.
    sql = "SELECT $1::int[], $2::int8, $3::text"
    odd = "it's \\ \"ü\" 日本"
    row = connection.execute("SELECT %s::int[], %s::int8, %s::text", ([1, -2, 3], -(2**40), odd)).fetchone()
    equal(row, ([1, -2, 3], -(2**40), odd), "odd values")
    said(sql, ["{1,-2,3}", str(-(2**40)), odd], rows=1)
    connection.close()


def transactions():
    connection, said = connect("transactions")
    said("BEGIN", kind="simple")
    connection.execute("UPDATE psycopg_items SET name = 'a' WHERE id = 1")
    said("UPDATE psycopg_items SET name = 'a' WHERE id = 1", rows=1)
    try:
        with connection.transaction("inner"):
            said('SAVEPOINT "inner"')
            sql = "INSERT INTO psycopg_items (id) VALUES (1)"
            said(sql, sqlstate="23505")
            connection.execute(sql)
        sys.exit("psycopg: a second row with one key was taken")
    except errors.UniqueViolation as error:
        story.failed(error, "23505", "a second row with one key")
    said('ROLLBACK TO "inner"')
    said('RELEASE "inner"')
    connection.commit()
    said("COMMIT")
    # What comes behind an error in a transaction is refused.
    said("BEGIN")
    for sql, sqlstate in (("SELECT nothing FROM psycopg_items", "42703"), ("SELECT 1", "25P02")):
        said(sql, sqlstate=sqlstate)
        try:
            connection.execute(sql)
            sys.exit("psycopg: this was to fail")
        except psycopg.Error as error:
            story.failed(error, sqlstate, sql)
    connection.rollback()
    said("ROLLBACK")
    connection.close()


def copies():
    connection, said = connect("copies", autocommit=True)
    sql = "CREATE TEMPORARY TABLE copied (a int, b text)"
    connection.execute(sql)
    said(sql)
    sql, data = "COPY copied FROM STDIN", "".join(f"{n}\tline {n} ü\n" for n in range(1000))
    with connection.cursor() as cursor:
        with cursor.copy(sql) as copy:
            for part in (data[:7], data[7:5000], data[5000:]):
                copy.write(part)
        equal(cursor.rowcount, 1000, "rows copied in")
        said(sql, rows=1000, copy_data=data)
        with cursor.copy("COPY copied (a, b) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            for n in range(10):
                copy.write_row((n, "binary"))
        said("COPY copied (a, b) FROM STDIN (FORMAT binary)", rows=10)
        sql = "COPY copied (a) FROM STDIN"
        said(sql, sqlstate="57014", copy_data="1\n", copy_failed=True)
        try:
            with cursor.copy(sql) as copy:
                copy.write("1\n")
                raise KeyError("given up")
        except KeyError:
            story.checks += 1
        said("COPY copied (a) FROM STDIN", sqlstate="22P02", copy_data="x\n")
        try:
            with cursor.copy("COPY copied (a) FROM STDIN") as copy:
                copy.write("x\n")
            sys.exit("psycopg: x was taken for a number")
        except errors.InvalidTextRepresentation as error:
            story.failed(error, "22P02", "x as a number")
        sql = "COPY (SELECT * FROM copied ORDER BY ctid LIMIT 1000) TO STDOUT"
        with cursor.copy(sql) as copy:
            equal(b"".join(bytes(part) for part in copy).decode(), data, "what was copied out")
        said(sql, rows=1000)
    connection.close()


def large_and_cursors():
    connection, said = connect("large")
    said("BEGIN")
    sql = "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, 10000) n"
    rows = connection.execute(sql).fetchall()
    equal((len(rows), sum(len(row[1]) for row in rows)), (10000, 5120000), "a large result")
    said(sql, rows=10000)
    with connection.cursor(name="walk") as cursor:
        cursor.itersize = 400
        cursor.execute("SELECT n FROM generate_series(1, %s) n", (1000,))
        equal([n for (n,) in cursor], list(range(1, 1001)), "what a cursor on the server gave")
    said('DECLARE "walk" CURSOR FOR SELECT n FROM generate_series(1, $1) n', ["1000"])
    for rows in (400, 400, 200):
        said('FETCH FORWARD 400 FROM "walk"', rows=rows)
    said('CLOSE "walk"')
    with connection.cursor() as cursor:
        total = sum(n for (n,) in cursor.stream("SELECT n FROM generate_series(1, %s) n", (5000,)))
        equal(total, 12502500, "what came row by row")
    said("SELECT n FROM generate_series(1, $1) n", ["5000"], rows=5000)
    connection.commit()
    said("COMMIT")
    connection.close()


def cancelled():
    connection, said = connect("cancel", autocommit=True)
    threading.Timer(0.5, connection.cancel_safe).start()
    sql = "SELECT pg_sleep(30)"
    said(sql, sqlstate="57014")
    story.connections[-1].cancelled()
    begun = time.monotonic()
    try:
        connection.execute(sql)
        sys.exit("psycopg: the cancel did not come")
    except errors.QueryCanceled as error:
        story.failed(error, "57014", "a cancelled statement")
    equal(time.monotonic() - begun < 20, True, "that the cancel came soon")
    equal(connection.execute("SELECT 1").fetchone(), (1,), "what comes after a cancel")
    said("SELECT 1", rows=1)
    connection.close()


def notifications():
    listener, heard = connect("listener", autocommit=True)
    listener.execute("LISTEN psycopg_news")
    heard("LISTEN psycopg_news")
    teller, said = connect("teller", autocommit=True)
    teller.execute("SELECT pg_notify(%s, %s)", ("psycopg_news", "hello"))
    said("SELECT pg_notify($1, $2)", ["psycopg_news", "hello"], rows=1)
    notes = [(note.channel, note.payload) for note in listener.notifies(timeout=10, stop_after=1)]
    equal(notes, [("psycopg_news", "hello")], "the notification")
    listener.close()
    teller.close()


def pipelines():
    connection, said = connect("pipeline", autocommit=True)
    with connection.pipeline():
        cursors = []
        for n in range(20):
            cursors.append(connection.execute("SELECT %s::int * 2", (n,)))
            said("SELECT $1::int * 2", [str(n)], types=["int2"], kind="execute", rows=1)
        equal([cursor.fetchone()[0] for cursor in cursors], [2 * n for n in range(20)], "a pipeline")
    # An error; what stands behind it in the pipeline is passed over, what comes after its end is not.
    # The first waits, so that all are sent before the error comes.
    divide = "SELECT 10 / %s::int FROM pg_sleep(0.3)"
    try:
        with connection.pipeline() as pipeline:
            good = connection.execute(divide, (5,))
            said(divide.replace("%s", "$1"), ["5"], rows=1)
            connection.execute(divide, (0,))
            said(divide.replace("%s", "$1"), ["0"], sqlstate="22012")
            passed = connection.execute(divide, (2,))
            said(divide.replace("%s", "$1"), ["2"], unanswered=True)
            pipeline.sync()
        sys.exit("psycopg: a division by zero was done")
    except errors.DivisionByZero as error:
        story.failed(error, "22012", "an error in a pipeline")
    equal(good.fetchone(), (2,), "what stood before the error")
    equal(passed.pgresult, None, "the result of what stood behind the error")
    insert = "INSERT INTO psycopg_items (id, name) VALUES (%s, %s)"
    with connection.cursor() as cursor:
        cursor.executemany(insert, [(n, f"many {n}") for n in range(100, 300)])
        equal(cursor.rowcount, 200, "rows of executemany")
    for n in range(100, 300):
        said(insert.replace("%s", "$1", 1).replace("%s", "$2"), [str(n), f"many {n}"], rows=1)
    connection.close()


def several():
    """Six connections at once, each with its own numbers."""
    opened = [connect(f"several-{n}", autocommit=True) for n in range(6)]
    wrong = []

    def work(place):
        connection, said = opened[place]
        for n in range(50):
            sql = "SELECT %s::int + %s::int"
            if connection.execute(sql, (place, n)).fetchone() != (place + n,):
                wrong.append((place, n))
            said("SELECT $1::int + $2::int", [str(place), str(n)], types=["int2", "int2"], rows=1)
        connection.close()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [], "sums of six connections")
    story.checks += 299


prepared_and_text()
transactions()
copies()
large_and_cursors()
cancelled()
notifications()
pipelines()
several()
story.end(path)
