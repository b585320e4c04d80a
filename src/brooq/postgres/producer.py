"""Enqueueing through whatever the consumer has in hand: a connection, transaction or session of psycopg, asyncpg,
SQLAlchemy, SQLModel or Django, blocking or not. Needs no queue, no pool of brooq's, and no event loop.

    enqueue(session, Job("email.send", {"to": address}))            # what blocks answers Enqueued
    await enqueue(async_session, Job("email.send", {"to": address}))  # what is awaited answers an awaitable
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar, overload
from uuid import UUID

import psycopg

from brooq.postgres.enqueue import SILENCE, answers, insert, prepare, rings
from brooq.postgres.operator import Retried, to_retried
from brooq.postgres.record import to_cancellation, to_record
from brooq.postgres.session import Shared
from brooq.postgres.shared import Blocking, check_shared, complete, shared
from brooq.postgres.statement import Statements, statements
from brooq.vocabulary.identifier import uuid7
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES

T = TypeVar("T")
LATEST_JOBS = 10_000
"""Among how many rows `jobs` looks, so that it costs the same in a huge table."""


class _Commits(Protocol):
    def commit(self) -> None: ...


class _CommitsLater(Protocol):
    def commit(self) -> Coroutine[Any, Any, None]: ...


class _OfAsyncpg(Protocol):
    def is_in_transaction(self) -> bool: ...


BlockingConnection: TypeAlias = "_Commits | psycopg.Transaction"
"""A `psycopg.Connection` or its transaction; a Connection, Session or scoped_session of SQLAlchemy; SQLModel's Session;
`django.db.connection`."""
AsyncConnection: TypeAlias = "_CommitsLater | _OfAsyncpg | psycopg.AsyncTransaction"
"""A `psycopg.AsyncConnection` or its transaction; an asyncpg connection; an AsyncConnection or AsyncSession of SQLAlchemy
or SQLModel."""


class Producer:
    """Enqueues into the tables of one schema, through objects that are the caller's.

    Every call takes part in the caller's transaction: it is never begun, committed or rolled back here. A commit makes
    the jobs visible, a rollback leaves none, a savepoint takes back what was enqueued after it. A key that exists never
    aborts the transaction. The errors of the caller's library reach the caller unchanged.
    """

    def __init__(self, *, schema: str = "public", wakeups: bool = True, max_payload: int = MAX_BYTES) -> None:
        """As the parameters of PostgresStore. Raises ConfigError for a name that no schema can have."""
        self._statements: Statements = statements(schema)
        self._wakeups = wakeups
        self._max_payload = max_payload

    @overload
    def enqueue(self, connection: BlockingConnection, job: Job) -> Enqueued: ...
    @overload
    def enqueue(self, connection: AsyncConnection, job: Job) -> Awaitable[Enqueued]: ...
    def enqueue(self, connection: Any, job: Job) -> Enqueued | Awaitable[Enqueued]:
        """Enqueue a job in the transaction of `connection`; answers `(id, created)`, to be awaited where it is
        asynchronous (T4).

        Raises PayloadError naming the place, before any SQL; TxError for a connection that would commit the job on its
        own; TypeError for an object that carries no transaction.
        """
        session = _session(connection)
        return _given(session, self._one(session, job))

    @overload
    def enqueue_many(self, connection: BlockingConnection, jobs: Iterable[Job]) -> list[Enqueued]: ...
    @overload
    def enqueue_many(self, connection: AsyncConnection, jobs: Iterable[Job]) -> Awaitable[list[Enqueued]]: ...
    def enqueue_many(self, connection: Any, jobs: Iterable[Job]) -> list[Enqueued] | Awaitable[list[Enqueued]]:
        """Enqueue jobs in one statement; answers in order. Otherwise as `enqueue`."""
        session = _session(connection)
        return _given(session, self._many(session, jobs))

    @overload
    def cancel(
        self, connection: BlockingConnection, id: UUID | str, *, actor: str = "", reason: str | None = None
    ) -> Cancellation: ...
    @overload
    def cancel(
        self, connection: AsyncConnection, id: UUID | str, *, actor: str = "", reason: str | None = None
    ) -> Awaitable[Cancellation]: ...
    def cancel(
        self, connection: Any, id: UUID | str, *, actor: str = "", reason: str | None = None
    ) -> Cancellation | Awaitable[Cancellation]:
        """Cancel a job that is not terminal, with the caller's transaction; answers what was found, as `Queue.cancel`.

        The row stays locked until the transaction ends: end it soon. With an `actor`, a person, it is written down in the
        same transaction who did it and why.
        """
        session = _session(connection)
        return _given(session, self._cancel(session, _uuid(id), actor, reason))

    @overload
    def retry(
        self, connection: BlockingConnection, id: UUID | str, *, actor: str, reason: str | None = None
    ) -> Retried: ...
    @overload
    def retry(
        self, connection: AsyncConnection, id: UUID | str, *, actor: str, reason: str | None = None
    ) -> Awaitable[Retried]: ...
    def retry(
        self, connection: Any, id: UUID | str, *, actor: str, reason: str | None = None
    ) -> Retried | Awaitable[Retried]:
        """Do a finished job once more, as a new job without an idempotency key; the old row stays as it is, and it is
        written down who did it and why."""
        session = _session(connection)
        return _given(session, self._retry(session, _uuid(id), actor, reason))

    @overload
    def find(self, connection: BlockingConnection, id: UUID | str) -> JobRecord | None: ...
    @overload
    def find(self, connection: AsyncConnection, id: UUID | str) -> Awaitable[JobRecord | None]: ...
    def find(self, connection: Any, id: UUID | str) -> JobRecord | Awaitable[JobRecord | None] | None:
        """A job's row as the caller's transaction sees it; None when there is no such job."""
        session = _session(connection)
        return _given(session, self._find(session, _uuid(id)))

    @overload
    def jobs(
        self, connection: BlockingConnection, topic: str | None = None, state: str | None = None, *, limit: int = 100
    ) -> list[JobRecord]: ...
    @overload
    def jobs(
        self, connection: AsyncConnection, topic: str | None = None, state: str | None = None, *, limit: int = 100
    ) -> Awaitable[list[JobRecord]]: ...
    def jobs(
        self, connection: Any, topic: str | None = None, state: str | None = None, *, limit: int = 100
    ) -> list[JobRecord] | Awaitable[list[JobRecord]]:
        """Jobs as the caller's transaction sees them, newest first, among the ten thousand latest of the table: for tests
        (`assert_enqueued(jobs(session), …)`) and for pages of one's own."""
        session = _session(connection)
        return _given(session, self._jobs(session, topic, state, limit))

    async def _one(self, session: Shared, job: Job) -> Enqueued:
        (answer,) = await self._many(session, [job])
        return answer

    async def _many(self, session: Shared, jobs: Iterable[Job]) -> list[Enqueued]:
        jobs = list(jobs)
        if not jobs:
            return []
        prepared = prepare(jobs, self._max_payload)
        check_shared(session)
        told = rings(jobs) if self._wakeups else SILENCE
        return answers(jobs, await insert(session, self._statements, prepared, told))

    async def _cancel(self, session: Shared, id: UUID, actor: str, reason: str | None) -> Cancellation:
        check_shared(session)
        if actor:
            rows = await session.fetch(self._statements.operator_cancel, [id, actor, reason])
        else:
            rows = await session.fetch(self._statements.cancel, [id])
        return to_cancellation(rows)

    async def _retry(self, session: Shared, id: UUID, actor: str, reason: str | None) -> Retried:
        check_shared(session)
        await session.fetch(self._statements.operator_hold, [id])
        rows = await session.fetch(self._statements.operator_retry, [id, uuid7(), actor, reason, self._wakeups])
        return to_retried(rows)

    async def _jobs(self, session: Shared, topic: str | None, state: str | None, limit: int) -> list[JobRecord]:
        anything = [None] * 5
        parameters = [None, None, LATEST_JOBS, topic, state, *anything, limit]
        return [to_record(row) for row in await session.fetch(self._statements.list, parameters)]

    async def _find(self, session: Shared, id: UUID) -> JobRecord | None:
        rows = await session.fetch(self._statements.find, [id])
        return to_record(rows[0]) if rows else None


def _session(connection: object) -> Shared:
    session = shared(connection)
    if session is None:
        raise TypeError(
            text("postgres.producer", type=f"{type(connection).__module__}.{type(connection).__qualname__}")
        )
    return session


def _given(session: Shared, work: Coroutine[Any, Any, T]) -> T | Awaitable[T]:
    """The answer of what blocks, and the work itself of what is to be awaited."""
    return complete(work) if isinstance(session, Blocking) else work


def _uuid(id: UUID | str) -> UUID:
    return id if isinstance(id, UUID) else UUID(id)


_producer = Producer()
enqueue = _producer.enqueue
enqueue_many = _producer.enqueue_many
cancel = _producer.cancel
retry = _producer.retry
find = _producer.find
jobs = _producer.jobs

__all__ = ["Producer", "cancel", "enqueue", "enqueue_many", "find", "jobs", "retry"]
