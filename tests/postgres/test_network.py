"""What becomes of jobs when the network eats answers, loses requests and falls silent (requirement G6, D6, D9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.postgres.observer import Observer, Opened
from tests.proxy import Mode, Proxy

from brooq import Enqueued, Job, OutcomeUnknown, Queue, State, StoreError, StoreUnavailable
from brooq.engine.outcome import Outcome

LEASE = timedelta(seconds=30)
INSERT = b"insert into"
COMMIT = b"COMMIT"
EXCHANGE = b"with settled as"
CLAIM = b"with steered as"


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy(dsn) as found:
        yield found


@pytest.mark.parametrize("key", ["", "k"], ids=["without a key", "with a key"])
@pytest.mark.parametrize("eaten", [1, 3])
async def test_an_enqueue_whose_answer_was_eaten_is_found_out(
    proxy: Proxy, observer: Observer, key: str, eaten: int
) -> None:
    """The id of the job tells, so a repeated enqueue makes no second row, even without a key."""
    async with Opened(proxy.dsn) as store:
        await store.enqueue(None, [Job("t", "first")])
        proxy.marker, proxy.eat = INSERT, eaten
        job = Job("t", "second", key)
        assert await Queue(store).enqueue(job) == Enqueued(job.id, True)
    assert proxy.eaten == eaten
    assert observer.value("select count(*) from job where id = %s", job.id) == 1
    assert observer.value("select count(*) from job") == 2


async def test_an_enqueue_whose_answers_are_all_eaten_says_that_it_does_not_know(
    proxy: Proxy, observer: Observer
) -> None:
    """Requirement G6: never failure or success by guess; the same Job object can be enqueued again."""
    async with Opened(proxy.dsn) as store:
        proxy.marker, proxy.eat = INSERT, 1000
        job = Job("t", None, "k")
        with pytest.raises(OutcomeUnknown):
            await store.enqueue(None, [job])
        assert observer.value("select count(*) from job") == 1
        proxy.eat = 0
        assert await store.enqueue(None, [job]) == [Enqueued(job.id, True)]
    assert observer.value("select count(*) from job") == 1


async def test_an_enqueue_that_never_arrived_is_sent_again(proxy: Proxy, observer: Observer) -> None:
    async with Opened(proxy.dsn) as store:
        proxy.marker, proxy.drop = INSERT, 2
        job = Job("t")
        assert await store.enqueue(None, [job]) == [Enqueued(job.id, True)]
    assert proxy.dropped == 2
    assert observer.value("select count(*) from job") == 1


async def test_an_enqueue_without_a_database_fails_as_unavailable(proxy: Proxy, observer: Observer) -> None:
    async with Opened(proxy.dsn, timeout=1.0) as store:
        proxy.mode = Mode.REFUSE
        with pytest.raises(StoreUnavailable):
            await store.enqueue(None, [Job("t")])
        proxy.mode = Mode.PASS
        async with asyncio.timeout(30):  # the pool has its own pauses between its attempts to connect
            while True:
                try:
                    answers = await store.enqueue(None, [Job("t")])
                except StoreUnavailable:
                    continue
                break
        assert answers[0].created
    assert observer.value("select count(*) from job") == 1


async def test_a_commit_whose_answer_was_eaten_is_unknown(proxy: Proxy, observer: Observer) -> None:
    """The caller's own transaction: what was done in it cannot be repeated by us, so it is told."""
    async with Opened(proxy.dsn) as store:
        tx = await store.begin()
        (answer,) = await store.enqueue(tx, [Job("t")])
        proxy.marker, proxy.eat = COMMIT, 1
        with pytest.raises(OutcomeUnknown):
            await tx.commit()
        assert tx.broken
        assert observer.value("select id from job") == answer.id
        assert (await store.enqueue(None, [Job("t")]))[0].created, "the pool is whole again"


async def test_an_exchange_whose_answer_was_eaten_is_unknown_and_its_fate_can_be_read(
    proxy: Proxy, observer: Observer
) -> None:
    """The outcome is recorded, and the row says so."""
    async with Opened(proxy.dsn) as store:
        await store.enqueue(None, [Job("t", 0), Job("t", 1)])
        (taken,) = (await store.exchange("w", [], ["t"], 1, LEASE)).taken
        proxy.marker, proxy.eat = EXCHANGE, 1
        with pytest.raises(OutcomeUnknown):
            await store.exchange("w", [Outcome(taken.id, taken.token, State.DONE)], ["t"], 1, LEASE)
        fate = (await store.fates([taken.id]))[taken.id]
        assert (fate.state, fate.token, fate.owner) == (State.DONE, taken.token, "w")
        again = await store.exchange("w", [Outcome(taken.id, taken.token, State.DONE)], ["t"], 1, LEASE)
        assert (again.settled, again.taken) == ([], []), (
            "written once; the second job is held by the claim nobody heard of"
        )
    assert sorted(observer.run("select state from job")) == [("done",), ("processing",)]


@pytest.mark.parametrize(
    ("topics", "marker"), [(["t"], CLAIM), (["t", "u"], EXCHANGE)], ids=["one topic", "two topics"]
)
async def test_an_exchange_that_never_arrived_has_done_nothing(
    proxy: Proxy, observer: Observer, topics: list[str], marker: bytes
) -> None:
    async with Opened(proxy.dsn) as store:
        await store.enqueue(None, [Job("t")])
        proxy.marker, proxy.drop = marker, 1
        with pytest.raises(OutcomeUnknown):
            await store.exchange("w", [], topics, 1, LEASE)
        assert observer.value("select claim_seq from job") == 0
        assert len((await store.exchange("w", [], topics, 1, LEASE)).taken) == 1


async def test_silence_costs_no_more_than_the_stores_patience(proxy: Proxy, observer: Observer) -> None:
    """On a dead link a driver that cancels its query waits for the same dead link once more."""
    async with Opened(proxy.dsn, patience=0.4) as store:
        renewer = await store.renewer()
        await store.enqueue(None, [Job("t")])
        (taken,) = (await store.exchange("w", [], ["t"], 1, LEASE)).taken
        assert (await renewer.renew("w", [taken.hold], LEASE)).renewed
        await store.reap(1)
        proxy.mode = Mode.BLACK_HOLE
        began = time.monotonic()
        work = [store.exchange("w", [], ["t"], 1, LEASE), renewer.renew("w", [taken.hold], LEASE), store.reap(1)]
        answers = await asyncio.gather(*work, return_exceptions=True)
        assert time.monotonic() - began < 3.0
        assert all(isinstance(answer, StoreError) for answer in answers), answers
        proxy.mode = Mode.PASS
        assert (await renewer.renew("w", [taken.hold], LEASE)).renewed == [taken.hold]
        assert await store.reap(1) == []
        await renewer.close()


async def test_a_slow_link_only_costs_time(proxy: Proxy, observer: Observer) -> None:
    proxy.delay = 0.02
    async with Opened(proxy.dsn) as store:
        await store.enqueue(None, [Job("t")])
        (taken,) = (await store.exchange("w", [], ["t"], 1, LEASE)).taken
        assert (await store.exchange("w", [Outcome(taken.id, taken.token, State.DONE)], [], 0, LEASE)).settled


async def test_reset_connections_are_replaced(proxy: Proxy, observer: Observer) -> None:
    async with Opened(proxy.dsn, min_size=2) as store:
        for number in range(3):
            proxy.reset()
            assert (await store.enqueue(None, [Job("t", number)]))[0].created
    assert observer.value("select count(*) from job") == 3
