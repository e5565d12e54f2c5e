"""What a story in Python notes down: its checks, and what each of its connections sent.

The list is one of connections; each has an `application` (its application_name) and `statements`, in
the order in which they were sent. What a statement may say is in check.py, at its beginning.
"""

import json
import sys


class Connection:
    """What one connection sent."""

    def __init__(self, application):
        self.application = application
        self.statements = []

    def said(self, sql, parameters=None, **more):
        """Notes a statement. `parameters` as text, None for NULL; `more` as check.py reads it."""
        statement = {"sql": sql, **more}
        if parameters is not None:
            statement["parameters"] = list(parameters)
        self.statements.append(statement)

    def cancelled(self):
        """Notes a cancel request for what this connection runs."""
        self.statements.append({"kind": "cancel"})


class Story:
    """A story: what it checked, and its connections."""

    def __init__(self, name):
        self.name = name
        self.checks = 0
        self.connections = []

    def connection(self, part, **more):
        """A connection to be opened with the application_name that comes with it."""
        connection = Connection(f"{self.name}-{part}")
        connection.more = more
        self.connections.append(connection)
        return connection

    def equal(self, found, expected, what):
        """One check. The first that fails ends the story."""
        if found != expected:
            sys.exit(f"{self.name}: {what}: {found!r} instead of {expected!r}")
        self.checks += 1

    def failed(self, error, sqlstate, what):
        """The check of an error that was to come."""
        self.equal(getattr(error, "sqlstate", None), sqlstate, what)

    def end(self, path):
        """Writes the list and says that all was well."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(
                [
                    {"application": one.application, "statements": one.statements, **one.more}
                    for one in self.connections
                ],
                file,
                indent=1,
            )
        print(f"ok: {self.checks} checks")
