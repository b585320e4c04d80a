"""The contract of `cancel`, `prune`, `census` and `find` (requirements I3, I4, R1, R2, O1, G3)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.store_contract.place import HOUR, WORKER, Place, now

from brooq import Cancellation, Enqueued, Job, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Depth

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDED = (State.DONE, State.DEAD, State.CANCELED)
DAY = timedelta(days=1)


async def in_state(place: Place, state: State) -> Job:
    """A job brought into a state by the verbs themselves."""
    job = Job("t", None, "k")
    await place.enqueue(job)
    if state is not State.PENDING:
        (taken,) = await place.claim()
        if state is not State.PROCESSING:
            error = "reason" if state in (State.FAILED, State.DEAD) else None
            assert await place.write(Outcome(taken.id, taken.token, state, error, 0.0))
    return job


# --- cancel ---


@pytest.mark.fault(40)
@pytest.mark.parametrize("state", [State.PENDING, State.PROCESSING, State.FAILED])
async def test_a_job_that_is_not_terminal_is_canceled(place: Place, state: State) -> None:
    """Fault 40: canceled whatever it was, and its error stays as it was."""
    job = await in_state(place, state)
    before = await place.row(job.id)
    assert await place.store.cancel(job.id) == Cancellation(True, state, "t")
    row = await place.row(job.id)
    assert row.state is State.CANCELED
    assert (row.last_error, row.attempts, row.claim_seq) == (before.last_error, before.attempts, before.claim_seq)
    assert row.updated_at >= before.updated_at
    assert await place.claim() == []
    assert await place.store.cancel(job.id) == Cancellation(False, State.CANCELED, "t")


@pytest.mark.fault(40)
@pytest.mark.parametrize("state", ENDED)
async def test_a_terminal_job_stays_and_the_answer_says_which(place: Place, state: State) -> None:
    """Fault 40."""
    job = await in_state(place, state)
    before = await place.row(job.id)
    assert await place.store.cancel(job.id) == Cancellation(False, state, "t")
    assert await place.row(job.id) == before


async def test_a_job_that_is_not_there_has_no_state(place: Place) -> None:
    assert await place.store.cancel(uuid4()) == Cancellation(False, None)


@pytest.mark.fault(40)
async def test_what_the_handler_reports_after_a_cancel_is_refused(place: Place) -> None:
    """Fault 40: done, failed or dead, the job stays canceled."""
    taken = await place.take()
    await place.store.cancel(taken.id)
    before = await place.row(taken.id)
    for state in State:
        assert not await place.write(Outcome(taken.id, taken.token, state, "late", 0.0, 1))
        assert not await place.settle(Outcome(taken.id, taken.token, state, "late", 0.0, 1))
    assert (await place.renew(taken.hold)).lost == [taken.hold]
    assert await place.row(taken.id) == before


async def test_a_cancel_waits_for_the_settle_under_way_and_tells_what_came_of_it(place: Place) -> None:
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    async with place.waiting(place.store.cancel(taken.id)) as answer:
        await tx.commit()
        assert await answer == Cancellation(False, State.DONE, "t")
    assert (await place.row(taken.id)).state is State.DONE


async def test_a_cancel_wins_when_the_settle_under_way_is_undone(place: Place) -> None:
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    async with place.waiting(place.store.cancel(taken.id)) as answer:
        await tx.rollback()
        assert await answer == Cancellation(True, State.PROCESSING, "t")
    assert not await place.write(Outcome(taken.id, taken.token, State.DONE))


# --- prune ---


@pytest.mark.parametrize("state", list(State))
async def test_only_terminal_jobs_are_pruned(place: Place, state: State) -> None:
    job = await in_state(place, state)
    await place.alter(job.id, updated_at=now() - 2 * DAY)
    if state in (State.PENDING, State.FAILED, State.PROCESSING):
        assert await place.store.prune(DAY, 10) == []
        assert (await place.row(job.id)).state is state
    else:
        assert await place.store.prune(DAY, 10) == ["t"]
        assert await place.store.find(job.id) is None


async def test_a_job_is_kept_until_it_is_old_enough(place: Place) -> None:
    id = await place.terminal()
    assert await place.store.prune(DAY, 10) == []
    await place.alter(id, updated_at=now() - DAY + timedelta(minutes=1))
    assert await place.store.prune(DAY, 10) == []
    await place.alter(id, updated_at=now() - DAY - timedelta(minutes=1))
    assert await place.store.prune(DAY, 10) == ["t"]


async def test_the_oldest_go_first_a_batch_at_a_time(place: Place) -> None:
    ages = {await place.terminal(ENDED[n % 3]): n for n in (3, 1, 4, 2, 5)}
    for id, age in ages.items():
        await place.alter(id, updated_at=now() - DAY - age * HOUR)
    left = sorted(ages, key=ages.__getitem__)  # the youngest first
    while left:
        assert len(await place.store.prune(DAY, 2)) == min(2, len(left))
        left = left[:-2]
        assert [id for id in ages if await place.store.find(id)] == [id for id in ages if id in left]
    assert await place.store.prune(DAY, 2) == []


async def test_a_locked_row_is_not_waited_for(place: Place) -> None:
    one, two = await place.terminal(), await place.terminal()
    for id in (one, two):
        await place.alter(id, updated_at=now() - 2 * DAY)
    async with place.ground.lock(one), asyncio.timeout(10):
        assert await place.store.prune(DAY, 10) == ["t"]
        assert await place.store.find(two) is None
    assert await place.store.prune(DAY, 10) == ["t"]


async def test_pruning_frees_the_key(place: Place) -> None:
    old = await in_state(place, State.DONE)
    await place.alter(old.id, updated_at=now() - 2 * DAY)
    await place.store.prune(DAY, 10)
    new = Job("t", None, "k")
    assert await place.store.enqueue(None, [new]) == [Enqueued(new.id, True)]


# --- census ---


async def test_an_empty_table_has_an_age_of_zero_for_the_topics_asked(place: Place) -> None:
    census = await place.store.census(["a", "b"])
    assert census.depths == []
    assert census.oldest == {"a": 0.0, "b": 0.0}


@pytest.mark.fault(25)
async def test_every_state_of_every_topic_is_counted(place: Place) -> None:
    """Fault 25: a topic that no worker has is counted too."""
    for state in (State.FAILED, State.DONE, State.DEAD, State.CANCELED, State.PROCESSING):
        await place.job("a")
        (taken,) = await place.claim(1, ["a"])
        if state is not State.PROCESSING:
            await place.write(Outcome(taken.id, taken.token, state, delay=3600.0))
    await place.enqueue(Job("a"), Job("a"), Job("foreign"))
    census = await place.store.census(["a", "empty"])
    counts = dict.fromkeys(State, 1) | {State.PENDING: 2}
    expected = [Depth("a", state, count, True) for state, count in counts.items()]
    assert sorted(census.depths) == sorted([*expected, Depth("foreign", State.PENDING, 1, True)])
    assert census.oldest["empty"] == 0.0


async def test_the_age_is_that_of_the_oldest_ready_job(place: Place) -> None:
    await place.enqueue(
        Job("a", available_at=now() - HOUR, priority=9),
        Job("a", available_at=now() - HOUR / 2),
        Job("b", available_at=now() + HOUR),
        Job("foreign", available_at=now() - 2 * HOUR),
    )
    oldest = (await place.store.census(["a", "b"])).oldest
    assert 3600 <= oldest["a"] < 3700
    assert oldest["b"] == 0.0
    assert 7200 <= oldest["foreign"] < 7300
    await place.claim(10, ["a"])
    assert (await place.store.census(["a"])).oldest["a"] == 0.0


# --- find ---


async def test_find_answers_the_row_or_none(place: Place) -> None:
    id = await place.job(payload={"b": [True, None, -0.5], "ж": "я"})
    record = await place.store.find(id)
    assert record is not None
    assert (record.id, record.payload) == (id, {"b": [True, None, -0.5], "ж": "я"})
    assert await place.store.find(uuid4()) is None
