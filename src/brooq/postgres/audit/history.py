"""Reads the audit: one stream, job by job, at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import psycopg
from psycopg import errors, sql

from brooq.postgres.audit.installation import schema_for
from brooq.postgres.dsn import mask
from brooq.postgres.migrate import TABLE, Connection, check_name, connect
from brooq.postgres.statement import PLACE, quoted
from brooq.vocabulary.error import SchemaError, StoreUnavailable
from brooq.vocabulary.message import text

AUDIT_PLACE = '"brooq_audit".'
"""How the files write the audit's schema."""

EFFECT, NOW = "EFFECT", "NOW"
"""What stands in `op` of a line that is no change: what a handler did, and the row as it is now."""

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Change(NamedTuple):
    """One line of the stream: values as PostgreSQL writes them, None for null.

    Equal texts are equal values, and later moments are greater texts. A text column may hold escapes, see `plain`.
    Of an EFFECT only `claim_seq` is told. Of NOW the columns without `old_` are the row's, `old_updated_at` is when it
    was made.
    """

    job: str | None
    seq: str
    at: str
    actor: str | None
    op: str
    topic: str | None
    idempotency_key: str | None
    priority: str | None
    old_state: str | None
    old_claim_seq: str | None
    old_attempts: str | None
    old_locked_by: str | None
    old_locked_until: str | None
    old_available_at: str | None
    state: str | None
    claim_seq: str | None
    attempts: str | None
    locked_by: str | None
    locked_until: str | None
    available_at: str | None
    old_updated_at: str | None
    expired: str | None
    has_error: str | None
    concurrency_key: str | None


class Setting(NamedTuple):
    """What was set for a topic, in one moment. `rate_period` in seconds."""

    seq: int
    at: str
    topic: str
    paused: bool
    max_running: int | None
    max_running_per_key: int | None
    ordered: bool
    rate: int | None
    rate_period: float | None


Version: TypeAlias = tuple[str | None, ...]
"""The columns that the queue lives by, as they were at one moment: state, claim_seq, attempts, locked_by, locked_until,
available_at."""


def before(line: Change) -> Version:
    """The version that a change found."""
    return line[8:14]


def after(line: Change) -> Version:
    """The version that a change left, or the row as it is."""
    return line[14:20]


class History:
    """The audit of one schema, as it was at one moment: every read sees the same snapshot."""

    def __init__(self, connection: Connection, schema: str, audit_schema: str) -> None:
        """Inside of a transaction, see `open`."""
        self._connection = connection
        self._statements = _statements(schema, audit_schema)
        self.now = self._moment(sql.SQL("select now()::text"))
        """When the snapshot was taken, by the database's clock."""
        since = sql.SQL("select min(applied_at)::text from {}").format(sql.Identifier(audit_schema, TABLE))
        self.installed = self._moment(since)
        """Since when changes have been written down."""

    @classmethod
    @contextmanager
    def open(cls, dsn: str, schema: str = "public", audit_schema: str | None = None) -> Iterator[History]:
        """Connect for the length of a block. Raises SchemaError (no audit), StoreUnavailable, ConfigError."""
        place = schema_for(schema, audit_schema)
        for name in (schema, place):
            check_name(name)
        with connect(dsn, "brooq verify") as connection:
            try:
                with connection.transaction():
                    connection.execute("set transaction isolation level repeatable read, read only")
                    connection.execute("set local timezone to 'UTC'")
                    connection.execute("set local datestyle to 'ISO'")
                    connection.execute("set local statement_timeout to 0")
                    connection.execute("set local idle_in_transaction_session_timeout to 0")
                    # The one sort of the whole table: on disk it takes twice as long.
                    connection.execute("set local work_mem to '256MB'")
                    yield cls(connection, schema, place)
            except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName):
                raise SchemaError(text("verify.no_audit", schema=place)) from None
            except psycopg.OperationalError as error:
                raise StoreUnavailable(mask(str(error), dsn)) from None

    def jobs(self) -> Iterator[tuple[str | None, list[Change]]]:
        """Every job with all its lines, in order; None is the id of what concerns the whole table."""
        for job, lines in groupby(self._copy("history"), key=itemgetter(0)):
            yield job, list(lines)

    def in_order(self) -> Iterator[Change]:
        """Every change in the order of writing."""
        return self._copy("order")

    def settings(self) -> list[Setting]:
        """What was set for topics, in its order."""
        with psycopg.RawCursor(self._connection) as cursor:
            return [Setting._make(row) for row in cursor.execute(self._statements["settings"]).fetchall()]

    def some(self, jobs: Sequence[str]) -> dict[str, list[Change]]:
        """The changes of some jobs."""
        found: dict[str, list[Change]] = {job: [] for job in jobs}
        with psycopg.RawCursor(self._connection) as cursor:
            for row in cursor.execute(self._statements["some"], [list(jobs)]):
                found[row[0]].append(Change._make(row))
        return found

    def _copy(self, name: str) -> Iterator[Change]:
        make = Change._make
        with self._connection.cursor() as cursor, cursor.copy(self._statements[name]) as copy:
            for block in copy:
                yield make([None if value == r"\N" else value for value in str(block, "utf-8")[:-1].split("\t")])

    def _moment(self, query: sql.SQL | sql.Composed) -> str:
        found = self._connection.execute(query).fetchone()
        assert found is not None
        return str(found[0])


def plain(value: str) -> str:
    """A text column of a line without the escapes of COPY."""
    if "\\" not in value:
        return value
    made, escaped = [], False
    for character in value:
        if escaped:
            made.append(_ESCAPES.get(character, character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            made.append(character)
    return "".join(made)


def moment(value: str) -> datetime:
    """A moment of a line."""
    return datetime.fromisoformat(value)


@cache
def _statements(schema: str, audit_schema: str) -> dict[str, bytes]:
    found = {}
    for name in ("history", "order", "settings", "some"):
        source = (files("brooq.postgres") / "audit" / f"{name}.sql").read_text(encoding="utf-8")
        found[name] = (
            source.replace(AUDIT_PLACE, quoted(audit_schema) + ".").replace(PLACE, quoted(schema) + ".").encode()
        )
    return found
