"""What the dashboard reads. Every statement has a bound of its own, whatever the size of the table: lists look at so many
rows and say how far they looked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from brooq.engine.store import Census
from brooq.postgres.census import read_census
from brooq.postgres.facts import Deed, Seen, to_deeds, to_workers
from brooq.postgres.link import Link
from brooq.postgres.listing import KEYED_TOPICS, as_text
from brooq.postgres.record import utc
from brooq.postgres.schedule import to_schedule
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import statements
from brooq.postgres.steering import to_topic
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.job import JobRecord, State
from brooq.vocabulary.schedule import ScheduleRecord
from brooq.vocabulary.steering import TopicRecord

PATIENCE = 5.0
"""Nobody looks at a page for longer."""
GLANCE, LOOK = 500, 10_000
"""How many rows a list looks at first, and how many when that has not filled the page."""
PASSED = 2_000
"""How many rows of a topic a list of waiting or dead jobs passes over."""
DEAD_OF_TOPIC, DEAD = 1_000, 4_000
"""How many of the dead are put in groups: of each topic, and in all."""
SCHEDULED = 1_000
"""Of how many topics it is told that they have periodic jobs."""


@dataclass(frozen=True, slots=True)
class Line:
    """A job as a list shows it: what is needed there, never the payload."""

    id: UUID
    topic: str
    state: State
    priority: int
    attempts: int
    max_attempts: int | None
    expired_leases: int
    key: str
    available_at: datetime
    locked_by: str | None
    locked_until: datetime | None
    last_error: str | None
    tags: tuple[str, ...]
    progress: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is asked for; None: whatever it is."""

    state: State | None = None
    topic: str | None = None
    worker: str | None = None
    error: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and where the next page begins: None when this is the last. `partial`: the page is not full because no
    more rows were looked at; the next one looks further."""

    lines: list[Line]
    after: str | None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """The dead of one topic that died of the same. `open`: those that nobody has retried; `cut`: there may be more."""

    topic: str
    error: str
    open: int
    total: int
    first: datetime
    last: datetime
    example: UUID
    said: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one step of time, of all topics or of one; `at` is its beginning in seconds since the epoch."""

    at: int
    topic: str
    done: float
    failed: float
    dead: float
    canceled: float
    attempts: float
    ran: float
    claimed: float
    waited: float
    waited_p95: float
    waiting: int
    processing: int
    oldest: float


