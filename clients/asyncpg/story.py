"""asyncpg's story: story.py URL STATEMENTS.json"""

import asyncio
import io
import sys
import uuid
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import asyncpg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from said import Story

url, path = sys.argv[1:]
story = Story("asyncpg")
equal = story.equal


async def connect(part, **more):
    said = story.connection(part)
    settings = {"application_name": said.application}
    return await asyncpg.connect(url, server_settings=settings, **more), said.said


async def statements():
    connection, said = await connect("statements")
    # Without arguments, execute() is a simple query, which may hold several statements.
    sql = "DROP TABLE IF EXISTS asyncpg_items; CREATE TABLE asyncpg_items (id int PRIMARY KEY, name text, price numeric, data bytea, key uuid, at timestamptz, sizes int[], done bool, ratio float8)"
    equal(await connection.execute(sql), "CREATE TABLE", "the tag of two statements")
    said(sql, kind="simple")
    # With arguments it is prepared under a name, and every value in its type's binary form.
    insert = "INSERT INTO asyncpg_items VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    types = ["int4", "text", "numeric", "bytea", "uuid", "timestamptz", "int4[]", "bool", "float8"]
    key = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
    at = datetime(2024, 2, 29, 12, 30, tzinfo=timezone.utc)
    for n in range(3):
        values = (n, f"item {n} ü", Decimal("1234567.0890"), b"\x00\xff", key, at, [1, -2, n], n == 1, 0.1)
        equal(await connection.execute(insert, *values), "INSERT 0 1", "the tag of an insert")
        said(
            insert,
            [str(n), f"item {n} ü", "1234567.0890", "\\x00ff", str(key), "2024-02-29 12:30:00+00"]
            + [f"{{1,-2,{n}}}", "t" if n == 1 else "f", "0.1"],
            types=types,
            kind="execute",
            rows=1,
        )
    select = "SELECT * FROM asyncpg_items WHERE id = $1"
    row = await connection.fetchrow(select, 1)
    equal(tuple(row), (1, "item 1 ü", Decimal("1234567.0890"), b"\x00\xff", key, at, [1, -2, 1], True, 0.1), "the row")
    # fetchrow asks for one row.
    said(select, ["1"], types=["int4"], kind="execute", rows=1)
    equal(await connection.fetch(select, 99), [], "no row")
    said(select, ["99"], types=["int4"], rows=0)
    equal(await connection.fetchval("SELECT $1::int8 + $2::int2", -(2**40), -5), -(2**40) - 5, "a sum")
    said("SELECT $1::int8 + $2::int2", [str(-(2**40)), "-5"], types=["int8", "int2"], rows=1)
    equal(await connection.fetchval("SELECT $1::text IS NULL", None), True, "NULL")
    said("SELECT $1::text IS NULL", [None], types=["text"], rows=1)
    # A prepared statement that is used often; many values in one go.
    prepared = await connection.prepare("SELECT $1::int * 3")
    equal([await prepared.fetchval(n) for n in range(10)], [3 * n for n in range(10)], "a prepared one")
    for n in range(10):
        said("SELECT $1::int * 3", [str(n)], types=["int4"], named=True, rows=1)
    insert = "INSERT INTO asyncpg_items (id, name) VALUES ($1, $2)"
    await connection.executemany(insert, [(n, f"many {n}") for n in range(100, 300)])
    equal(await connection.fetchval("SELECT count(*) FROM asyncpg_items"), 203, "rows in all")
    for n in range(100, 300):
        said(insert, [str(n), f"many {n}"], types=["int4", "text"], rows=1)
    said("SELECT count(*) FROM asyncpg_items", rows=1)
    await connection.close()


async def transactions():
    connection, said = await connect("transactions")
    async with connection.transaction(isolation="repeatable_read"):
        said("BEGIN ISOLATION LEVEL REPEATABLE READ;", kind="simple")
        await connection.execute("UPDATE asyncpg_items SET name = $1 WHERE id = 1", "a")
        said("UPDATE asyncpg_items SET name = $1 WHERE id = 1", ["a"], types=["text"], rows=1)
        insert = "INSERT INTO asyncpg_items (id) VALUES ($1)"
        try:
            # A savepoint, whose name asyncpg makes up.
            async with connection.transaction():
                said(insert, ["1"], types=["int4"], sqlstate="23505")
                await connection.execute(insert, 1)
            sys.exit("asyncpg: a second row with one key was taken")
        except asyncpg.UniqueViolationError as error:
            story.failed(error, "23505", "a second row with one key")
        equal(await connection.fetchval("SELECT 7"), 7, "what comes after the savepoint")
        said("SELECT 7", rows=1)
    said("COMMIT;", kind="simple")
    transaction = connection.transaction()
    await transaction.start()
    said("BEGIN;", kind="simple")
    for sql, sqlstate in (("SELECT nothing FROM asyncpg_items", "42703"), ("SELECT 1", "25P02")):
        # This fails as it is prepared.
        said(sql, sqlstate=sqlstate, kind="prepare")
        try:
            await connection.fetch(sql)
            sys.exit("asyncpg: this was to fail")
        except asyncpg.PostgresError as error:
            story.failed(error, sqlstate, sql)
    await transaction.rollback()
    said("ROLLBACK;", kind="simple")
    await connection.close()


