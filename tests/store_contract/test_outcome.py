"""The contract of outcomes, by `exchange` and by `settle` alike: what is written, and who may write (C3 to C6, G4.3, G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.store_contract.place import LEASE, WORKER, Place, now

from brooq import Job, State, StoreBusy
from brooq.engine.outcome import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAITING = (State.PENDING, State.FAILED)
ENDED = (State.DONE, State.DEAD, State.CANCELED)
Write = Callable[..., Awaitable[bool]]


@pytest.fixture(params=["exchange", "settle"])
def write(place: Place, request: pytest.FixtureRequest) -> Write:
    """Both ways of writing one outcome."""
    return place.write if request.param == "exchange" else place.settle


@pytest.mark.parametrize("state", [*WAITING, *ENDED])
async def test_an_outcome_is_written_into_the_row(place: Place, write: Write, state: State) -> None:
    taken = await place.take()
    assert await write(Outcome(taken.id, taken.token, state, "reason" if state in (State.FAILED, State.DEAD) else None))
    row = await place.row(taken.id)
    assert (row.state, row.attempts, row.claim_seq) == (state, 1, 1)
    assert row.last_error == ("reason" if state in (State.FAILED, State.DEAD) else None)
    lease = (None, None) if state in WAITING else (WORKER, taken.until)
    assert (row.locked_by, row.locked_until) == lease


async def test_a_refund_gives_the_attempt_back_but_not_below_zero(place: Place, write: Write) -> None:
    taken = await place.take()
    await place.alter(taken.id, attempts=0)
    assert await write(Outcome(taken.id, taken.token, State.FAILED, "e", 0.0, refund=1))
    assert (await place.row(taken.id)).attempts == 0
    (again,) = await place.claim()
    assert await write(Outcome(again.id, again.token, State.FAILED, "e", 0.0, refund=1))
    assert (await place.row(taken.id)).attempts == 0


async def test_a_delay_counts_from_now_and_none_leaves_the_time(place: Place, write: Write) -> None:
    taken = await place.take()
    ready = (await place.row(taken.id)).available_at
    before = now()
    assert await write(Outcome(taken.id, taken.token, State.FAILED, "e", 90.5))
    row = await place.row(taken.id)
    assert timedelta(seconds=90.5) <= row.available_at - before < timedelta(seconds=100)
    assert await place.claim() == []
    await place.alter(taken.id, available_at=ready)
    (again,) = await place.claim()
    assert await write(Outcome(again.id, again.token, State.FAILED, "e"))
    assert (await place.row(taken.id)).available_at == ready


async def test_an_error_stays_until_another_one_comes(place: Place, write: Write) -> None:
    taken = await place.take()
    assert await write(Outcome(taken.id, taken.token, State.FAILED, "first", 0.0))
    (taken,) = await place.claim()
    assert await write(Outcome(taken.id, taken.token, State.DONE))
    assert (await place.row(taken.id)).last_error == "first"


async def test_the_last_ten_failures_are_kept_on_the_row(place: Place, write: Write) -> None:
    taken = await place.take()
    for number in range(1, 13):
        assert await write(Outcome(taken.id, taken.token, State.FAILED, f"{number} " + "x" * 600, 0.0))
        (taken,) = await place.claim()
    row = await place.row(taken.id)
    assert [failure.attempt for failure in row.failures] == list(range(3, 13))
    assert [failure.error.split()[0] for failure in row.failures] == [str(number) for number in range(3, 13)]
    assert {len(failure.error) for failure in row.failures} == {500}
    assert {failure.worker for failure in row.failures} == {WORKER}
    assert all(abs(failure.at - now()) < timedelta(minutes=1) for failure in row.failures)
    assert row.last_error == "12 " + "x" * 600


async def test_success_and_release_write_no_failure(place: Place, write: Write) -> None:
    for state in (State.DONE, State.CANCELED, State.PENDING):
        taken = await place.take()
        assert await write(Outcome(taken.id, taken.token, state))
        assert (await place.row(taken.id)).failures == ()
        await place.alter(taken.id, state=State.CANCELED)


@pytest.mark.parametrize("ended", ENDED)
@pytest.mark.parametrize("state", [*WAITING, *ENDED])
async def test_a_terminal_state_is_never_overwritten(place: Place, write: Write, ended: State, state: State) -> None:
    """Invariant G4.3, fault 40: not even by the claim that wrote it."""
    taken = await place.take()
    assert await place.write(Outcome(taken.id, taken.token, ended))
    before = await place.row(taken.id)
    assert not await write(Outcome(taken.id, taken.token, state, "late", 0.0, 1))
    assert await place.row(taken.id) == before


async def test_only_the_claim_that_holds_the_job_may_write(place: Place, write: Write) -> None:
    """Requirement G5: not another worker, not another claim, not a job that is not there."""
    taken = await place.take()
    before = await place.row(taken.id)
    assert not await write(Outcome(taken.id, taken.token, State.DONE), worker="another")
    for token in (taken.token - 1, taken.token + 1):
        assert not await write(Outcome(taken.id, token, State.DONE))
    assert not await write(Outcome(uuid4(), taken.token, State.DONE))
    assert await place.row(taken.id) == before
    assert await write(Outcome(taken.id, taken.token, State.DONE))


async def test_a_stale_claim_of_the_very_same_worker_is_refused(place: Place, write: Write) -> None:
    """The lease ran out, the same worker has the job again, the old handler reports."""
    old = await place.take()
    await place.expire(old.id)
    assert [each.id for each in await place.store.reap(10)] == [old.id]
    (new,) = await place.claim()
    assert (new.id, new.token) == (old.id, old.token + 1)
    before = await place.row(new.id)
    assert not await write(Outcome(old.id, old.token, State.DONE))
    assert await place.row(new.id) == before
    assert await write(Outcome(new.id, new.token, State.DONE))


async def test_a_stale_claim_after_a_refund_is_refused(place: Place, write: Write) -> None:
    """Both claims are attempt number 1."""
    old = await place.take()
    assert await place.write(Outcome(old.id, old.token, State.PENDING, delay=0.0, refund=1))
    assert not await write(Outcome(old.id, old.token, State.DONE))
    (new,) = await place.claim()
    assert new.attempt == old.attempt == 1
    assert not await write(Outcome(old.id, old.token, State.DONE))


async def test_an_outcome_without_a_lease_of_time_still_counts_while_nobody_took_the_job(
    place: Place, write: Write
) -> None:
    taken = await place.take()
    await place.expire(taken.id)
    assert await write(Outcome(taken.id, taken.token, State.DONE))
    assert await place.store.reap(10) == []


async def test_outcomes_of_one_batch_are_judged_one_by_one(place: Place) -> None:
    await place.enqueue(*(Job("t", n) for n in range(4)))
    good, stale, canceled, failed = await place.claim(4)
    await place.store.cancel(canceled.id)
    outcomes = [
        Outcome(good.id, good.token, State.DONE),
        Outcome(stale.id, stale.token + 1, State.DONE),
        Outcome(canceled.id, canceled.token, State.DONE),
        Outcome(failed.id, failed.token, State.FAILED, "e", 60.0),
    ]
    exchange = await place.store.exchange(WORKER, outcomes, [], 0, LEASE)
    assert sorted(exchange.settled) == sorted([good.hold, failed.hold])
    states = [(await place.row(each.id)).state for each in (good, stale, canceled, failed)]
    assert states == [State.DONE, State.PROCESSING, State.CANCELED, State.FAILED]


# --- transactions and locks ---


async def test_a_settle_is_undone_with_its_transaction(place: Place) -> None:
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    assert (await place.row(taken.id)).state is State.PROCESSING
    await tx.rollback()
    assert (await place.row(taken.id)).state is State.PROCESSING
    assert await place.write(Outcome(taken.id, taken.token, State.DONE))


async def test_a_settle_and_a_chained_job_are_seen_together(place: Place) -> None:
    """Requirement C9."""
    taken = await place.take()
    tx = await place.begin()
    (chained,) = await place.store.enqueue(tx, [Job("next")])
    assert await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    assert await place.store.find(chained.id) is None
    await tx.commit()
    assert (await place.row(taken.id)).state is State.DONE
    assert (await place.row(chained.id)).state is State.PENDING


async def test_a_second_settle_in_one_transaction_is_refused(place: Place) -> None:
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    assert not await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.FAILED, "e", 0.0))
    await tx.commit()
    assert (await place.row(taken.id)).state is State.DONE


async def test_a_settle_waits_for_the_row_and_judges_what_it_finds_then(place: Place) -> None:
    taken = await place.take()
    first = await place.begin()
    assert await place.store.settle(first, WORKER, Outcome(taken.id, taken.token, State.DONE))
    second = await place.begin()
    work = place.store.settle(second, WORKER, Outcome(taken.id, taken.token, State.FAILED, "e", 0.0))
    async with place.waiting(work) as answer:
        await first.commit()
        assert await answer is False
    await second.commit()
    assert (await place.row(taken.id)).state is State.DONE


async def test_an_exchange_gives_up_on_a_row_that_stays_locked_with_nothing_done(place: Place) -> None:
    await place.enqueue(Job("t", 0), Job("t", 1))
    locked, free = await place.claim(2)
    await place.job(payload=2)
    outcomes = [Outcome(free.id, free.token, State.DONE), Outcome(locked.id, locked.token, State.DONE)]
    async with place.ground.lock(locked.id), asyncio.timeout(10):
        with pytest.raises(StoreBusy):
            await place.store.exchange(WORKER, outcomes, ["t"], 10, LEASE)
        assert (await place.row(free.id)).state is State.PROCESSING
    exchange = await place.store.exchange(WORKER, outcomes, ["t"], 10, LEASE)
    assert sorted(exchange.settled) == sorted([free.hold, locked.hold])
    assert len(exchange.taken) == 1


async def test_an_exchange_waits_for_a_lock_that_is_soon_gone(place: Place) -> None:
    taken = await place.take()
    outcome = Outcome(taken.id, taken.token, State.DONE)
    async with place.ground.lock(taken.id):
        task = asyncio.ensure_future(place.write(outcome))
        await place.ground.blocked(task)
    assert await task
