#!/usr/bin/env python3
"""Compares what a workload holds with what a client says that it sent.

    check.py NAME.workload STATEMENTS.json [--log]

STATEMENTS.json is a list of connections, each with `application` (its application_name) and
`statements`, in the order in which they were sent. Each connection's list must be a subsequence of one
session of the workload with that application; what else is in that session (a library's own BEGIN, its
look-ups of types) is listed by text, and an error where the connection is `"complete": true`. `"absent": true` instead of statements: no session may have that
application. A statement has

    sql          as it was sent
    kind         simple, execute, prepare, fetch or cancel; without it any but cancel. A cancel has no more
    named        whether the prepared statement has a name
    parameters   as text, null for NULL, {} for one that is not known; without it they are not compared
    types        the parameters' types by name, for those in binary form that say no type themselves
    rows         returned or affected; without it not compared
    sqlstate     of its failure; without it, it must have succeeded
    unanswered   true: the server passed over it (behind an error in a pipeline), it has no rows
    copy_data    what was sent for COPY … FROM STDIN, as text
    copy_failed  true: the client ended that COPY with a failure

`--log`: the workload was made from a log, which knows no rows, cancels, COPY data and skipped statements, and
has a Parse with what is executed; those are not compared.

Exit code 0: all is there; 1: not. Needs pyarrow.
"""

import argparse
import collections
import datetime
import glob
import json
import os
import re
import struct
import sys
import uuid

import pyarrow.parquet

NAMES = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid", 114: "json",
    700: "float4", 701: "float8", 1007: "int4[]", 1016: "int8[]", 1009: "text[]", 1043: "varchar",
    1082: "date", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric", 2950: "uuid", 3802: "jsonb",
    3910: "tstzrange",
}  # fmt: skip
NUMBERS = {"int2": ">h", "int4": ">i", "int8": ">q", "oid": ">I", "float4": ">f", "float8": ">d"}
EPOCH = datetime.datetime(2000, 1, 1)


