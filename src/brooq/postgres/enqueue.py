"""Writing jobs: insert or get, without ever aborting the caller's transaction (requirement E4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from brooq.postgres.session import Shared
from brooq.postgres.statement import Statements
from brooq.vocabulary.error import JobError, PayloadError, StoreUnavailable
from brooq.vocabulary.job import Enqueued, Job
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode

TRIES = 10
"""How often a key that comes and goes (its job deleted between two statements) is tried again."""

_topic = attrgetter("topic")
_key = attrgetter("idempotency_key")
_available_at = attrgetter("available_at")
_priority = attrgetter("priority")
_topic_and_key = attrgetter("topic", "idempotency_key")
_tuple = tuple.__new__


@dataclass(frozen=True, slots=True)
class Prepared:
    """Jobs checked and encoded: nothing about them can be refused any more by the database."""

    jobs: Sequence[Job]
    payloads: Sequence[str]
    tags: Sequence[str | None]
    """Empty where no job has any."""
    metadata: Sequence[str | None]
    """Empty where no job has any."""

    def only(self, ids: set[UUID]) -> Prepared:
        """The jobs of these ids."""
        kept = [number for number, job in enumerate(self.jobs) if job.id in ids]
        return Prepared(
            [self.jobs[number] for number in kept],
            [self.payloads[number] for number in kept],
            [self.tags[number] for number in kept] if self.tags else [],
            [self.metadata[number] for number in kept] if self.metadata else [],
        )


class Rings(NamedTuple):
    """Whose workers to wake: topics, and from when on each has a job that is ready; None is now."""

    topics: Sequence[str]
    times: Sequence[datetime | None]


SILENCE = Rings([], [])


def rings(jobs: Sequence[Job]) -> Rings:
    """Of all jobs that there are."""
    if len(jobs) == 1:
        return Rings([str(jobs[0].topic)], [jobs[0].available_at])
    if any(map(_available_at, jobs)):
        first: dict[str, datetime | None] = {}
        for job in jobs:
            known = first.setdefault(job.topic, job.available_at)
            if known is not None and (job.available_at is None or job.available_at < known):
                first[job.topic] = job.available_at
        return Rings([str(topic) for topic in first], list(first.values()))
    topics = [str(topic) for topic in set(map(_topic, jobs))]
    return Rings(topics, [])


def prepare(jobs: Sequence[Job], max_payload: int) -> Prepared:
    """Check and encode the jobs, before any SQL, in the order in which they are written.

    Raises PayloadError naming the place (and, among several jobs, which one) and JobError.
    """
    ordered = in_order(jobs)
    try:
        return encoded(ordered, max_payload)
    except JobError:
        refuse(jobs, max_payload)
        raise


def have_keys(jobs: Sequence[Job]) -> bool:
    """Whether any of them has a key."""
    return any(map(_key, jobs))


def in_order(jobs: Sequence[Job]) -> Sequence[Job]:
    """Sorted by topic and key, the order in which keys are locked. Without keys there is nothing to wait for."""
    if len(jobs) == 1 or not have_keys(jobs):
        return jobs
    return sorted(jobs, key=_key if len(set(map(_topic, jobs))) == 1 else _topic_and_key)


def encoded(jobs: Sequence[Job], max_payload: int) -> Prepared:
    """The jobs as they are to be written. Raises PayloadError and JobError, see `refuse`."""
    return Prepared(
        jobs,
        [encode(job.payload, max_payload) for job in jobs],
        _said([encode(list(job.tags)) if job.tags else None for job in jobs]),
        _said([_metadata(job) for job in jobs]),
    )


def refuse(jobs: Sequence[Job], max_payload: int) -> None:
    """Raise the error of the first job that is refused, in the order asked, and which one it is among several."""
    for number, job in enumerate(jobs):
        try:
            encoded([job], max_payload)
        except PayloadError as error:
            if len(jobs) == 1:
                raise
            raise PayloadError(text("job.of_many", number=number, problem=str(error)), error.place) from None


def _metadata(job: Job) -> str | None:
    if job.metadata is None:
        return None
    try:
        return encode(dict(job.metadata))
    except (PayloadError, TypeError, ValueError):
        raise JobError(text("job.metadata")) from None


def answers(jobs: Sequence[Job], found: Mapping[UUID, UUID]) -> list[Enqueued]:
    """What is answered to those who asked, in their order. `found`: see `insert`."""
    if found:
        ids = [found.get(job.id, job.id) for job in jobs]
        return [Enqueued(id, id == job.id) for id, job in zip(ids, jobs, strict=True)]
    return [_tuple(Enqueued, (job.id, True)) for job in jobs]


async def insert(
    session: Shared,
    statements: Statements,
    prepared: Prepared,
    rings: Rings,
    *,
    values: Sequence[Any] | None = None,
    new: bool = False,
) -> dict[UUID, UUID]:
    """Insert the jobs, or find the ones that stand in their way; answers by the id that each job came with, which one was
    found for it. Who is not among the answers was written. `values`: the parameters, if somebody has them already. `new`:
    no id exists, and the transaction may fail if one does.

    A job whose own id is found was written by this call, or by an earlier try of it: it counts as created.
    Raises the driver's errors.
    """
    found: dict[UUID, UUID] = {}
    left = prepared
    for _ in range(TRIES):
        several = statements.enqueue_keyed if new else statements.enqueue
        statement = several if len(left.jobs) > 1 else statements.enqueue_one
        rows = await session.fetch(statement, values or parameters(left, rings))
        count = len(rows) if statement is statements.enqueue_one else int(rows[0][0])
        if count == len(left.jobs):
            return found
        values = None
        keys = [job.idempotency_key or None for job in left.jobs]
        ids, topics = [job.id for job in left.jobs], [str(job.topic) for job in left.jobs]
        for wanted, other in await session.fetch(statements.existing, [ids, topics, keys]):
            if found.get(wanted) != wanted:
                found[wanted] = other
        left = left.only(set(ids) - found.keys())
        if not left.jobs:
            return found
    raise StoreUnavailable(text("postgres.key_unstable", tries=TRIES))


def parameters(prepared: Prepared, rings: Rings) -> list[Any]:
    """Of `enqueue_one.sql` for one job, of `enqueue.sql` and `enqueue_new.sql` for several: a column that no job says
    anything about is an empty array."""
    jobs = prepared.jobs
    if len(jobs) == 1:
        (job,) = jobs
        return [
            job.id, str(job.topic), prepared.payloads[0], job.idempotency_key or None, job.available_at, job.priority,
            job.max_attempts, prepared.tags[0] if prepared.tags else None,
            prepared.metadata[0] if prepared.metadata else None, bool(rings.topics), job.concurrency_key or None,
        ]  # fmt: skip
    return [
        [job.id for job in jobs],
        [str(job.topic) for job in jobs] if len(set(map(_topic, jobs))) > 1 else [],
        prepared.payloads,
        _said([job.idempotency_key or None for job in jobs]),
        _said([job.available_at for job in jobs]),
        [job.priority for job in jobs] if any(map(_priority, jobs)) else [],
        _said([job.max_attempts for job in jobs]),
        prepared.tags,
        prepared.metadata,
        str(jobs[0].topic),
        rings.topics,
        _said([job.concurrency_key or None for job in jobs]),
        rings.times,
    ]


def _said(column: list[Any]) -> list[Any]:
    return [] if column.count(None) == len(column) else column
