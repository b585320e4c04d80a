"""Pages of jobs for people: filtered, newest first, each at a cost that does not grow with the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from brooq.postgres.record import to_record
from brooq.postgres.session import Rows
from brooq.postgres.statement import Statements
from brooq.vocabulary.job import JobRecord, State

WALK = 10_000
"""How many rows one page walks past, at most, to find what it is asked for."""

FEW = 10_000
"""A state that so many jobs are in, or fewer, is fetched by its own index."""

KEYED_TOPICS = 1000
"""Among how many topics a key is looked for when none is named."""

SLACK = timedelta(days=1)
"""By how much the time in a job's id and that of its row may differ: the producer's clock, and a job made long before it
was enqueued. Filters by time look no further."""

Fetch: TypeAlias = Callable[[str, Sequence[Any]], Awaitable[Rows]]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked for; whatever is None is not asked about."""

    topic: str | None = None
    state: State | None = None
    key: str | None = None
    """The idempotency key, in full."""
    since: datetime | None = None
    """Created then or later; aware."""
    until: datetime | None = None
    """Created before then; aware."""
    error: str | None = None
    """A part of `last_error`, in upper or lower case."""
    tag: str | None = None
    worker: str | None = None
    """The beginning of the name of the worker that holds the job, or held it last."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first, and where to go on: the next page's `before`, None when there is nothing more.

    A page may hold fewer jobs than asked, even none, and there are more all the same: it looks at a bounded number of rows.
    """

    jobs: tuple[JobRecord, ...]
    next: UUID | None


async def read_page(fetch: Fetch, queries: Statements, wanted: Filter, before: UUID | None, limit: int) -> Page:
    """Up to `limit` jobs with ids below `before`, newest first. `fetch` plans every statement with its values."""
    if wanted.key is not None:
        return await _by_key(fetch, queries, wanted, before, limit)
    state = None if wanted.state is None else str(wanted.state)
    rest = [wanted.since, wanted.until, wanted.error or None, wanted.tag, wanted.worker or None]
    if state is not None and wanted.state is not State.DONE:
        ((dense,),) = await fetch(queries.list_dense, [wanted.topic, state, FEW])
        if not dense:
            parameters = [before, wanted.topic, state, FEW, *rest, limit]
            jobs = _records(await fetch(queries.list_few, parameters))
            return Page(jobs, jobs[-1].id if len(jobs) == limit else None)
    floor = None if wanted.since is None else _id_at(wanted.since - SLACK)
    if wanted.until is not None:
        ceiling = _id_at(wanted.until + SLACK)
        before = ceiling if before is None else min(before, ceiling)
    jobs = _records(await fetch(queries.list, [before, floor, WALK, wanted.topic, state, *rest, limit]))
    if len(jobs) == limit:
        return Page(jobs, jobs[-1].id)
    reached = await fetch(queries.list_reach, [before, floor, WALK])
    return Page(jobs, reached[0][0] if reached else None)


async def _by_key(fetch: Fetch, queries: Statements, wanted: Filter, before: UUID | None, limit: int) -> Page:
    """At most one job a topic has the key: what else is asked is looked for among these."""
    found = _records(await fetch(queries.list_key, [wanted.topic, wanted.key, KEYED_TOPICS]))
    jobs = tuple(job for job in found if (before is None or job.id < before) and _fits(job, wanted))
    return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)


def _fits(job: JobRecord, wanted: Filter) -> bool:
    return (
        (wanted.state is None or job.state is wanted.state)
        and (wanted.since is None or job.created_at >= wanted.since)
        and (wanted.until is None or job.created_at < wanted.until)
        and (not wanted.error or wanted.error.lower() in (job.last_error or "").lower())
        and (wanted.tag is None or wanted.tag in job.tags)
        and (not wanted.worker or (job.locked_by or "").startswith(wanted.worker))
    )


def _id_at(moment: datetime) -> UUID:
    """The first id of a moment, as UUIDv7 counts: milliseconds in the highest 48 bits."""
    milliseconds = int(moment.astimezone(UTC).timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), 2**48 - 1) << 80)


def _records(rows: Rows) -> tuple[JobRecord, ...]:
    return tuple(as_text(row) for row in rows)


def as_text(row: Sequence[Any]) -> JobRecord:
    """The record with its payload as the row's JSON text."""
    payload = row[2]
    return replace(to_record((*row[:2], "null", *row[3:])), payload=payload)
