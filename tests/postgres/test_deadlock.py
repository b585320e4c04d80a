"""Maintenance, renewals, outcomes and cancels of many workers on the same rows never deadlock (fault 57)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.postgres.observer import Observer, Opened

from brooq import Job, State, StoreBusy, StoreUnavailable
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold
from brooq.postgres import PostgresStore

SECONDS = 5.0
WORKERS = 4
LEASE = timedelta(seconds=0.05)
"""So short that leases run out under the hands of those who renew them."""

ROWS = """
insert into job (topic, state, attempts, claim_seq, locked_by, locked_until)
select 't', 'processing', 1, 1, 'worker ' || n % 4, now() - interval '1 second' from generate_series(1, 2500) as n;
insert into job (topic, state, idempotency_key, updated_at)
select 't', 'done', 'k' || n, now() - interval '2 days' from generate_series(1, 2500) as n;
"""


class Rival:
    """One worker's hands, all at work at once on rows that the others work on too."""

    def __init__(self, name: str, store: PostgresStore, ids: list[UUID], seed: int) -> None:
        """`ids` are of all jobs there are."""
        self.name, self.store, self.ids = name, store, ids
        self.random = random.Random(seed)
        self.holds: list[Hold] = []
        self.done: dict[str, int] = {}

    async def repeat(self, verb: str, step: Callable[[], Awaitable[object]], until: float) -> None:
        """A step again and again. A row that stays locked is an answer; anything else is not."""
        while time.monotonic() < until:
            try:
                await step()
            except StoreBusy:
                continue
            self.done[verb] = self.done.get(verb, 0) + 1

    def some(self, count: int) -> list[Hold]:
        """A few of the holds, in no order."""
        return self.random.sample(self.holds, min(count, len(self.holds)))

    async def exchange(self) -> None:
        """Outcomes of some, in any order, and the next claim."""
        ended = self.some(20)
        outcomes = [
            Outcome(hold.id, hold.token, self.random.choice([State.DONE, State.FAILED]), "e", 0.0) for hold in ended
        ]
        exchange = await self.store.exchange(self.name, outcomes, ["t"], 30, LEASE)
        self.holds = [hold for hold in self.holds if hold not in ended][-200:] + [each.hold for each in exchange.taken]

    async def settle(self) -> None:
        """One outcome with a chained job whose key the others chain too."""
        for hold in self.some(1):
            async with await self.store.begin() as tx:
                await self.store.enqueue(tx, [Job("t", None, f"chain {self.random.randrange(50)}")])
                await self.store.settle(tx, self.name, Outcome(hold.id, hold.token, State.DONE))

    async def cancel(self) -> None:
        """A job of anybody."""
        await self.store.cancel(self.random.choice(self.ids))

    async def enqueue(self) -> None:
        """Keys that others enqueue in another order."""
        keys = self.random.sample(range(100), 10)
        await self.store.enqueue(None, [Job("t", None, f"key {key}") for key in keys])

    async def work(self, until: float) -> None:
        """Everything at once."""
        renewer = await self.store.renewer()
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "exchange": self.exchange,
            "settle": self.settle,
            "cancel": self.cancel,
            "enqueue": self.enqueue,
            "renew": lambda: renewer.renew(self.name, self.some(100), LEASE),
            "reap": lambda: self.store.reap(100),
            "prune": lambda: self.store.prune(timedelta(seconds=0.2), 50),
        }
        await asyncio.gather(*(self.repeat(verb, step, until) for verb, step in steps.items()))
        await renewer.close()


@pytest.mark.fault(57)
async def test_no_two_statements_wait_for_each_other_crosswise(dsn: str, observer: Observer) -> None:
    """Fault 57: the server itself counts the deadlocks; a deliberate one shows that it would have told."""
    observer.run(ROWS)
    ids = [row[0] for row in observer.run("select id from job where state = 'processing'")]
    held = observer.run("select locked_by, id, claim_seq from job where state = 'processing'")
    rivals: list[Rival] = []
    async with AsyncExitStack() as stack:
        for number in range(WORKERS):
            store = await stack.enter_async_context(Opened(dsn, max_size=4))
            rivals.append(Rival(f"worker {number}", store, ids, number))
            rivals[-1].holds = [Hold(id, token) for owner, id, token in held if owner == f"worker {number}"][:300]
        until = time.monotonic() + SECONDS
        await asyncio.gather(*(rival.work(until) for rival in rivals))
    verbs = {"exchange", "settle", "cancel", "enqueue", "renew", "reap", "prune"}
    assert all(set(rival.done) == verbs for rival in rivals), [rival.done for rival in rivals]
    await observer.until(lambda: observer.sessions() == 0)
    assert deadlocks(observer) == 0
    await meet_crosswise(dsn, ids[0], ids[1], observer)
    await observer.until(lambda: deadlocks(observer) == 1)


def deadlocks(observer: Observer) -> int:
    """How many the server has counted in this database."""
    return int(observer.value("select deadlocks from pg_stat_database where datname = current_database()"))


async def meet_crosswise(dsn: str, one: UUID, two: UUID, observer: Observer) -> None:
    """Two sessions that lock two keys in opposite order."""
    connect: Any = psycopg.AsyncConnection.connect
    async with await connect(dsn) as first, await connect(dsn) as second:
        lock = "select pg_advisory_xact_lock(hashtext(%s))"
        await first.execute(lock, [str(one)])
        await second.execute(lock, [str(two)])
        answers = await asyncio.gather(
            first.execute(lock, [str(two)]), second.execute(lock, [str(one)]), return_exceptions=True
        )
        assert [type(answer) for answer in answers].count(psycopg.errors.DeadlockDetected) == 1


async def test_a_deadlock_of_callers_transactions_reaches_them_as_something_to_retry(dsn: str) -> None:
    """Fault 57: two transactions of the queue with two keys in opposite order; one of them is told, nothing half-written."""
    async with Opened(dsn) as store:
        first, second = await store.begin(), await store.begin()
        await store.enqueue(first, [Job("t", None, "k1")])
        await store.enqueue(second, [Job("t", None, "k2")])

        async def finish(tx: Any, key: str) -> BaseException | None:
            try:
                await store.enqueue(tx, [Job("t", None, key)])
            except StoreUnavailable as error:
                await tx.rollback()
                return error
            await tx.commit()
            return None

        answers = await asyncio.gather(finish(first, "k2"), finish(second, "k1"))
        assert answers.count(None) == 1
        census = await store.census(["t"])
        assert [(depth.state, depth.jobs) for depth in census.depths] == [(State.PENDING, 2)]
