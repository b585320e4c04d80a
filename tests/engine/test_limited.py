"""Limits in the engine: the next job begins when room is made, not at the next poll, and topics without limits go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from tests.engine.parts import memory, queue, until
from tests.simulation.virtual import virtual

from brooq import Claim, ConfigError, Job, KindOptions, Limits, Queue, State
from brooq.engine.limited import LimitedTopics
from brooq.engine.store import LimitedClaim
from brooq.testing import MemoryStore
from brooq.vocabulary.error import StoreBusy, StoreUnavailable

NEVER = 3600.0
"""A poll that comes too late for any of these tests."""


def done(store: MemoryStore, count: int) -> bool:
    return sum(job.state is State.DONE for job in store.jobs) == count


class Gauge:
    """A handler that takes a second, and how many run at one time."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[tuple[str, float]] = []

    async def __call__(self, claim: Claim) -> None:
        self.started.append((claim.topic, asyncio.get_running_loop().time()))
        self.running[claim.topic] += 1
        self.most[claim.topic] = max(self.most[claim.topic], self.running[claim.topic])
        await asyncio.sleep(1)
        self.running[claim.topic] -= 1


@pytest.mark.parametrize("workers", [1, 8, 64])
def test_a_job_that_ends_makes_room_for_the_next_at_once(workers: int) -> None:
    """On one lane and on two."""

    @virtual
    async def run() -> None:
        store, gauge = memory(), Gauge()
        made = queue(store, gauge, KindOptions(max_running=2), workers=workers, poll_interval=NEVER)
        async with made:
            await made.enqueue_many([Job("t") for _ in range(20)])
            await until(lambda: done(store, 20), seconds=25 if workers == 1 else 12)
        assert gauge.most["t"] == min(workers, 2)

    run()


@virtual
async def test_so_does_one_that_closes_in_a_transaction_of_its_own() -> None:
    store = memory()

    async def handler(claim: Claim) -> None:
        claim.chain(Job("u"))

    async with queue(store, handler, KindOptions(ordered=True), workers=4, poll_interval=NEVER) as made:
        await made.enqueue_many([Job("t", concurrency_key="k") for _ in range(10)])
        await until(lambda: done(store, 10), seconds=10)


@virtual
async def test_a_rate_is_kept_and_used_up_without_polling() -> None:
    store, gauge = memory(), Gauge()
    made = queue(store, gauge, KindOptions(rate=2, rate_period=0.5), workers=50, poll_interval=NEVER)
    async with made:
        began = asyncio.get_running_loop().time()
        await made.enqueue_many([Job("t") for _ in range(10)])
        await until(lambda: done(store, 10))
    times = [at - began for _, at in gauge.started]
    assert max(times) < 2.5  # two at once, eight more in two seconds
    for first in times:
        assert sum(first <= each < first + 0.5 for each in times) <= 4  # a full bucket, and what flows in meanwhile


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_topics_with_and_without_limits_share_the_slots(workers: int) -> None:
    """Neither backlog keeps the other from its turn."""

    @virtual
    async def run() -> None:
        store, gauge = memory(), Gauge()
        made = queue(store, gauge, KindOptions(max_running=100), workers=workers)
        made.register_kind("u", gauge)
        async with made:
            await made.enqueue_many([Job(topic) for topic in ("t", "u") for _ in range(60)])
            await until(lambda: len(gauge.started) >= 40)
        counts = Counter(topic for topic, _ in gauge.started[:40])
        assert counts["t"] >= 15
        assert counts["u"] >= 15

    run()


@virtual
async def test_slots_that_limits_leave_free_are_filled_with_other_jobs() -> None:
    store, gauge = memory(), Gauge()
    made = queue(store, gauge, KindOptions(max_running=1), workers=8, poll_interval=NEVER)
    made.register_kind("u", gauge)
    async with made:
        await made.enqueue_many([Job(topic) for topic in ("t", "u") for _ in range(70)])
        await until(lambda: len(gauge.started) >= 64)
    assert gauge.most["t"] == 1
    assert gauge.most["u"] >= 7
    assert Counter(topic for topic, _ in gauge.started[:64])["t"] >= 6


