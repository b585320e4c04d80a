"""Enqueueing in Django's own transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from brooq.contrib.django.configuration import configuration
from brooq.postgres.operator import Retried
from brooq.postgres.producer import Producer
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord

T = TypeVar("T")


def enqueue(job: Job, *, using: str | None = None) -> Enqueued:
    """Enqueue a job; answers `(id, created)`.

    Inside `transaction.atomic` it belongs to that transaction, so that it exists exactly when the rest does (`on_commit` is
    not needed); outside it is committed at once, as `save` does it. `using` is an alias of DATABASES, that of the settings
    unless given: the transaction that counts is the one of this database.
    Raises PayloadError and what Django raises; in code that must not block, Django refuses: see `aenqueue`.
    """
    return _joined(using, lambda producer, connection: producer.enqueue(connection, job))


async def aenqueue(job: Job, *, using: str | None = None) -> Enqueued:
    """`enqueue` for asynchronous code. Django has no transactions there: the job is committed at once. Put what belongs
    together into one function and call that by `sync_to_async`."""
    answer: Enqueued = await sync_to_async(enqueue)(job, using=using)
    return answer


def enqueue_many(jobs: Iterable[Job], *, using: str | None = None) -> list[Enqueued]:
    """Enqueue jobs in one statement; answers in order."""
    return _joined(using, lambda producer, connection: producer.enqueue_many(connection, jobs))


def cancel(id: UUID | str, *, using: str | None = None, actor: str = "", reason: str | None = None) -> Cancellation:
    """Cancel a job that is not terminal; answers what was found. With an `actor` it is written down who did it and why."""
    return _joined(using, lambda producer, connection: producer.cancel(connection, id, actor=actor, reason=reason))


def retry(id: UUID | str, *, using: str | None = None, actor: str, reason: str | None = None) -> Retried:
    """Do a finished job once more, as a new job; it is written down who did it and why."""
    return _joined(using, lambda producer, connection: producer.retry(connection, id, actor=actor, reason=reason))


def jobs(topic: str | None = None, *, using: str | None = None, state: str | None = None) -> list[JobRecord]:
    """The latest jobs, newest first: for tests, `assert_enqueued(jobs(), …)`."""
    return _joined(using, lambda producer, connection: producer.jobs(connection, topic, state))


def find(id: UUID | str, *, using: str | None = None) -> JobRecord | None:
    """A job's row as it is now; None when there is no such job."""
    return _joined(using, lambda producer, connection: producer.find(connection, id))


def _joined(using: str | None, call: Callable[[Producer, Any], T]) -> T:
    found = configuration()
    producer = Producer(schema=found.schema, wakeups=found.wakeups)
    connection = connections[using or found.database]
    if connection.in_atomic_block:
        # No further block: its end by an error, a bad payload for example, would break the caller's transaction.
        return call(producer, connection)
    with transaction.atomic(using=connection.alias):
        return call(producer, connection)
