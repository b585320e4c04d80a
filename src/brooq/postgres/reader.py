"""Reading for people: lists of jobs, the server. The engine needs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from brooq.engine.store import Census
from brooq.postgres.census import read_census
from brooq.postgres.facts import (
    BOUND,
    LATELY,
    Deed,
    Facts,
    Pace,
    Seen,
    may_read_deeds,
    to_deeds,
    to_facts,
    to_pace,
    to_workers,
)
from brooq.postgres.link import Link
from brooq.postgres.listing import Filter, Page, as_text, read_page
from brooq.postgres.record import utc
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import statements
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.job import JobRecord, State

_PATIENCE = 30.0
_DEEDS = 20
_DEAD = 2000
"""How many dead jobs of a topic are grouped."""
_TOPICS = 200


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


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs of a topic that died of the same thing, as far as can be told from the first line of their text."""

    topic: str
    kind: str
    """What they have in common: numbers and ids are left out."""
    jobs: int
    bounded: bool
    """There may be more: the topic has more dead jobs than were looked at."""
    first: datetime
    last: datetime
    example: str
    """The text of the latest."""
    latest: UUID


class Reader:
    """Reads over one connection of its own, made at the first call. Raises StoreUnavailable and SchemaError.

    The payload of its records is the row's JSON text as it stands: it is shown, not used, and a number that Python
    cannot read must not hide the job.
    """

    def __init__(self, store: PostgresStore, patience: float = _PATIENCE) -> None:
        """The place that the store works with. `patience`: after how many seconds without an answer it gives up."""
        self._link = Link(store.driver, patience)
        self._statements = statements(store.schema)

    async def list(
        self, *, topic: str | None = None, state: State | None = None, before: UUID | None = None, limit: int = 20
    ) -> Sequence[JobRecord]:
        """Up to `limit` jobs with ids below `before`, newest first, however far they lie apart."""
        found: list[JobRecord] = []
        while len(found) < limit:
            page = await self.page(Filter(topic=topic, state=state), before=before, limit=limit - len(found))
            found += page.jobs
            before = page.next
            if before is None:
                break
        return found

    async def page(self, wanted: Filter | None = None, *, before: UUID | None = None, limit: int = 20) -> Page:
        """One page of jobs, at a bounded cost: it may hold fewer than `limit` and have a next one all the same."""
        return await read_page(self._fetch, self._statements, wanted or Filter(), before, limit)

    async def dead(self, topic: str | None = None, *, limit: int = 50) -> Sequence[DeadGroup]:
        """Dead jobs by what they died of, the most frequent first; of a topic the latest are looked at."""
        rows = await self._in_order(self._statements.dead, [topic, _DEAD, _TOPICS, limit])
        return [
            DeadGroup(topic, kind, jobs, bounded, utc(first), utc(last), example, latest)
            for topic, kind, jobs, bounded, first, last, example, latest in rows
        ]

    async def dead_group(self, topic: str, kind: str) -> Sequence[UUID]:
        """The jobs of a group that nobody has done again, the oldest first: of as many as `dead` looks at."""
        return [id for (id,) in await self._in_order(self._statements.dead_group, [topic, kind, _DEAD])]

    async def pace(self, lately: timedelta = timedelta(seconds=30)) -> Pace:
        """How fast jobs are enqueued and end, and the time, by the database's clock."""
        return to_pace(await self._in_order(self._statements.pace, [lately, BOUND]), lately)

    async def find(self, id: UUID) -> JobRecord | None:
        """One job; None when there is none."""
        rows = await self._fetch(self._statements.find, [id])
        return as_text(rows[0]) if rows else None

    async def facts(self, id: UUID) -> Facts | None:
        """What is known of why a job does not run; None when there is no such job. No payload is read."""
        rows = await self._fetch(self._statements.explain, [id, BOUND, LATELY])
        if not rows:
            return None
        deeds = await self._fetch(self._statements.trail, [id, _DEEDS]) if may_read_deeds(rows[0]) else None
        return to_facts(rows[0], await self.workers(), None if deeds is None else to_deeds(deeds))

    async def deeds(self, id: UUID) -> Sequence[Deed]:
        """What people did to a job by hand, newest first; also of a job that is gone."""
        return to_deeds(await self._fetch(self._statements.trail, [id, _DEEDS]))

    async def workers(self) -> Sequence[Seen]:
        """The workers that were seen, those that were there last first."""
        return to_workers(await self._fetch(self._statements.workers, []))

    async def census(self) -> Census:
        """The table's depths, of whatever topics there are, at a bounded cost."""
        return await self._link.run(lambda session: read_census(session, self._statements.census, []))

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

    async def _in_order(self, statement: str, parameters: Sequence[Any]) -> Rows:
        async def work(session: Session) -> Rows:
            await session.fetch(self._statements.in_order, prepare=False)
            return await session.fetch(statement, parameters, prepare=False)

        return await self._link.run(work, together=True)

    async def _fetch(self, statement: str, parameters: Sequence[Any]) -> Rows:
        # Planned with its values: absent filters fold away.
        return await self._link.run(lambda session: session.fetch(statement, parameters, prepare=False))
