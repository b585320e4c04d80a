"""Whether a pooler stands before the server, and of which kind: seen from what it does, whatever it is called."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from uuid import uuid4

import psycopg

from brooq.postgres.migrate import Connection, connect

_TRIES = 3


class Pooling(StrEnum):
    """What stands between a client and the server."""

    NONE = "none"
    SESSION = "session"
    """A pooler, and every client seems to have a server process of its own."""
    TRANSACTION = "transaction"
    """A pooler that gives a server process to another client after every transaction; prepared statements get lost."""
    TRANSACTION_PREPARED = "transaction_prepared"
    """The same, and it keeps prepared statements for its clients (PgBouncer 1.21 and newer can)."""


def pooling(connection: Connection, dsn: str) -> Pooling:
    """What the connection goes through. Asks with a second connection; raises the driver's errors."""
    if connection.info.backend_pid == _pid(connection):
        return Pooling.NONE
    with connect(dsn, "brooq doctor") as other:
        for _ in range(_TRIES):
            found = _compare(connection, other)
            if found is not None:
                return found
    return Pooling.SESSION


def _compare(first: Connection, second: Connection) -> Pooling | None:
    """Two clients, both connected, served by one process: only a pooler by transactions does that."""
    # A name that nobody else has, and that is closed again: it is left behind in the server's session otherwise.
    name = f"brooq_{uuid4().hex}".encode()
    first.pgconn.prepare(name, b"select pg_backend_pid()")
    prepared_in = _pid(first)
    with second.transaction():
        if _pid(second) != prepared_in:
            _forget(first, name)
            return None
        # Where the first client's statement is there for the second, it belongs to the server's session, and to nobody.
        shared = second.pgconn.exec_prepared(name, None).status == psycopg.pq.ExecStatus.TUPLES_OK
        if not shared:
            raise psycopg.Rollback
    _forget(second if shared else first, name)
    return Pooling.TRANSACTION if shared else Pooling.TRANSACTION_PREPARED


def _pid(connection: Connection) -> int:
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def _forget(connection: Connection, name: bytes) -> None:
    with suppress(psycopg.Error):
        connection.pgconn.exec_(b"deallocate " + name)
