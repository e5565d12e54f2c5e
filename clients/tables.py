#!/usr/bin/env python3
"""Compares the user tables of two databases, row by row: the captured one, and the one that a replay wrote.

    tables.py CAPTURED_URL REPLAYED_URL --captured FROM TO --replayed FROM TO [--log WORKLOAD]

FROM and TO are seconds since 1970: when the capture, and when the replay, began and ended. PGPASSWORD is the
password of the first, COPY_PASSWORD that of the second. Rows are compared as a set. Of
those that only one side has, what the server makes up is put aside, which is this and nothing more:

    times  a timestamp between FROM and TO of its own side is `now`
    uuids  of a column with a random default
    keys   of a column with a sequence, where sessions fill a table at once: the keys are the same, and so
           are the rows without them, but another row may have a key. It is printed

A log does not have the data of a COPY. With --log, tables that WORKLOAD copies into are not compared, which is
printed.

Exit code 0: equal; 1: not, with the first rows that differ. Needs psycopg and pyarrow.
"""

import argparse
import collections
import datetime
import os
import re
import sys

import psycopg

from check import sessions

COLUMNS = """
SELECT n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       coalesce(pg_get_expr(d.adbin, d.adrelid), '') || a.attidentity::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema'
  AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, a.attnum"""
RANDOM = ("gen_random_uuid()", "uuidv7()")


class Database:
    """The user tables of one side: their columns, and their rows as text."""

    def __init__(self, url, password, since, until):
        self.connection = psycopg.connect(url, password=password, autocommit=True)
        self.columns = collections.defaultdict(list)
        for table, *column in self.connection.execute(COLUMNS):
            self.columns[table].append(tuple(column))
        self.since, self.until = (datetime.datetime.fromtimestamp(one, datetime.UTC) for one in (since, until))

    def rows(self, table):
        """The rows as text, each as it is, and with what the server makes up replaced."""
        plain, made = [], []
        for name, kind, default in self.columns[table]:
            plain.append(f'"{name}"::text')
            made.append(plain[-1])
            if kind.startswith("timestamp"):
                within = f""""{name}"::timestamptz BETWEEN '{self.since}' AND '{self.until}'"""
                made[-1] = f"CASE WHEN {within} THEN 'now' ELSE {plain[-1]} END"
            elif default in RANDOM:
                made[-1] = f"""CASE WHEN "{name}" IS NOT NULL THEN 'random' END"""
        name = '"' + table.replace(".", '"."', 1) + '"'
        rows = self.connection.execute(f"SELECT {', '.join([*plain, *made]) or 'NULL'} FROM {name}").fetchall()
        return [(row[: len(plain)], row[len(plain) :]) for row in rows]


def without(columns, rows):
    """The rows without these columns."""
    return [tuple(tuple(one for n, one in enumerate(side) if n not in columns) for side in row) for row in rows]


def only_in_one(found, expected, side):
    """The rows that only one of them has, as they are (side 0) or with what the server makes up replaced."""
    count = collections.Counter(row[side] for row in found)
    count.subtract(row[side] for row in expected)
    rows = []
    for all_of_it, sign in ((found, 1), (expected, -1)):
        rows.append([])
        for row in all_of_it:
            if count[row[side]] * sign > 0:
                count[row[side]] -= sign
                rows[-1].append(row)
    return rows


def difference(found, expected):
    """Where they differ beyond what the server makes up; None where they do not."""
    more, lost = only_in_one(*only_in_one(found, expected, 0), 1)
    if not lost and not more:
        return None
    first = [[row[0] for row in rows[:3]] for rows in (lost, more)]
    return f"{len(lost)} rows are missing, {len(more)} are too many: {first[0]} and {first[1]}"


def copied(workload):
    """The tables that a workload copies into, without their schema."""
    texts = (event["sql"] or "" for events in sessions(workload).values() for event in events)
    found = (re.match(r'\s*copy\s+(?:\w+\.)?"?(\w+)"?[^;]*?\sfrom\s+stdin', text, re.IGNORECASE) for text in texts)
    return {one[1] for one in found if one}


def main():
    parser = argparse.ArgumentParser(description="A replay left the tables that the capture left.")
    parser.add_argument("captured_url")
    parser.add_argument("replayed_url")
    parser.add_argument("--captured", nargs=2, type=float, required=True)
    parser.add_argument("--replayed", nargs=2, type=float, required=True)
    parser.add_argument("--log", metavar="WORKLOAD", help="the workload was made from a log")
    options = parser.parse_args()
    captured = Database(options.captured_url, os.environ.get("PGPASSWORD"), *options.captured)
    replayed = Database(options.replayed_url, os.environ.get("COPY_PASSWORD"), *options.replayed)
    problems, count = [], 0
    unknown = copied(options.log) if options.log else ()
    for table in sorted(captured.columns.keys() | replayed.columns.keys()):
        columns = captured.columns.get(table, [])
        if columns != replayed.columns.get(table, []):
            problems.append(f"{table}: its columns differ, or one side lacks it")
            continue
        if table.split(".")[1] in unknown:
            print(f"  {table} is not compared: the log has no data of COPY")
            continue
        expected, found = captured.rows(table), replayed.rows(table)
        count += len(expected)
        wrong = difference(found, expected)
        keys = {n for n, (_, _, default) in enumerate(columns) if default.startswith("nextval(") or default in ("a", "d")}
        if wrong and keys:
            alike = not difference(without(keys, found), without(keys, expected))
            rest = set(range(len(columns))) - keys
            if alike and not difference(without(rest, found), without(rest, expected)):
                print(f"  {table}: equal up to the order in which a sequence gave its keys")
                continue
        if wrong:
            problems.append(f"{table}: {wrong}")
    for problem in problems:
        print(f"  WRONG: {problem}")
    if problems:
        return 1
    print(f"  after the replay all {count} rows of {len(captured.columns)} tables are equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