async def copies():
    connection, said = await connect("copies")
    await connection.execute("CREATE TABLE asyncpg_copied (a int, b text)")
    said("CREATE TABLE asyncpg_copied (a int, b text)", kind="simple")
    data = "".join(f"{n}\tline {n} ü\n" for n in range(1000))
    tag = await connection.copy_to_table("asyncpg_copied", source=io.BytesIO(data.encode()))
    equal(tag, "COPY 1000", "the tag of a copy")
    said('COPY "asyncpg_copied" FROM STDIN  ', rows=1000, copy_data=data)
    records = [(n, "binary") for n in range(50)]
    tag = await connection.copy_records_to_table("asyncpg_copied", records=records, columns=["a", "b"])
    equal(tag, "COPY 50", "the tag of a binary copy")
    said('COPY "asyncpg_copied"("a", "b") FROM STDIN (FORMAT binary) ', rows=50)
    try:
        said('COPY "asyncpg_copied" FROM STDIN  ', sqlstate="22P02", copy_data="x\ty\n")
        await connection.copy_to_table("asyncpg_copied", source=io.BytesIO(b"x\ty\n"))
        sys.exit("asyncpg: x was taken for a number")
    except asyncpg.InvalidTextRepresentationError as error:
        story.failed(error, "22P02", "x as a number")
    out = io.BytesIO()
    query = "SELECT a, b FROM asyncpg_copied WHERE b <> 'binary' ORDER BY a"
    equal(await connection.copy_from_query(query, output=out), "COPY 1000", "the tag of a copy out")
    equal(out.getvalue().decode(), data, "what was copied out")
    said(f"COPY ({query}) TO STDOUT ", rows=1000)
    await connection.execute("DROP TABLE asyncpg_copied")
    said("DROP TABLE asyncpg_copied")
    await connection.close()


async def large_and_cursors():
    connection, said = await connect("large")
    sql = "SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, 10000) n"
    rows = await connection.fetch(sql)
    equal((len(rows), sum(len(row[1]) for row in rows)), (10000, 5120000), "a large result")
    said(sql, rows=10000, kind="execute")
    sql = "SELECT n FROM generate_series(1, $1::int) n"
    async with connection.transaction():
        said("BEGIN;")
        found = [row[0] async for row in connection.cursor(sql, 1000, prefetch=400)]
        equal(found, list(range(1, 1001)), "what a portal gave")
        # One portal, asked three times.
        said(sql, ["1000"], types=["int4"], kind="execute", rows=400)
        said(sql, kind="fetch", rows=400)
        said(sql, kind="fetch", rows=200)
    said("COMMIT;")
    await connection.close()


async def cancelled():
    connection, said = await connect("cancel")
    sql = "SELECT pg_sleep($1)"
    said(sql, ["30"], types=["float8"], sqlstate="57014")
    story.connections[-1].cancelled()
    try:
        # asyncpg opens a connection for the cancel when the time is up.
        await connection.fetch(sql, 30, timeout=0.5)
        sys.exit("asyncpg: the cancel did not come")
    except asyncio.TimeoutError:
        story.checks += 1
    equal(await connection.fetchval("SELECT 1"), 1, "what comes after a cancel")
    said("SELECT 1", rows=1)
    await connection.close()


async def notifications():
    listener, heard = await connect("listener")
    came = asyncio.get_running_loop().create_future()
    await listener.add_listener("asyncpg_news", lambda *told: came.set_result(told[2:]))
    heard('LISTEN "asyncpg_news"')
    teller, said = await connect("teller")
    await teller.execute("SELECT pg_notify($1, $2)", "asyncpg_news", "hello")
    said("SELECT pg_notify($1, $2)", ["asyncpg_news", "hello"], types=["text", "text"], rows=1)
    equal(await asyncio.wait_for(came, 10), ("asyncpg_news", "hello"), "the notification")
    await listener.close()
    await teller.close()


async def several():
    """A pool of four connections, each with its own numbers; it sets each back when it is given up."""
    opened = [await connect(f"several-{n}") for n in range(4)]

    async def work(place):
        connection, said = opened[place]
        for n in range(50):
            sum_ = await connection.fetchval("SELECT $1::int + $2::int", place, n)
            equal(sum_, place + n, "a sum")
            said("SELECT $1::int + $2::int", [str(place), str(n)], types=["int4", "int4"], rows=1)
        await connection.close()

    await asyncio.gather(*(work(place) for place in range(4)))
    # A pool of one, whose connection is reset behind every use.
    said = story.connection("pool")
    settings = {"application_name": said.application}
    async with asyncpg.create_pool(url, min_size=1, max_size=1, server_settings=settings) as pool:
        for n in range(3):
            async with pool.acquire() as connection:
                await connection.execute(f"SET work_mem = '{4 + n}MB'")
                said.said(f"SET work_mem = '{4 + n}MB'", kind="simple")
                equal(await connection.fetchval("SHOW work_mem"), f"{4 + n}MB", "a setting")
                said.said("SHOW work_mem", kind="execute")


async def main():
    await statements()
    await transactions()
    await copies()
    await large_and_cursors()
    await cancelled()
    await notifications()
    await several()
    story.end(path)


asyncio.run(main())
