"""The places where jobs live, each with what a test of the contract needs beside the port: a hand on rows and locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, LiteralString, Protocol, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql

from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold, OwnTx, Presence, Renewal, Running, Store, Taken
from brooq.postgres import PostgresStore, open_pool
from brooq.testing import MemoryStore
from brooq.vocabulary.job import Job, JobRecord, State

T = TypeVar("T")
LEASE = timedelta(seconds=30)
WORKER = "worker"
HOUR = timedelta(hours=1)


class Ground(Protocol):
    """What lies under a store: rows that somebody else writes and locks."""

    async def alter(self, id: UUID, columns: dict[str, Any]) -> None:
        """Write columns of a row by hand."""

    def lock(self, id: UUID) -> AbstractAsyncContextManager[None]:
        """Somebody else's open transaction holds the row locked."""

    async def blocked(self, task: asyncio.Task[Any]) -> None:
        """Return once the task is seen waiting for somebody's lock."""

    async def count(self) -> int:
        """How many rows there are."""

    async def workers(self) -> list[Presence]:
        """The list of engines, by name."""


class MemoryGround:
    """Under the store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        """The store itself."""
        self._store = store

    async def alter(self, id: UUID, columns: dict[str, Any]) -> None:
        """Write columns of a row."""
        row = self._store._rows[id]
        row.record = replace(row.record, **columns)

    @asynccontextmanager
    async def lock(self, id: UUID) -> AsyncIterator[None]:
        """A transaction of the store holds the row."""
        tx = await self._store.begin()
        self._store._rows[id].locked = tx
        try:
            yield
        finally:
            await tx.rollback()

    async def blocked(self, task: asyncio.Task[Any]) -> None:
        """In memory everything that can go on has done so after a few turns of the loop."""
        for _ in range(50):
            await asyncio.sleep(0)
        assert not task.done()

    async def count(self) -> int:
        """Rows that are committed."""
        return len(self._store.jobs)

    async def workers(self) -> list[Presence]:
        """What the store remembers."""
        return self._store.workers


class PostgresGround:
    """Under the store on PostgreSQL: a connection of somebody else."""

    def __init__(self, dsn: str, connection: psycopg.AsyncConnection[Any]) -> None:
        """The database, and a connection to it in autocommit."""
        self.dsn = dsn
        self._connection = connection

    async def alter(self, id: UUID, columns: dict[str, Any]) -> None:
        """Write columns of a row."""
        values = {key: str(value) if isinstance(value, State) else value for key, value in columns.items()}
        names = [sql.SQL("{} = {}").format(sql.Identifier(key), sql.Placeholder(key)) for key in values]
        query = sql.SQL("update job set {} where id = %(id)s").format(sql.SQL(", ").join(names))
        await self._connection.execute(query, values | {"id": id})

    async def execute(self, query: LiteralString) -> list[Any]:
        """Run one statement."""
        cursor = await self._connection.execute(query)
        return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def lock(self, id: UUID) -> AsyncIterator[None]:
        """Another session holds the row."""
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await connection.execute("select 1 from job where id = %s for no key update", [id])
            yield
            await connection.rollback()

    async def blocked(self, task: asyncio.Task[Any]) -> None:
        """The server says who waits for a lock."""
        while not await self.execute(
            "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ):
            assert not task.done(), task
            await asyncio.sleep(0.005)

    async def count(self) -> int:
        """Rows that are committed."""
        return int((await self.execute("select count(*) from job"))[0][0])

    async def workers(self) -> list[Presence]:
        """Their rows; how long they have been there by what the database keeps."""
        rows = await self.execute(
            "select name, host, pid, version, extract(epoch from seen_at - started_at)::float8, stopping, slots, topics,"
            ' busy, running from brooq_worker order by name collate "C"'
        )
        return [_presence(*row) for row in rows]


def _presence(*row: Any) -> Presence:
    name, host, pid, version, uptime, stopping, slots, topics, busy, running = row
    slots_now = tuple(Running(**{**each, "id": UUID(each["id"])}) for each in running)
    return Presence(name, host, pid, version, uptime, stopping, slots, tuple(topics), busy, slots_now)


class Place:
    """A store with its ground, and the few sentences that most tests begin with."""

    def __init__(self, store: Store, ground: Ground) -> None:
        """Made by the fixture `place`."""
        self.store = store
        self.ground = ground
        self.topics: Sequence[str] = ("t",)
        """What `claim` asks for unless it is told."""

    async def enqueue(self, *jobs: Job) -> list[UUID]:
        """Enqueue jobs; answers their ids."""
        return [answer.id for answer in await self.store.enqueue(None, jobs)]

    async def job(self, topic: str = "t", payload: Any = None, **options: Any) -> UUID:
        """Enqueue one job."""
        return (await self.enqueue(Job(topic, payload, **options)))[0]

    async def claim(self, limit: int = 10, topics: Sequence[str] = (), worker: str = WORKER) -> list[Taken]:
        """An exchange that only claims."""
        return (await self.store.exchange(worker, [], topics or self.topics, limit, LEASE)).taken

    async def take(self, **options: Any) -> Taken:
        """Enqueue one job and claim it."""
        await self.job(**options)
        (taken,) = await self.claim(1)
        return taken

    async def write(self, outcome: Outcome, worker: str = WORKER) -> bool:
        """An exchange that only writes one outcome; whether it was accepted."""
        exchange = await self.store.exchange(worker, [outcome], [], 0, LEASE)
        assert exchange.taken == []
        assert exchange.settled in ([], [Hold(outcome.id, outcome.token)])
        return bool(exchange.settled)

    async def settle(self, outcome: Outcome, worker: str = WORKER) -> bool:
        """One outcome in a transaction of its own."""
        tx = await self.store.begin()
        try:
            return await self.store.settle(tx, worker, outcome)
        finally:
            await tx.commit()

    async def renew(self, *holds: Hold, worker: str = WORKER, lease: timedelta = LEASE) -> Renewal:
        """One renewal by a renewer of its own."""
        renewer = await self.store.renewer()
        try:
            return await renewer.renew(worker, holds, lease)
        finally:
            await renewer.close()

    async def terminal(self, state: State = State.DONE, **options: Any) -> UUID:
        """A job that has come to its end."""
        taken = await self.take(**options)
        assert await self.write(Outcome(taken.id, taken.token, state))
        return taken.id

    async def row(self, id: UUID) -> JobRecord:
        """The row, which must be there."""
        record = await self.store.find(id)
        assert record is not None
        return record

    async def alter(self, id: UUID, **columns: Any) -> None:
        """Write columns of a row by hand."""
        await self.ground.alter(id, columns)

    async def expire(self, id: UUID) -> None:
        """Let the lease of a job be over."""
        await self.alter(id, locked_until=now() - timedelta(seconds=1))

    async def begin(self) -> OwnTx:
        """A transaction of the store's own."""
        return await self.store.begin()

    @asynccontextmanager
    async def waiting(self, work: Coroutine[Any, Any, T]) -> AsyncIterator[Awaitable[T]]:
        """The work as a task that is waiting for a lock; awaited at the latest at the end of the block."""
        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(10):
                await self.ground.blocked(task)
            yield task
            async with asyncio.timeout(10):
                await task
        finally:
            task.cancel()


def now() -> datetime:
    """The time, as the store has it: both run on this machine."""
    return datetime.now(UTC)


def memory() -> Place:
    """A place in memory."""
    store = MemoryStore()
    return Place(store, MemoryGround(store))


@asynccontextmanager
async def database(dsn: str, driver: Literal["psycopg", "asyncpg"] = "psycopg") -> AsyncIterator[Place]:
    """A place in a database."""
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
        open_pool(dsn, driver=driver, min_size=0, max_size=10) as pool,
    ):
        store = PostgresStore(pool)
        yield Place(store, PostgresGround(dsn, connection))
        await store.close()
