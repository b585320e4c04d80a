"""The contract of claiming: who is taken, in which order, and what a claim writes (requirements C1, G4.2, G4.6, G4.10)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest
from tests.store_contract.place import HOUR, LEASE, WORKER, Place, now

from brooq import Job, State
from brooq.engine.outcome import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="session")

INT_MAX = 2**31 - 1


def ids(taken: list[object]) -> list[UUID]:
    return [each.id for each in taken]  # type: ignore[attr-defined]


async def test_a_claim_writes_owner_lease_attempt_and_fence(place: Place) -> None:
    id = await place.job(payload={"a": [1.0, "ж"]}, max_attempts=3)
    before = now()
    (taken,) = await place.claim()
    assert (taken.id, taken.topic, taken.attempt, taken.token, taken.max_attempts) == (id, "t", 1, 1, 3)
    assert taken.payload.replace(" ", "") == '{"a":[1.0,"ж"]}'
    row = await place.row(id)
    assert (row.state, row.attempts, row.claim_seq) == (State.PROCESSING, 1, 1)
    assert (row.locked_by, row.locked_until) == (WORKER, taken.until)
    assert timedelta(0) <= taken.until - LEASE - before < timedelta(seconds=10)
    assert row.updated_at >= row.created_at


async def test_every_claim_counts_its_attempt_and_moves_the_fence(place: Place) -> None:
    id = await place.job()
    for number in (1, 2, 3):
        (taken,) = await place.claim()
        assert (taken.attempt, taken.token) == (number, number)
        assert await place.write(Outcome(id, taken.token, State.FAILED, "no", 0.0))


async def test_an_attempt_given_back_does_not_move_the_fence_back(place: Place) -> None:
    """Attempts are no fence."""
    id = await place.job()
    for number in (1, 2, 3):
        (taken,) = await place.claim()
        assert (taken.attempt, taken.token) == (1, number)
        assert await place.write(Outcome(id, taken.token, State.PENDING, delay=0.0, refund=1))


async def test_jobs_come_by_priority_then_readiness_then_enqueueing(place: Place) -> None:
    early, late = now() - HOUR, now() - HOUR / 2
    expected = await place.enqueue(
        Job("t", 0, priority=0, available_at=late),
        Job("t", 1, priority=0, available_at=late),
        Job("t", 2, priority=1, available_at=early),
        Job("t", 3, priority=1, available_at=late),
        Job("t", 4, priority=9, available_at=early - HOUR),
    )
    for id in reversed(expected):  # where a row lies in the table must not matter
        await place.alter(id, last_error="touched")
    assert ids([*await place.claim(5)]) == expected
    assert await place.claim(5) == []


async def test_one_at_a_time_they_come_in_the_same_order(place: Place) -> None:
    ready = now() - HOUR
    expected = await place.enqueue(*(Job("t", n, priority=n % 2, available_at=ready) for n in range(6)))
    expected = expected[::2] + expected[1::2]
    assert [(await place.claim(1))[0].id for _ in expected] == expected


@pytest.mark.parametrize("limit", [0, 1, 3, 9])
async def test_never_more_than_asked_are_taken(place: Place, limit: int) -> None:
    jobs = await place.enqueue(*(Job(topic, n) for n in range(3) for topic in ("t", "u")))
    taken = await place.claim(limit, ["t", "u"])
    assert len(taken) == min(limit, 6)
    rows = [await place.row(id) for id in jobs]
    assert sum(row.state is State.PROCESSING for row in rows) == len(taken)
    assert sum(row.attempts for row in rows) == len(taken)


async def test_a_job_of_the_future_is_left_alone_until_it_is_ready(place: Place) -> None:
    id = await place.job(available_at=now() + HOUR, priority=0)
    ready = await place.job(priority=9)
    assert ids([*await place.claim()]) == [ready]
    await place.alter(id, available_at=now() - timedelta(seconds=1))
    assert ids([*await place.claim()]) == [id]


@pytest.mark.fault(25)
async def test_foreign_topics_are_left_alone(place: Place) -> None:
    """Fault 25: a worker takes what it has a kind for, nothing else; without topics, nothing at all."""
    foreign = await place.job("b")
    assert await place.claim(10, ["a"]) == []
    assert await place.claim(10, []) == []
    row = await place.row(foreign)
    assert (row.state, row.attempts, row.claim_seq) == (State.PENDING, 0, 0)
    assert ids([*await place.claim(10, ["a", "b"])]) == [foreign]


async def test_the_topic_given_first_comes_first(place: Place) -> None:
    a, b = await place.enqueue(Job("a", available_at=now() - HOUR), Job("b", priority=9))
    assert ids([*await place.claim(1, ["b", "a"])]) == [b]
    assert ids([*await place.claim(1, ["b", "a"])]) == [a]


async def test_several_topics_share_one_limit(place: Place) -> None:
    await place.enqueue(*(Job(topic, n) for n in range(3) for topic in ("a", "b", "c")))
    taken = await place.claim(5, ["b", "c", "a"])
    assert sorted(each.topic for each in taken) == ["b", "b", "b", "c", "c"]
    for topic in ("b", "c"):
        found = [each.payload for each in taken if each.topic == topic]
        assert found == sorted(found)


@pytest.mark.parametrize("state", [State.PROCESSING, State.DONE, State.DEAD, State.CANCELED])
async def test_only_waiting_jobs_are_taken(place: Place, state: State) -> None:
    taken = await place.take()
    if state is not State.PROCESSING:
        assert await place.write(Outcome(taken.id, taken.token, state))
    assert await place.claim() == []
    assert (await place.row(taken.id)).claim_seq == 1


@pytest.mark.fault(43)
async def test_attempts_at_the_top_of_the_integer_stay_there(place: Place) -> None:
    """Fault 43: no error at the claim, and the fence still moves."""
    id = await place.job()
    await place.alter(id, attempts=INT_MAX)
    (taken,) = await place.claim()
    assert (taken.attempt, taken.token) == (INT_MAX, 1)
    await place.expire(id)
    await place.alter(id, expired_leases=INT_MAX)
    assert [each.id for each in await place.store.reap(10)] == [id]
    assert (await place.row(id)).expired_leases == INT_MAX


async def test_waited_is_the_time_since_the_job_was_ready(place: Place) -> None:
    await place.job(available_at=now() - HOUR)
    (taken,) = await place.claim()
    assert 3600 <= taken.waited < 3700


async def test_a_locked_row_is_skipped_not_waited_for(place: Place) -> None:
    locked, free = await place.enqueue(Job("t", 0), Job("t", 1))
    async with place.ground.lock(locked), asyncio.timeout(10):
        assert ids([*await place.claim()]) == [free]
    assert ids([*await place.claim()]) == [locked]


async def test_claims_at_one_time_never_share_a_job(place: Place) -> None:
    jobs = await place.enqueue(*(Job("t", n) for n in range(60)))
    taken = await asyncio.gather(*(place.claim(5, worker=f"w{n}") for n in range(12)))
    found = [each.id for batch in taken for each in batch]
    while batch := await place.claim():  # what rivals had locked in passing
        found += ids([*batch])
    assert sorted(found) == sorted(jobs)


async def test_a_job_released_by_an_exchange_is_there_for_the_next_one(place: Place) -> None:
    taken = await place.take()
    release = Outcome(taken.id, taken.token, State.PENDING, delay=0.0, refund=1)
    exchange = await place.store.exchange(WORKER, [release], ["t"], 10, LEASE)
    assert exchange.settled == [taken.hold]
    assert exchange.taken == []
    assert ids([*await place.claim()]) == [taken.id]


async def test_outcomes_and_the_next_claim_travel_together(place: Place) -> None:
    taken = await place.take()
    second = await place.job()
    exchange = await place.store.exchange(WORKER, [Outcome(taken.id, taken.token, State.DONE)], ["t"], 10, LEASE)
    assert exchange.settled == [taken.hold]
    assert ids([*exchange.taken]) == [second]


async def test_a_claim_brings_the_metadata_and_nothing_where_there_is_none(place: Place) -> None:
    await place.job(metadata={"traceparent": "00-1", "n": 1.5})
    await place.job()
    first, second = await place.claim(2)
    assert json.loads(first.metadata or "") == {"traceparent": "00-1", "n": 1.5}
    assert second.metadata is None