class Board:
    """Reads over two connections of its own: one for pages, one for whether anything has changed.

    Raises StoreUnavailable and SchemaError.
    """

    def __init__(self, store: PostgresStore) -> None:
        """The place that the store works with. Connects at the first read."""
        self._pages = Link(store.driver, PATIENCE)
        self._watch = Link(store.driver, PATIENCE)
        self._statements = statements(store.schema)

    async def jobs(self, wanted: Filter, after: str | None = None, limit: int = 50) -> Page:
        """A page of jobs; `after` is where the last page ended. Raises ValueError for an `after` of another list."""
        if wanted.key is not None:
            rows = await self._fetch(self._statements.list_key, wanted.topic, wanted.key, KEYED_TOPICS)
            fits = [line for line in map(_of_record, rows) if _fits(line, wanted)]
            return Page(fits[:limit], None)
        match wanted.state:
            case State.PENDING | State.FAILED if wanted.worker is None:
                return await self._waiting(wanted, after, limit)
            case State.DONE if wanted == Filter(State.DONE):
                return await self._done(after, limit)
            case State.DEAD | State.CANCELED if wanted.worker is None:
                return await self._unsuccessful(wanted, after, limit)
            case State.PROCESSING:
                below = None if after is None else UUID(after)
                rows = await self._fetch(
                    self._statements.board_held, below, wanted.topic, wanted.worker, wanted.error, limit
                )
                lines = [_line(row) for row in rows]
                return Page(lines, str(lines[-1].id) if len(lines) == limit else None)
            case _:
                return await self._newest(wanted, after, limit)

    async def _newest(self, wanted: Filter, after: str | None, limit: int) -> Page:
        below = None if after is None else UUID(after)
        for look in (GLANCE, LOOK):
            rows = await self._fetch(
                self._statements.board_newest, below, look, wanted.topic, wanted.state and str(wanted.state),
                wanted.worker, wanted.error, limit,
            )  # fmt: skip
            lines = [_line(row[:-2]) for row in rows if row[0] is not None]
            looked_to, whole = (rows[0][-2], rows[0][-1]) if rows else (None, True)
            if len(lines) == limit:
                return Page(lines, str(lines[-1].id))
            if whole:
                return Page(lines, None)
        return Page(lines, str(looked_to), partial=True)

    async def _done(self, after: str | None, limit: int) -> Page:
        moment, id = _point(after)

        async def work(session: Session) -> Rows:
            await session.fetch(self._statements.in_order, prepare=False)
            return await session.fetch(self._statements.board_done, [moment, id, limit], prepare=False)

        rows = await self._pages.run(work, together=True)
        lines = [_line(row) for row in rows]
        return Page(lines, _mark(lines[-1].updated_at, lines[-1].id) if len(lines) == limit else None)

    async def _waiting(self, wanted: Filter, after: str | None, limit: int) -> Page:
        moment, id = _point(after)
        rows = await self._fetch(
            self._statements.board_waiting, str(wanted.state), wanted.topic, moment, id, wanted.error, PASSED, limit
        )
        lines = [_line(row) for row in rows]
        return Page(lines, _mark(lines[-1].available_at, lines[-1].id) if len(lines) == limit else None)

    async def _unsuccessful(self, wanted: Filter, after: str | None, limit: int) -> Page:
        moment, id = _point(after)
        look = PASSED if wanted.error else limit
        rows = await self._fetch(
            self._statements.board_unsuccessful, str(wanted.state), wanted.topic, moment, id, wanted.error, look, limit
        )
        lines = [_line(row) for row in rows]
        return Page(lines, _mark(lines[-1].updated_at, lines[-1].id) if len(lines) == limit else None)

    async def find(self, id: UUID) -> JobRecord | None:
        """One job, its payload and result as JSON text."""
        rows = await self._fetch(self._statements.find, id)
        return as_text(rows[0]) if rows else None

    async def deeds(self, id: UUID) -> list[Deed]:
        """What people have done to a job, oldest first."""
        return list(reversed(to_deeds(await self._fetch(self._statements.trail, id, 50))))

    async def dead(self, topic: str | None = None) -> list[DeadGroup]:
        """The dead, by topic and cause."""
        rows = await self._fetch(self._statements.board_dead, topic, DEAD_OF_TOPIC, DEAD, 100)
        return [
            DeadGroup(topic, error, open_, total, utc(first), utc(last), example, said, cut)
            for topic, error, open_, total, first, last, example, said, cut in rows
        ]

    async def group(self, topic: str, error: str, limit: int = 500) -> list[UUID]:
        """The jobs of a group that nobody has retried, oldest first."""
        rows = await self._fetch(self._statements.board_group, topic, error, DEAD_OF_TOPIC, limit)
        return [id for (id,) in rows]

    async def workers(self) -> list[Seen]:
        """The workers that were heard of, those that started first at the beginning: rows that stay where they are."""
        found = to_workers(await self._fetch(self._statements.workers))
        return sorted(found, key=lambda each: (each.host, each.started_at, each.name))

    async def topics(self) -> dict[str, TopicRecord]:
        """What is set for topics."""
        return {row[0]: to_topic(row) for row in await self._fetch(self._statements.topics)}

    async def schedules(
        self, topic: str | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[datetime | None, list[ScheduleRecord]]:
        """Periodic jobs by name, those after a name, all without their payloads; and the database's time, None when
        there are none."""
        rows = await self._fetch(self._statements.board_schedules, after, topic, limit)
        return (utc(rows[0][0]) if rows else None), [to_schedule(row[1:]) for row in rows]

    async def scheduled(self) -> dict[str, int]:
        """How many periodic jobs a topic has, of topics that have any."""
        rows = await self._fetch(self._statements.board_scheduled, SCHEDULED)
        return {str(topic): count for topic, count in rows}

    async def census(self, topics: Sequence[str] = ()) -> Census:
        """The table's depths."""
        return await self._pages.run(lambda session: read_census(session, self._statements.census, topics))

    async def course(self, step: int, seconds: float, width: float, topic: str | None = None) -> list[Step]:
        """What happened in the last so many seconds, in steps of `width`, by topic, oldest first; `step` is 10 or 900."""
        rows = await self._fetch(self._statements.samples, step, seconds, width, topic)
        return [Step(*row) for row in rows]

    async def change(self) -> str:
        """A text that differs once jobs have changed."""

        async def work(session: Session) -> Rows:
            return await session.fetch(self._statements.board_change)

        rows = await self._watch.run(work)
        return str(rows[0][0])

    async def close(self) -> None:
        """Close the connections."""
        await self._pages.close()
        await self._watch.close()

    async def _fetch(self, statement: str, *parameters: Any) -> Rows:
        # Planned with its values: absent filters fold away.
        return await self._pages.run(lambda session: session.fetch(statement, parameters, prepare=False))


def _line(row: Sequence[Any]) -> Line:
    return Line(
        id=row[0],
        topic=row[1],
        state=State(row[2]),
        priority=row[3],
        attempts=row[4],
        max_attempts=row[5],
        expired_leases=row[6],
        key=row[7],
        available_at=utc(row[8]),
        locked_by=row[9],
        locked_until=None if row[10] is None else utc(row[10]),
        last_error=row[11],
        tags=tuple(row[12] or ()),
        progress=json.loads(row[13]) if row[13] else None,
        created_at=utc(row[14]),
        updated_at=utc(row[15]),
    )


def _of_record(row: Sequence[Any]) -> Line:
    record = as_text(row)
    progress = record.progress
    return Line(
        id=record.id,
        topic=record.topic,
        state=record.state,
        priority=record.priority,
        attempts=record.attempts,
        max_attempts=record.max_attempts,
        expired_leases=record.expired_leases,
        key=record.idempotency_key,
        available_at=record.available_at,
        locked_by=record.locked_by,
        locked_until=record.locked_until,
        last_error=record.last_error,
        tags=record.tags,
        progress=None if progress is None else {"done": progress.done, "note": progress.note},
        created_at=record.created_at,
        updated_at=record.updated_at,
    )


def _fits(line: Line, wanted: Filter) -> bool:
    return (
        wanted.state in {None, line.state}
        and wanted.topic in {None, line.topic}
        and wanted.worker in {None, line.locked_by}
        and (wanted.error is None or wanted.error.lower() in (line.last_error or "").lower())
    )


def _mark(moment: datetime, id: UUID) -> str:
    return f"{moment.isoformat()}_{id}"


def _point(mark: str | None) -> tuple[datetime | None, UUID | None]:
    if mark is None:
        return None, None
    moment, _, id = mark.partition("_")
    found = datetime.fromisoformat(moment)
    if found.tzinfo is None:
        raise ValueError(mark)
    return found, UUID(id)
