"""What psycopg sends, noted where it calls libpq: below a framework, and complete.

Import this before psycopg. Every connection that the process opens is then in the list that `Story.end`
writes, with every statement. Only psycopg's implementation in Python has calls that can be watched.
"""

import collections
import os
import weakref

os.environ["PSYCOPG_IMPL"] = "python"
from psycopg import pq

from check import NAMES, decoded
from said import Connection

PGconn = pq.PGconn
Status = pq.ExecStatus
connections = []
lines = weakref.WeakKeyDictionary()


class Line:
    """A connection: what it sent, and which answers have not come yet."""

    def __init__(self, pgconn):
        application = next(one.val for one in pgconn.info if one.keyword == b"application_name")
        self.said = Connection(application.decode())
        self.said.more = {"complete": True}
        self.prepared = {}
        # A statement, or None for a message that is none, such as a Close; and whether an answer came.
        self.waiting = collections.deque()
        connections.append(self.said)

    def sent(self, statement):
        if statement is not None:
            self.said.statements.append(statement)
        self.waiting.append([statement, False])

    def answered(self, result):
        """One result of the first that waits, or None where it has no more."""
        if not self.waiting:
            return
        statement, before = self.waiting[0]
        if result is None:
            if before:
                self.waiting.popleft()
            return
        self.waiting[0][1] = True
        status = result.status
        if status == Status.PIPELINE_SYNC:
            self.waiting.popleft()
        elif statement is None:
            return
        elif status == Status.FATAL_ERROR:
            statement["sqlstate"] = result.error_field(pq.DiagnosticField.SQLSTATE).decode()
            statement.pop("rows", None)
        elif status == Status.PIPELINE_ABORTED:
            statement["unanswered"] = True
        elif result.command_tuples is not None:
            # Of several statements in one message the rows are not compared.
            if before:
                statement.pop("rows", None)
            else:
                statement["rows"] = result.command_tuples


def line_of(pgconn):
    if pgconn not in lines:
        lines[pgconn] = Line(pgconn)
    return lines[pgconn]


def texts(values, types, formats):
    """Parameters as text."""
    found = []
    for n, value in enumerate(values or []):
        if value is None:
            found.append(None)
        elif formats and formats[n] == pq.Format.BINARY:
            name = NAMES.get(types[n] if types else 0)
            text = decoded(bytes(value), name)
            assert text is not None, f"a parameter of type {types[n]} in binary form"
            found.append(text)
        else:
            found.append(bytes(value).decode())
    return found


def execution(sql, named, values, types, formats):
    names = [NAMES.get(one) for one in types or []]
    parameters = texts(values, types, formats)
    return {"sql": sql, "kind": "execute", "named": named, "parameters": parameters, "types": names}


def send_query(pgconn, command):
    line_of(pgconn).sent({"sql": command.decode(), "kind": "simple"})


def send_query_params(pgconn, command, values, param_types=None, param_formats=None, result_format=0):
    line_of(pgconn).sent(execution(command.decode(), False, values, param_types, param_formats))


def send_prepare(pgconn, name, command, param_types=None):
    line = line_of(pgconn)
    line.prepared[name] = command.decode(), param_types
    # In a pipeline it is one with its first execution.
    line.sent(None if pgconn.pipeline_status else {"sql": command.decode(), "kind": "prepare"})


def send_query_prepared(pgconn, name, values, param_formats=None, result_format=0):
    line = line_of(pgconn)
    sql, types = line.prepared[name]
    line.sent(execution(sql, True, values, types, param_formats))


def put_copy_data(pgconn, data):
    statement = line_of(pgconn).waiting[0][0]
    statement["copy_data"] = statement.get("copy_data", "") + bytes(data).decode()


def watch(name, note):
    call = getattr(PGconn, name)

    def watched(pgconn, *values, **named):
        note(pgconn, *values, **named)
        return call(pgconn, *values, **named)

    setattr(PGconn, name, watched)


for note in (send_query, send_query_params, send_prepare, send_query_prepared, put_copy_data):
    watch(note.__name__, note)
for name in ("send_describe_prepared", "send_describe_portal", "send_close_prepared", "send_close_portal", "pipeline_sync"):
    watch(name, lambda pgconn, *_: line_of(pgconn).sent(None))

# A connection that sends nothing is one too.
watch("finish", lambda pgconn: line_of(pgconn) if pgconn.status == pq.ConnStatus.OK else None)

get_result = PGconn.get_result


def watched_result(pgconn):
    result = get_result(pgconn)
    line_of(pgconn).answered(result)
    return result


PGconn.get_result = watched_result