@virtual
async def test_a_topic_whose_row_is_locked_for_long_is_tried_again_soon_and_holds_up_nobody() -> None:
    class Locked(MemoryStore):
        refusals = 5

        async def claim_limited(self, *arguments: object, **_: object) -> LimitedClaim:
            if self.refusals:
                self.refusals -= 1
                raise StoreBusy("locked")
            return await super().claim_limited(*arguments)  # type: ignore[arg-type]

    store, gauge = Locked(memory().clock), Gauge()
    made = queue(store, gauge, KindOptions(max_running=1), workers=4, poll_interval=NEVER)
    made.register_kind("u", gauge)
    async with made:
        await made.enqueue_many([Job("t"), Job("u")])
        await until(lambda: done(store, 2), seconds=5)
    assert store.refusals == 0


@virtual
async def test_a_claim_that_fails_is_made_again_and_outcomes_are_not_sent_twice() -> None:
    class Weak(MemoryStore):
        failures = 3

        async def claim_limited(self, *arguments: object, **_: object) -> LimitedClaim:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("no answer")
            return await super().claim_limited(*arguments)  # type: ignore[arg-type]

    store, gauge = Weak(memory().clock), Gauge()
    async with queue(store, gauge, KindOptions(max_running=2), workers=4, poll_interval=NEVER) as made:
        await made.enqueue_many([Job("t") for _ in range(6)])
        await until(lambda: done(store, 6), seconds=20)
    assert made.metrics.settled["t", "done"] == 6


@virtual
async def test_what_kinds_declare_is_valid_from_the_start_and_taken_back_by_code_without_it() -> None:
    store = memory()
    async with queue(store, Gauge(), KindOptions(max_running=3, rate=5, rate_period=60)):
        (found,) = await store.topics()
        assert (found.topic, found.limits) == ("t", Limits(max_running=3, rate=5, rate_period=60))
    async with queue(store, Gauge()) as made:
        assert [each.limits for each in await made.topics()] == [Limits()]
        assert await made.limit("t", Limits(ordered=True), "why", by="ann") is True
        assert [(each.limits_by, each.limits.ordered) for each in await made.topics()] == [("ann", True)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_running": 0}, "max_running is 0: a whole number from 1 is needed"),
        ({"max_running_per_key": True}, "max_running_per_key is True"),
        ({"rate": 5}, "rate and rate_period go together"),
        ({"rate_period": 5}, "rate and rate_period go together"),
        ({"rate": 1.5, "rate_period": 1}, "rate is 1.5"),
        ({"rate": 1, "rate_period": 0}, "rate_period is 0 s: it must be longer than zero"),
        ({"rate": 1, "rate_period": "1m"}, "rate_period is '1m'"),
        ({"ordered": 1}, "ordered must be True or False"),
    ],
)
def test_impossible_limits_are_refused_when_the_kind_is_registered(options: dict[str, object], problem: str) -> None:
    made = Queue(MemoryStore())
    with pytest.raises(ConfigError) as caught:
        made.register_kind("t", Gauge(), KindOptions(max_attempts=0, **options))  # type: ignore[arg-type]
    assert len(caught.value.problems) == 2
    assert problem in caught.value.problems[1]
    with pytest.raises(ConfigError):
        Limits(**options)  # type: ignore[arg-type]


@virtual
async def test_a_claim_of_other_topics_says_nothing_about_a_limited_one() -> None:
    """A wake-up asks for its topic alone: what is known of the others stays, in its order."""
    topics = LimitedTopics(memory(), "w", timedelta(seconds=3), lambda: None)
    topics.told(["a", "b", "c"], ["a", "b", "c", "d"])
    topics.told(["c"], ["b", "c"])
    assert [topic for topic in "abcd" if topic in topics] == ["a", "c"]
    topics.told([], ["d"])
    assert "a" in topics
    topics.told([], ["a", "b", "c", "d"])
    assert "a" not in topics
