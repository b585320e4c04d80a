"""Reading for people: lists of jobs, the server. The engine needs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg

from brooq.postgres.link import Link
from brooq.postgres.record import to_record
from brooq.postgres.statement import statements
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.job import JobRecord, State

_PATIENCE = 30.0
Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Server:
    """The database server: its version, the settings that durability rests on, and how one gets there."""

    version: str
    number: int
    """As `server_version_num`: 150020 is 15.20."""
    fsync: bool
    synchronous_commit: str
    full_page_writes: bool
    standby: bool
    pooled: bool
    """A pooler stands in between: the process that answers is not the one that the login told."""


class Reader:
    """Reads over one connection of its own, made at the first call. Raises StoreUnavailable and SchemaError.

    The payload of its records is the row's JSON text as it stands: it is shown, not used, and a number that Python
    cannot read must not hide the job.
    """

    def __init__(self, store: PostgresStore) -> None:
        """The place that the store works with."""
        self._link = Link(store.connect, _PATIENCE)
        self._statements = statements(store.schema)

    async def list(
        self, *, topic: str | None = None, state: State | None = None, before: UUID | None = None, limit: int = 20
    ) -> Sequence[JobRecord]:
        """Up to `limit` jobs with ids below `before`, newest first."""
        rows = await self._fetch(self._statements.list, [before, topic, state and str(state), limit])
        return [_as_text(row) for row in rows]

    async def find(self, id: UUID) -> JobRecord | None:
        """One job; None when there is none."""
        rows = await self._fetch(self._statements.find, [id])
        return _as_text(rows[0]) if rows else None

    async def server(self) -> Server:
        """What answers."""
        version, number, fsync, commit, pages, standby, pid, told = await self._link.run(self._ask_server)
        return Server(version, number, fsync == "on", commit, pages == "on", standby, pooled=pid != told)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _ask_server(self, connection: Connection) -> tuple[Any, ...]:
        (row,) = await self._run(connection, self._statements.server, [])
        return (*row, connection.info.backend_pid)

    async def _fetch(self, statement: str, parameters: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        return await self._link.run(lambda connection: self._run(connection, statement, parameters))

    @staticmethod
    async def _run(connection: Connection, statement: str, parameters: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        async with psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement, parameters, prepare=False)
            return await cursor.fetchall()


def _as_text(row: tuple[Any, ...]) -> JobRecord:
    payload = row[2]
    return replace(to_record((*row[:2], "null", *row[3:])), payload=payload)
