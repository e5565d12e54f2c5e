"""Runs the recipes of a guide, and prints the rows of each as JSON. Arguments: the engine, the guide, the recordings."""

import json
import re
import sys

engine, guide, recordings = sys.argv[1:]
text = open(guide, encoding="utf-8").read()
blocks = {}
for block in re.findall(r"```sql\n(.*?)```", text, re.S):
    title, sql = block.split("\n", 1)
    kind, name = re.fullmatch(r"-- (setup|recipe): (.+)", title).groups()
    assert name not in blocks, name
    blocks[kind, name] = sql.replace("'recordings/", f"'{recordings}/")


def statements(sql):
    return [one for one in (part.strip() for part in sql.split(";")) if one]


def duckdb_runner():
    import duckdb

    connection = duckdb.connect()

    def run(sql):
        found = connection.execute(sql)
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row)) for row in found.fetchall()]

    return run


def spark_runner():
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return lambda sql: [row.asDict() for row in session.sql(sql).collect()]


def plain(value):
    if value is None or isinstance(value, (str, int)):
        return value
    return float(value)


run = {"DuckDB": duckdb_runner, "Spark": spark_runner}[engine]()
results = {}
for (kind, name), sql in blocks.items():
    if kind == "setup" and name != engine:
        continue
    for statement in statements(sql):
        rows = run(statement)
    if kind == "recipe":
        for row in rows:
            if row.get("fingerprint") is not None:
                row["fingerprint"] = f"{int(row['fingerprint']):016x}"
        results[name] = [{key: plain(value) for key, value in row.items()} for row in rows]
print(json.dumps(results))