def numeric(value):
    """PostgreSQL's numeric: digits of base 10,000 (numeric_send in utils/adt/numeric.c)."""
    count, weight, sign, scale = struct.unpack(">hhHh", value[:8])
    digits = struct.unpack(f">{count}h", value[8 : 8 + 2 * count])
    if sign not in (0, 0x4000):
        return "NaN"
    whole = "".join(f"{digits[i] if i < count else 0:04}" for i in range(weight + 1))
    behind = range(weight + 1, weight + 1 + (scale + 3) // 4)
    part = "".join(f"{digits[i] if 0 <= i < count else 0:04}" for i in behind)[:scale]
    text = (whole.lstrip("0") or "0") + ("." + part if part else "")
    return "-" + text if sign else text


def interval(value):
    """PostgreSQL's interval (interval_send), as it writes one without years and months."""
    micros, days, months = struct.unpack(">qii", value)
    if months:
        return None
    seconds, micros = divmod(abs(micros), 1_000_000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + f".{micros:06}".rstrip("0").rstrip(".")
    words = [f"{days} day{'' if days == 1 else 's'}"] if days else []
    if seconds or micros or not words:
        words.append("-" + time if value[0] & 0x80 else time)
    return " ".join(words)


def array(value, item):
    """A one-dimensional array without special characters (array_send)."""
    dimensions, _, _ = struct.unpack(">iii", value[:12])
    if not dimensions:
        return "{}"
    (count,) = struct.unpack(">i", value[12:16])
    at, texts = 20, []
    for _ in range(count):
        (length,) = struct.unpack(">i", value[at : at + 4])
        at += 4
        texts.append("NULL" if length < 0 else decoded(value[at : at + length], item))
        at += max(length, 0)
    return "{" + ",".join(texts) + "}"


def decoded(value, name):
    """A value in binary form as PostgreSQL's text; None where the type is not known here."""
    try:
        if name in ("text", "varchar", "json"):
            return value.decode()
        if name == "jsonb":
            return value[1:].decode()
        if name == "bool":
            return {b"\0": "f", b"\1": "t"}.get(value)
        if name == "bytea":
            return "\\x" + value.hex()
        if name == "uuid":
            return str(uuid.UUID(bytes=value))
        if name == "numeric":
            return numeric(value)
        if name == "date":
            return str((EPOCH + datetime.timedelta(days=struct.unpack(">i", value)[0])).date())
        if name == "interval":
            return interval(value)
        if name in ("timestamp", "timestamptz"):
            moment = EPOCH + datetime.timedelta(microseconds=struct.unpack(">q", value)[0])
            return str(moment) + ("+00" if name == "timestamptz" else "")
        if name in NUMBERS:
            (number,) = struct.unpack(NUMBERS[name], value)
            return repr(number) if isinstance(number, int) else f"{number:.17g}"
        if name and name.endswith("[]"):
            return array(value, name[:-2])
    except (struct.error, ValueError, OverflowError):
        pass
    return None


def sessions(workload):
    """The workload's sessions: application and events, in order."""
    found = collections.defaultdict(list)
    files = sorted(glob.glob(os.path.join(glob.escape(workload), "events-*.parquet")))
    if not files:
        sys.exit(f"check.py: {workload} holds no events-*.parquet; give a workload's directory")
    for file in files:
        for event in pyarrow.parquet.read_table(file).to_pylist():
            found[event["session"]].append(event)
    for events in found.values():
        events.sort(key=lambda event: event["sequence"])
    return found


def application_of(events):
    """A session's application: as it was opened, or what it was called by its first SET (JDBC)."""
    if events[0]["application"]:
        return events[0]["application"]
    for event in events:
        found = re.match(r"SET application_name = '([^']*)'", event["sql"] or "")
        if found:
            return found[1]
    return ""


class Comparison:
    """How one statement is compared with one event."""

    def __init__(self, log):
        self.log = log

    def difference(self, statement, event):
        """None where the event is this statement; else how it differs, and how much is alike (0 to 3)."""
        kind = statement.get("kind")
        if kind == "cancel" or event["kind"] == "cancel":
            return None if kind == event["kind"] else (0, "it is a cancel, or is not")
        # A log has texts without the spaces at their ends, and does not say how one came that failed.
        if self.log and (event["sql"] or "").rstrip() == statement["sql"].rstrip():
            kind = kind if event["captured_sqlstate"] is None else None
        elif event["sql"] != statement["sql"]:
            return 0, f"its text is {event['sql']!r}"
        if kind is not None and kind != event["kind"]:
            return 1, f"it is of kind {event['kind']}, not {kind}"
        if "named" in statement and statement["named"] != bool(event["statement"]):
            return 1, f"the prepared statement's name is {event['statement']!r}"
        return self.parameters(statement, event) or self.outcome(statement, event)

    def parameters(self, statement, event):
        expected = statement.get("parameters")
        # A log has no parameters of what failed to be parsed or bound.
        if expected is None or (self.log and (event["unreplayable"] or event["kind"] == "prepare")):
            return None
        texts = event["parameters"] or []
        if len(texts) != len(expected):
            return 2, f"it has {len(texts)} parameters, not {len(expected)}"
        binary = event.get("parameters_binary") or [None] * len(texts)
        oids = event.get("parameter_types") or []
        types = statement.get("types") or []
        for n, (text, raw, wanted) in enumerate(zip(texts, binary, expected)):
            if wanted == {}:
                continue
            name = NAMES.get(oids[n] if n < len(oids) else 0) or (types[n] if n < len(types) else None)
            found = text if raw is None else decoded(raw, name)
            if raw is not None and found is None:
                return 2, f"${n + 1} is {raw!r} in binary form, of type {name}: not known here"
            if found != wanted and not same_value(found, wanted, name):
                return 2, f"${n + 1} is {found!r}, not {wanted!r}"
        return None

    def outcome(self, statement, event):
        sqlstate, rows = event["captured_sqlstate"], event["captured_rows"]
        if statement.get("unanswered"):
            return None if not rows else (3, f"it has {rows} rows, and was passed over")
        if sqlstate != statement.get("sqlstate") and not (self.log and sqlstate == "?????"):
            return 3, f"its SQLSTATE is {sqlstate}, not {statement.get('sqlstate')}"
        if self.log:
            return None
        if "rows" in statement and rows != statement["rows"]:
            return 3, f"its rows are {rows}, not {statement['rows']}"
        if "copy_data" in statement:
            data = event.get("copy_data")
            if data is None or data != statement["copy_data"].encode():
                return 3, f"its COPY data is {data!r:.200}"
        if statement.get("copy_failed") and event.get("copy_failed") is None:
            return 3, "its COPY was not ended with a failure"
        return None


def moments(text):
    """The moments that a timestamp or a range has, in any time zone, and its brackets."""
    parts = [one.strip('"') for one in text.strip("[]()").split(",")]
    return [datetime.datetime.fromisoformat(one) for one in parts if one], text[0] in "[(" and (text[0], text[-1])


def same_value(found, wanted, name):
    """1e3 and 1000 are one float, t and TRUE one boolean; a log has values as the server writes them."""
    if found is None or wanted is None:
        return False
    if name == "date":
        return found.startswith(wanted) or wanted.startswith(found)
    if name in ("int4[]", "int8[]", "text[]"):
        return found.replace('"', "") == wanted.replace('"', "")
    if name in ("json", "jsonb"):
        return json.loads(found) == json.loads(wanted)
    if name == "bool":
        return found.lower()[0] == wanted.lower()[0]
    if name in ("timestamptz", "tstzrange"):
        return moments(found) == moments(wanted)
    if name in ("float4", "float8"):
        try:
            return float(found) == float(wanted)
        except ValueError:
            pass
    return False


def within(comparison, statements, events):
    """Which events the statements are, in order; or the first that is not there, and why."""
    matched, at = set(), 0
    for place, statement in enumerate(statements):
        found = next(
            (n for n in range(at, len(events)) if comparison.difference(statement, events[n]) is None),
            None,
        )
        if found is None:
            near = [comparison.difference(statement, event) for event in events[at:]]
            near = max(near, key=lambda one: one[0], default=(0, ""))
            return matched, (place, near[1] if near[0] else "nothing with this text comes after")
        matched.add(found)
        at = found + 1
    return matched, None


def is_logged(statement):
    """A log has no cancels, nothing that the server passed over, and a Parse as a part of what is executed."""
    kind = statement.get("kind")
    return kind != "cancel" and not statement.get("unanswered") and (kind != "prepare" or "sqlstate" in statement)


def shortly(text):
    text = " ".join(str(text).split())
    return text if len(text) <= 100 else text[:97] + "..."


def main():
    parser = argparse.ArgumentParser(description="What a client sent is in a workload.")
    parser.add_argument("workload")
    parser.add_argument("statements")
    parser.add_argument("--log", action="store_true", help="the workload was made from a log")
    options = parser.parse_args()
    comparison = Comparison(options.log)
    with open(options.statements, encoding="utf-8") as file:
        connections = json.load(file)
    held = sessions(options.workload)
    by_application = collections.defaultdict(list)
    for session, events in held.items():
        by_application[application_of(events)].append(session)
    problems, others, compared = [], collections.Counter(), 0
    used = set()
    for connection in connections:
        application = connection["application"]
        statements = connection.get("statements", [])
        if connection.get("absent"):
            if by_application[application]:
                problems.append(f"{application}: there is such a session, and there should be none")
            continue
        if comparison.log:
            statements = [one for one in statements if is_logged(one)]
        best = None
        for session in by_application[application]:
            if session in used:
                continue
            events = [e for e in held[session] if e["kind"] not in ("connect", "disconnect")]
            matched, missing = within(comparison, statements, events)
            more = [event for n, event in enumerate(events) if n not in matched]
            if more and missing is None and connection.get("complete"):
                missing = (len(statements), f"{len(more)} more are there: {shortly(more[0]['sql'] or '')}")
            if best is None or missing is None or len(matched) > len(best[2]):
                best = (session, events, matched, missing)
            if missing is None:
                break
        if best is None:
            problems.append(f"{application}: no session has this application")
            continue
        session, events, matched, missing = best
        if missing is None:
            used.add(session)
            compared += len(statements)
            for n, event in enumerate(events):
                if n not in matched:
                    others[event["kind"], shortly(event["sql"] or "")] += 1
        else:
            place, why = missing
            one = statements[place] if place < len(statements) else {"sql": "the end"}
            problems.append(
                f"{application}: statement {place + 1} of {len(statements)} is not in session {session}:"
                f" {shortly(one.get('sql', 'a cancel'))}"
                f" {json.dumps({k: v for k, v in one.items() if k not in ('sql', 'copy_data')})}"
                f": {why}"
            )
    # A session of this client that it does not know of.
    known = {connection["application"] for connection in connections}
    stem = os.path.commonprefix(sorted(known)).rsplit("-", 1)[0] + "-"
    if not problems:
        for application, ones in by_application.items():
            if application in known or application.startswith(stem):
                for session in ones:
                    if session not in used:
                        problems.append(f"session {session} ({application}) is not one of the client's")
    for (kind, text), count in sorted(others.items()):
        print(f"  also there: {count} x {kind}: {text}")
    for problem in problems:
        print(f"  WRONG: {problem}")
    if problems:
        return 1
    print(f"  the workload holds all {compared} statements of {len(connections)} connections")
    return 0


if __name__ == "__main__":
    sys.exit(main())
