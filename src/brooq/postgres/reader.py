"""Reading for people: lists of jobs, the server. The engine needs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from brooq.postgres.facts import BOUND, LATELY, Facts, Seen, may_read_deeds, to_deeds, to_facts, to_workers
from brooq.postgres.link import Link
from brooq.postgres.record import to_record
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import statements
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.job import JobRecord, State

_PATIENCE = 30.0
_DEEDS = 20


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
        self._link = Link(store.driver, _PATIENCE)
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

    async def facts(self, id: UUID) -> Facts | None:
        """What is known of why a job does not run; None when there is no such job. No payload is read."""
        rows = await self._fetch(self._statements.explain, [id, BOUND, LATELY])
        if not rows:
            return None
        deeds = await self._fetch(self._statements.trail, [id, _DEEDS]) if may_read_deeds(rows[0]) else None
        return to_facts(rows[0], await self.workers(), None if deeds is None else to_deeds(deeds))

    async def workers(self) -> Sequence[Seen]:
        """The workers that were seen, those that were there last first."""
        return to_workers(await self._fetch(self._statements.workers, []))

    async def server(self) -> Server:
        """What answers."""
        version, number, fsync, commit, pages, standby, pid, told = await self._link.run(self._ask_server)
        return Server(version, number, fsync == "on", commit, pages == "on", standby, pooled=pid != told)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _ask_server(self, session: Session) -> tuple[Any, ...]:
        (row,) = await session.fetch(self._statements.server, prepare=False)
        return (*row, session.pid)

    async def _fetch(self, statement: str, parameters: Sequence[Any]) -> Rows:
        # Planned with its values: absent filters fold away.
        return await self._link.run(lambda session: session.fetch(statement, parameters, prepare=False))


def _as_text(row: Sequence[Any]) -> JobRecord:
    payload = row[2]
    return replace(to_record((*row[:2], "null", *row[3:])), payload=payload)
