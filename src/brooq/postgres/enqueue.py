"""Writing jobs: insert or get, without ever aborting the caller's transaction (requirement E4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brooq.postgres.session import Session, Shared
from brooq.postgres.statement import Statements
from brooq.vocabulary.error import JobError, PayloadError, StoreUnavailable
from brooq.vocabulary.job import Enqueued, Job
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode

TRIES = 10
"""How often a key that comes and goes (its job deleted between two statements) is tried again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job checked and encoded: nothing about it can be refused any more by the database."""

    job: Job
    payload: str
    tags: str | None
    metadata: str | None


def prepare(jobs: Sequence[Job], max_payload: int) -> list[Prepared]:
    """Check and encode the jobs, before any SQL, sorted by topic and key: the order in which they are locked.

    Raises PayloadError naming the place (and, among several jobs, which one) and JobError.
    """
    prepared = []
    for number, job in enumerate(jobs):
        try:
            payload = encode(job.payload, max_payload)
        except PayloadError as error:
            if len(jobs) == 1:
                raise
            raise PayloadError(text("job.of_many", number=number, problem=str(error)), error.place) from None
        tags = encode(list(job.tags)) if job.tags else None
        prepared.append(Prepared(job, payload, tags, _metadata(job)))
    prepared.sort(key=lambda each: (each.job.topic, each.job.idempotency_key))
    return prepared


def _metadata(job: Job) -> str | None:
    if job.metadata is None:
        return None
    try:
        return encode(dict(job.metadata))
    except (PayloadError, TypeError, ValueError):
        raise JobError(text("job.metadata")) from None


async def insert_new(
    session: Session, statements: Statements, prepared: Sequence[Prepared], *, wake: bool
) -> dict[UUID, Enqueued]:
    """Insert jobs without keys in a transaction of their own. Raises the driver's errors, a unique violation among them
    when an id exists."""
    await session.fetch(statements.enqueue_new, [*_columns(prepared), wake, _lines(prepared)])
    return {each.job.id: Enqueued(each.job.id, True) for each in prepared}


async def insert(
    session: Shared, statements: Statements, prepared: Sequence[Prepared], *, wake: bool
) -> dict[UUID, Enqueued]:
    """Insert the jobs, or find the ones that stand in their way; answers by the id that each job came with. `wake`: tell
    workers that wait for them.

    A job whose own id is found was written by this call, or by an earlier try of it: it counts as created.
    Raises the driver's errors.
    """
    answers: dict[UUID, Enqueued] = {}
    open_jobs = prepared
    for _ in range(TRIES):
        count = await _written(session, statements, open_jobs, wake=wake)
        if count == len(open_jobs):
            answers.update((each.job.id, Enqueued(each.job.id, True)) for each in open_jobs)
            return answers
        keys = [each.job.idempotency_key or None for each in open_jobs]
        ids, topics = [each.job.id for each in open_jobs], [str(each.job.topic) for each in open_jobs]
        for wanted, found in await session.fetch(statements.existing, [ids, topics, keys]):
            if answers.get(wanted, Enqueued(wanted, False)).created is False:
                answers[wanted] = Enqueued(found, found == wanted)
        open_jobs = [each for each in open_jobs if each.job.id not in answers]
        if not open_jobs:
            return answers
    raise StoreUnavailable(text("postgres.key_unstable", tries=TRIES))


async def _written(session: Shared, statements: Statements, prepared: Sequence[Prepared], *, wake: bool) -> int:
    """Insert the jobs that nothing stands in the way of; how many those are."""
    if len(prepared) == 1:
        return len(
            await session.fetch(
                statements.enqueue_one, [*_values(prepared[0]), wake, prepared[0].job.concurrency_key or None]
            )
        )
    ((count, _),) = await session.fetch(statements.enqueue, [*_columns(prepared), wake, _lines(prepared)])
    return int(count)


def _values(each: Prepared) -> list[Any]:
    """The parameters of `enqueue_one.sql`."""
    job = each.job
    return [
        job.id, str(job.topic), each.payload, job.idempotency_key or None, job.available_at, job.priority, job.max_attempts,
        each.tags, each.metadata,
    ]  # fmt: skip


def _columns(prepared: Sequence[Prepared]) -> list[Any]:
    """The parameters of `enqueue.sql`: a column that no job says anything about is an empty array."""
    jobs = [each.job for each in prepared]
    topic = str(jobs[0].topic)
    return [
        [job.id for job in jobs],
        [str(job.topic) for job in jobs] if any(job.topic != topic for job in jobs) else [],
        [each.payload for each in prepared],
        _said([job.idempotency_key or None for job in jobs]),
        _said([job.available_at for job in jobs]),
        [job.priority for job in jobs] if any(job.priority for job in jobs) else [],
        _said([job.max_attempts for job in jobs]),
        _said([each.tags for each in prepared]),
        _said([each.metadata for each in prepared]),
        topic,
    ]


def _lines(prepared: Sequence[Prepared]) -> list[Any]:
    return _said([each.job.concurrency_key or None for each in prepared])


def _said(column: list[Any]) -> list[Any]:
    return [] if column.count(None) == len(column) else column
