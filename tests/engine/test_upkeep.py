"""The reaper and retention."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from tests.engine.parts import memory, queue, row, until, until_state
from tests.simulation.virtual import virtual

from brooq.engine.metrics import OTHER, Metrics
from brooq.engine.reaper import BATCH, Reaper
from brooq.engine.retention import MAX_BATCHES, Retention
from brooq.engine.store import Hold
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.event import Event, JobRequeued
from brooq.vocabulary.job import Job, State

LEASE = timedelta(seconds=3)


@virtual
async def test_the_reaper_puts_expired_jobs_back_and_only_those(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "brooq")
    store, metrics, events = memory(), Metrics(["a"]), list[Event]()
    reaper = Reaper(store, metrics, events.append)
    await store.enqueue(None, [Job("a"), Job("b"), Job("a")])
    await store.exchange("w", [], ["a", "b"], 3, LEASE)
    await asyncio.sleep(2)
    assert await reaper.tick() == 0
    assert not caplog.records
    kept = store.jobs[2]
    store.renew("w", [Hold(kept.id, kept.claim_seq)], LEASE)
    await asyncio.sleep(1.5)
    assert await reaper.tick() == 2
    assert [job.state for job in store.jobs] == [State.PENDING, State.PENDING, State.PROCESSING]
    assert [(job.attempts, job.expired_leases, job.locked_by) for job in store.jobs[:2]] == [(1, 1, None)] * 2
    assert metrics.requeued == {"a": 1, OTHER: 1}
    assert events == [JobRequeued(store.jobs[0].id, "a"), JobRequeued(store.jobs[1].id, "b")]
    (record,) = caplog.records
    assert "a 1, b 1" in record.getMessage()
    assert await reaper.tick() == 0


@virtual
async def test_the_reaper_takes_batch_after_batch() -> None:
    store, metrics = memory(), Metrics(["a"])
    await store.enqueue(None, [Job("a") for _ in range(BATCH + 3)])
    await store.exchange("w", [], ["a"], BATCH + 3, LEASE)
    await asyncio.sleep(4)
    assert await Reaper(store, metrics, lambda _: None).tick() == BATCH + 3


@virtual
async def test_two_reapers_put_a_job_back_once() -> None:
    store, metrics = memory(), Metrics(["a"])
    await store.enqueue(None, [Job("a")])
    await store.exchange("w", [], ["a"], 1, LEASE)
    await asyncio.sleep(4)
    reapers = [Reaper(store, metrics, lambda _: None).tick() for _ in range(2)]
    assert sorted(await asyncio.gather(*reapers)) == [0, 1]
    assert row(store).expired_leases == 1


class Endless(MemoryStore):
    """Has always more to delete."""

    asked = 0

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        self.asked += 1
        return ["a"] * limit


@virtual
async def test_retention_stops_after_a_hundred_batches_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    store, metrics = Endless(), Metrics(["a"])
    assert await Retention(store, metrics, timedelta(days=1), 7).tick() == 7 * MAX_BATCHES
    assert store.asked == MAX_BATCHES == 100
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]
    assert metrics.deleted == {"a": 700}
    assert metrics.behind == 1


@virtual
async def test_retention_of_zero_deletes_nothing() -> None:
    store = Endless()
    assert await Retention(store, Metrics(), timedelta(0), 7).tick() == 0
    assert store.asked == 0


@virtual
async def test_retention_deletes_old_terminal_jobs_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "brooq")
    store, metrics = memory(), Metrics(["a"])
    old, waiting, young = Job("a"), Job("a"), Job("b")
    await store.enqueue(None, [old, waiting])
    await store.cancel(old.id)
    await asyncio.sleep(100)
    await store.enqueue(None, [young])
    await store.cancel(young.id)
    retention = Retention(store, metrics, timedelta(seconds=50), 1)
    assert await retention.tick() == 1
    assert [job.id for job in store.jobs] == [waiting.id, young.id]
    assert metrics.deleted == {"a": 1}
    assert "a 1" in caplog.records[-1].getMessage()
    assert await retention.tick() == 0


@pytest.mark.fault(50)
@pytest.mark.parametrize("verb", ["reap", "prune", "exchange", "census"])
@pytest.mark.parametrize("permanent", [False, True])
def test_a_verb_that_raises_what_it_must_not(verb: str, permanent: bool) -> None:
    """Fault 50: once is survived, for ever makes the queue unwell within a few seconds."""

    async def main() -> None:
        store = memory()
        original, calls = getattr(store, verb), 0

        async def broken(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if permanent or calls == 1:
                raise TypeError("odd")
            return await original(*arguments)

        setattr(store, verb, broken)

        async def handler(_: Claim) -> None:
            pass

        made = queue(store, handler, retention_period=1)
        async with made:
            if permanent:
                await until(lambda: not made.health().well, 5)
            else:
                await made.enqueue(Job("t"))
                await until_state(store, State.DONE)
                await asyncio.sleep(3)
                assert made.health().well
                assert calls > 1 or verb == "census"

    virtual(main)()
