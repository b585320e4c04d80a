"""Running until nothing is left, under virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from brooq import Claim, Config, Job, MustDelay, Queue, State
from brooq.testing import MemoryStore, VirtualClock, drain, in_memory

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def queue(clock: VirtualClock) -> Queue:
    return Queue(MemoryStore(clock), Config(max_attempts=3, backoff_base=600, backoff_max=600))


async def test_retries_and_jobs_of_the_future_run_at_once(queue: Queue, clock: VirtualClock) -> None:
    seen: list[tuple[str, timedelta]] = []

    @queue.kind("t")
    async def handle(claim: Claim) -> None:
        seen.append((claim.payload, clock() - START))
        if claim.payload == "flaky" and claim.attempt < 3:
            raise OSError

    week = timedelta(days=7)
    await queue.enqueue_many([Job("t", "later", available_at=START + week), Job("t", "flaky")])
    ended = await drain(queue)
    assert [(record.payload, record.state, record.attempts) for record in ended] == [
        ("later", State.DONE, 1),
        ("flaky", State.DONE, 3),
    ]
    assert [name for name, _ in seen] == ["flaky", "flaky", "flaky", "later"]
    waited = [after for _, after in seen]
    assert waited[0] == timedelta(0)
    assert timedelta(seconds=300) <= waited[1] <= timedelta(seconds=600)
    assert waited[3] == week


async def test_until_is_as_far_as_the_clock_goes(queue: Queue, clock: VirtualClock) -> None:
    @queue.kind("t")
    async def handle(claim: Claim) -> None: ...

    await queue.enqueue_many([Job("t", days, available_at=START + timedelta(days=days)) for days in (1, 2, 3)])
    assert [record.payload for record in await drain(queue, until=START + timedelta(days=2))] == [1, 2]
    assert clock() == START + timedelta(days=2)
    clock.advance(timedelta(days=1))
    assert [record.payload for record in await drain(queue)] == [3]


async def test_chained_jobs_and_signals_are_followed_to_their_end(queue: Queue) -> None:
    @queue.kind("a")
    async def first(claim: Claim) -> None:
        if claim.attempt == 1:
            raise MustDelay(30)
        claim.chain(Job("b"))

    @queue.kind("b")
    async def second(claim: Claim) -> None:
        await queue.enqueue(Job("c"))

    @queue.kind("c")
    async def third(claim: Claim) -> None:
        raise ValueError

    await queue.enqueue(Job("a"))
    ended = {record.topic: record.state for record in await drain(queue)}
    assert ended == {"a": State.DONE, "b": State.DONE, "c": State.DEAD}


async def test_foreign_topics_and_paused_ones_are_left_alone(queue: Queue) -> None:
    @queue.kind("t")
    async def handle(claim: Claim) -> None: ...

    @queue.kind("paused")
    async def never(claim: Claim) -> None: ...

    await queue.store.pause("paused", "anna")
    await queue.enqueue_many([Job("t"), Job("paused"), Job("foreign")])
    assert [record.topic for record in await drain(queue)] == ["t"]


async def test_a_lease_that_nobody_renews_expires_in_virtual_time(queue: Queue) -> None:
    @queue.kind("t")
    async def handle(claim: Claim) -> None: ...

    id, _ = await queue.enqueue(Job("t"))
    await queue.store.exchange("a worker that has died", [], ["t"], 1, timedelta(minutes=2))
    (record,) = await drain(queue)
    assert (record.id, record.state, record.attempts, record.expired_leases) == (id, State.DONE, 2, 1)


async def test_a_queue_that_runs_keeps_running(queue: Queue) -> None:
    @queue.kind("t")
    async def handle(claim: Claim) -> None:
        await asyncio.sleep(0.01)

    async with queue:
        await queue.enqueue_many([Job("t") for _ in range(5)])
        assert len(await drain(queue)) == 5
        assert queue.health().running
        assert await drain(queue) == []


async def test_with_a_real_clock_the_future_stays_where_it_is() -> None:
    queue = Queue(MemoryStore())

    @queue.kind("t")
    async def handle(claim: Claim) -> None: ...

    await queue.enqueue_many([Job("t"), Job("t", available_at=datetime.now(UTC) + timedelta(days=1))])
    assert len(await drain(queue)) == 1


async def test_jobs_without_end_are_ended(queue: Queue) -> None:
    @queue.kind("endless")
    async def handle(claim: Claim) -> None:
        claim.chain(Job("endless"))

    await queue.enqueue(Job("endless"))
    with pytest.raises(AssertionError, match="more than 50 claims and no end; still alive: endless"):
        await drain(queue, at_most=50)


async def test_a_queue_of_an_application_works_in_memory_for_a_while(clock: VirtualClock) -> None:
    application = Queue(MemoryStore())

    @application.kind("t")
    async def handle(claim: Claim) -> None: ...

    before = application.store
    with in_memory(application, clock) as store:
        await application.enqueue(Job("t", available_at=START + timedelta(days=365)))
        assert len(await drain(application)) == len(store.jobs) == 1
    assert application.store is before
    assert before.jobs == []  # type: ignore[attr-defined]


async def test_another_store_is_refused_in_words(queue: Queue) -> None:
    queue.store = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"in memory .* not on object"):
        await drain(queue)


def test_the_clock_moves_forward_only(clock: VirtualClock) -> None:
    assert clock() == clock() == START
    assert clock.advance(1.5) == START + timedelta(seconds=1.5)
    with pytest.raises(ValueError, match="2030"):
        clock.set(START)
    with pytest.raises(ValueError, match="2030"):
        clock.advance(-1)
