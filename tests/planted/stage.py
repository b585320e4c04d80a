"""A stage for directed schedules: a real PostgreSQL with an audit, and the logs of handlers and producers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from brooq import Enqueued, Job, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold, Taken
from brooq.postgres import PostgresStore, audit, open_pool
from brooq.postgres.marks import Marks
from brooq.service.journal import Journal, ProducerLog
from brooq.service.verify.inspection import Inspection, Sources, inspect
from brooq.service.verify.life import Rules

HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=20)
"""A lease that is over as soon as somebody looks."""
TOPIC = "t"


@dataclass
class Stage:
    """Everything that a schedule has in its hands. What it does through `take`, `end` and `close` is in the journal."""

    dsn: str
    store: PostgresStore
    journal: Journal
    producers: ProducerLog
    ttl: float = 3600.0
    """At what age terminal rows may be deleted."""
    ordered: bool = False
    max_attempts: int = 3
    outcomes: dict[UUID, Outcome] = field(default_factory=dict)
    topics: Sequence[str] = (TOPIC,)
    """What is claimed: one topic alone has a statement of its own."""

    # --- planting ---

    def weaken(self, statement: str, *pieces: tuple[str, str]) -> None:
        """Replace pieces of a statement as it is now; a piece that is not there any more is an error."""
        if statement == "exchange":
            self.topics = (TOPIC, "another")
        text = getattr(self.store._statements, statement)
        for piece, instead in pieces:
            assert piece in text, f"{statement}.sql has changed: this bug has to follow it, {piece!r} is not there"
            text = text.replace(piece, instead)
        self.store._statements = replace(self.store._statements, **{statement: text})

    async def alter(self, *statements: LiteralString) -> None:
        """Change the schema, or whatever else a schedule does by hand."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement)

    # --- playing ---

    async def enqueue(self, job: Job | None = None, **options: Any) -> Enqueued:
        """A producer sends a job and is answered."""
        job = job or Job(TOPIC, **options)
        self.producers.invoke(job)
        (answer,) = await self.store.enqueue(None, [job])
        self.producers.ok(job, answer)
        return answer

    async def claim(self, worker: str = "w", lease: timedelta = HOUR, limit: int = 1) -> list[Taken]:
        """A worker claims, and its handlers start. It looks from the beginning, as one that has just come does."""
        self.store._marks = Marks()
        taken = (await self.store.exchange(worker, [], self.topics, limit, lease)).taken
        for each in taken:
            self.begin(each, worker)
        return taken

    def begin(self, taken: Taken, worker: str = "w") -> None:
        """A handler starts."""
        self.journal.write("claimed", {"job": taken.id, "token": taken.token})
        self.journal.write("start", {
            "job": taken.id, "token": taken.token, "topic": taken.topic, "owner": worker, "attempt": taken.attempt,
            "max_attempts": self.max_attempts,
        })  # fmt: skip

    async def take(self, worker: str = "w", lease: timedelta = HOUR, **options: Any) -> Taken:
        """One job, enqueued and claimed."""
        await self.enqueue(**options)
        (taken,) = await self.claim(worker, lease)
        return taken

    async def end(self, taken: Taken, state: State = State.DONE, worker: str = "w", **values: Any) -> bool:
        """The handler ends and its outcome is written with an exchange; whether that was accepted."""
        outcome = self._ended(taken, state, **values)
        exchange = await self.store.exchange(worker, [outcome], [], 0, HOUR)
        return self._told(taken, state, accepted=Hold(taken.id, taken.token) in exchange.settled)

    async def close(self, taken: Taken, state: State = State.DONE, worker: str = "w", **values: Any) -> bool:
        """The same, in a transaction that closes the job."""
        outcome = self._ended(taken, state, **values)
        async with await self.store.begin() as tx:
            accepted = await self.store.settle(tx, worker, outcome)
        return self._told(taken, state, accepted=accepted)

    def _ended(
        self, taken: Taken, state: State, *, signal: str | None = None, error: str | None = None, refund: int = 0
    ) -> Outcome:
        result = "returned" if state is State.DONE else "raised"
        if state in {State.FAILED, State.DEAD} and error is None:
            error = "no"
        self.journal.write("end", {"job": taken.id, "token": taken.token, "result": result, "signal": signal})
        return Outcome(taken.id, taken.token, state, error, 0.0 if state is State.FAILED else None, refund)

    def _told(self, taken: Taken, state: State, *, accepted: bool) -> bool:
        if accepted and state in {State.DONE, State.FAILED, State.DEAD}:
            self.journal.write(str(state), {"job": taken.id, "token": taken.token})
        return accepted

    async def again(self, taken: Taken, state: State) -> None:
        """An outcome is sent once more, and is another one by now."""
        error = "late" if state is State.FAILED else None
        await self.store.exchange("w", [Outcome(taken.id, taken.token, state, error)], [], 0, HOUR)

    async def expired(self, id: UUID) -> None:
        """Return when the job's lease is over by the database's clock."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            query = "select pg_sleep_until(locked_until + interval '1 ms') from job where id = %s"
            await connection.execute(query, [id])

    async def retaken(self, first: str = "w", second: str = "w", **options: Any) -> tuple[Taken, Taken]:
        """A claim whose lease has run out, and the next claim of the same job."""
        old = await self.take(first, MOMENT, **options)
        await self.expired(old.id)
        assert len(await self.store.reap(10)) == 1
        (new,) = await self.claim(second)
        return old, new

    async def renew(self, taken: Taken, worker: str = "w", lease: timedelta = HOUR) -> None:
        """One renewal."""
        renewer = await self.store.renewer()
        try:
            await renewer.renew(worker, [Hold(taken.id, taken.token)], lease)
        finally:
            await renewer.close()

    async def crash(self) -> None:
        """The server dies without writing what it has only in memory, and comes back."""
        writer = await self.walwriter()
        os.kill(writer, signal.SIGKILL)
        while await self.walwriter() == writer:  # noqa: ASYNC110  a server has no event to wait for
            await asyncio.sleep(0.01)

    async def hold_walwriter(self) -> None:
        """From now on nothing is written that nobody asks for; what was before is safe."""
        await self.alter("checkpoint")
        os.kill(await self.walwriter(), signal.SIGSTOP)

    async def walwriter(self) -> int:
        """The server's process that writes asynchronous commits, once the server answers."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
                    query = "select pid from pg_stat_activity where backend_type = 'walwriter'"
                    row = await (await connection.execute(query)).fetchone()
                    if row is not None:
                        return int(row[0])
            except psycopg.OperationalError:
                await asyncio.sleep(0.01)

    def verdict(self) -> Inspection:
        """What the checker says."""
        sources = Sources(self.dsn, journal=[self.journal.path], producers=[self.producers.path])
        return inspect(sources, Rules(ttl=self.ttl, slack=0.0, skew=0.0), ordered=self.ordered, margin=0.0)


@asynccontextmanager
async def staged(dsn: str, folder: Path) -> AsyncIterator[Stage]:
    """A stage in a migrated database, without anything of an earlier schedule."""
    audit.uninstall(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute("delete from job")
        connection.execute("delete from brooq_topic")
    audit.install(dsn)
    journal, producers = Journal(folder / "journal.jsonl"), ProducerLog(folder / "producers.jsonl")
    try:
        async with open_pool(dsn, min_size=0) as pool:
            store = PostgresStore(pool)
            try:
                yield Stage(dsn, store, journal, producers)
            finally:
                await store.close()
    finally:
        journal.close()
        producers.close()


Plant = Callable[[Stage], Any]
"""Plants a bug; may answer an awaitable, or a context manager that takes it out again."""
Schedule = Callable[[Stage], Any]


@dataclass(frozen=True)
class Bug:
    """A weakened variant, the schedule that shows it, and the promises of which at least one must be seen broken."""

    name: str
    promises: Sequence[str]
    plant: Plant
    schedule: Schedule
    crashes: bool = False
    """The schedule crashes the server: it needs one of its own."""
