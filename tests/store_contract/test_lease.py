"""The contract of leases: `renew`, `reap` and `fates` (requirements L1, L4, G5)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from tests.store_contract.place import LEASE, WORKER, Place, now

from brooq import Job, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Fate, Hold

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_renewal_moves_the_end_of_the_lease_and_nothing_else(place: Place) -> None:
    taken = await place.take()
    before = await place.row(taken.id)
    renewal = await place.renew(taken.hold)
    assert (renewal.renewed, renewal.lost) == ([taken.hold], [])
    after = await place.row(taken.id)
    assert after.locked_until is not None
    assert after.locked_until > taken.until
    assert timedelta(0) <= now() + LEASE - after.locked_until < timedelta(seconds=10)
    assert (after.state, after.locked_by, after.claim_seq, after.attempts, after.updated_at) == (
        before.state, before.locked_by, before.claim_seq, before.attempts, before.updated_at,
    )  # fmt: skip


async def test_renewals_with_one_lease_never_move_its_end_back(place: Place) -> None:
    taken, ends = await place.take(), []
    for _ in range(5):
        await place.renew(taken.hold)
        ends.append((await place.row(taken.id)).locked_until)
    assert ends == sorted(ends)  # type: ignore[type-var]


async def test_a_renewal_that_comes_late_does_not_move_its_end_back(place: Place) -> None:
    """It began before another one, and is written after it: as one for a shorter lease."""
    taken = await place.take()
    await place.renew(taken.hold)
    until = (await place.row(taken.id)).locked_until
    assert (await place.renew(taken.hold, lease=LEASE / 2)).renewed == [taken.hold]
    assert (await place.row(taken.id)).locked_until == until


async def test_no_holds_renew_nothing(place: Place) -> None:
    assert await place.renew() == ([], [])


async def test_what_is_no_longer_held_is_lost(place: Place) -> None:
    await place.enqueue(*(Job("t", n) for n in range(6)))
    mine, done, canceled, failed, reaped, again = await place.claim(6)
    await place.write(Outcome(done.id, done.token, State.DONE))
    await place.store.cancel(canceled.id)
    await place.write(Outcome(failed.id, failed.token, State.FAILED, "e", 60.0))
    await place.write(Outcome(again.id, again.token, State.PENDING, delay=0.0))
    (retaken,) = await place.claim()
    await place.expire(reaped.id)
    await place.store.reap(10)
    assert retaken.id == again.id
    holds = [each.hold for each in (mine, done, canceled, failed, reaped, again)] + [Hold(uuid4(), 1)]
    before = await place.row(again.id)
    renewal = await place.renew(*holds)
    assert renewal.renewed == [mine.hold]
    assert sorted(renewal.lost) == sorted(holds[1:])
    assert await place.row(again.id) == before, "the new claim of the same worker is not renewed by the old one (D1)"
    assert await place.renew(mine.hold, worker="another") == ([], [mine.hold])


async def test_two_claims_of_one_job_by_one_worker_are_told_apart(place: Place) -> None:
    old = await place.take()
    await place.expire(old.id)
    await place.store.reap(1)
    (new,) = await place.claim()
    assert await place.renew(old.hold, new.hold) == ([new.hold], [old.hold])


async def test_an_expired_lease_that_nobody_took_can_still_be_renewed(place: Place) -> None:
    taken = await place.take()
    await place.expire(taken.id)
    assert (await place.renew(taken.hold)).renewed == [taken.hold]
    assert await place.store.reap(10) == []


async def test_a_locked_row_is_neither_renewed_nor_lost(place: Place) -> None:
    await place.enqueue(Job("t", 0), Job("t", 1))
    locked, free = await place.claim(2)
    async with place.ground.lock(locked.id), asyncio.timeout(10):
        assert await place.renew(locked.hold, free.hold) == ([free.hold], [])
    assert sorted((await place.renew(locked.hold, free.hold)).renewed) == sorted([locked.hold, free.hold])


async def test_a_row_that_is_being_settled_is_told_apart_by_its_fate(place: Place) -> None:
    taken = await place.take()
    tx = await place.begin()
    await place.store.settle(tx, WORKER, Outcome(taken.id, taken.token, State.DONE))
    assert await place.renew(taken.hold) == ([], [])
    assert await place.store.fates([taken.id]) == {taken.id: Fate(State.PROCESSING, taken.token, WORKER)}
    await tx.commit()
    assert await place.renew(taken.hold) == ([], [taken.hold])
    assert await place.store.fates([taken.id]) == {taken.id: Fate(State.DONE, taken.token, WORKER)}


async def test_fates_leave_out_what_has_no_row(place: Place) -> None:
    waiting, gone = await place.job(), uuid4()
    assert await place.store.fates([waiting, gone]) == {waiting: Fate(State.PENDING, 0, None)}
    assert await place.store.fates([]) == {}


# --- reap ---


async def test_an_expired_lease_goes_back_into_circulation(place: Place) -> None:
    taken = await place.take(available_at=now() - timedelta(hours=1))
    await place.expire(taken.id)
    before = now()
    (requeued,) = await place.store.reap(10)
    assert requeued == (taken.id, "t")
    row = await place.row(taken.id)
    assert (row.state, row.locked_by, row.locked_until) == (State.PENDING, None, None)
    assert (row.attempts, row.claim_seq, row.expired_leases) == (1, 1, 1), "an expired lease is no failure (G4.7)"
    assert (row.last_error, row.failures) == (None, ())
    assert row.available_at >= before - timedelta(seconds=1)
    (again,) = await place.claim()
    assert (again.attempt, again.token) == (2, 2)


@pytest.mark.fault(1)
@pytest.mark.parametrize("state", [State.DONE, State.DEAD, State.CANCELED])
async def test_a_terminal_row_with_an_expired_lease_is_not_touched(place: Place, state: State) -> None:
    """Fault 1."""
    id = await place.terminal(state)
    await place.expire(id)
    before = await place.row(id)
    assert await place.store.reap(10) == []
    assert await place.row(id) == before


@pytest.mark.fault(1)
async def test_a_fresh_lease_is_not_touched(place: Place) -> None:
    """Fault 1: neither a lease that was never over, nor one that was renewed or taken anew since."""
    taken = await place.take()
    await place.expire(taken.id)
    await place.renew(taken.hold)
    before = await place.row(taken.id)
    assert await place.store.reap(10) == []
    await place.expire(taken.id)
    assert len(await place.store.reap(10)) == 1
    (again,) = await place.claim()
    before = await place.row(again.id)
    assert await place.store.reap(10) == []
    assert await place.row(again.id) == before


async def test_no_more_are_reaped_than_asked(place: Place) -> None:
    await place.enqueue(*(Job("t", n) for n in range(5)))
    for taken in await place.claim(5):
        await place.expire(taken.id)
    assert [len(await place.store.reap(2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_settle_that_hangs_does_not_keep_the_jobs_of_others(place: Place) -> None:
    """A worker frozen between its settle and its commit."""
    await place.enqueue(Job("t", 0), Job("t", 1))
    frozen, other = await place.claim(2)
    await place.expire(frozen.id)
    await place.expire(other.id)
    tx = await place.begin()
    assert await place.store.settle(tx, WORKER, Outcome(frozen.id, frozen.token, State.DONE))
    async with asyncio.timeout(10):
        assert [each.id for each in await place.store.reap(10)] == [other.id]
    await tx.commit()
    assert await place.store.reap(10) == []
    assert (await place.row(frozen.id)).state is State.DONE


async def test_an_expired_row_that_is_locked_is_skipped(place: Place) -> None:
    await place.enqueue(Job("t", 0), Job("t", 1))
    locked, free = await place.claim(2)
    await place.expire(locked.id)
    await place.expire(free.id)
    async with place.ground.lock(locked.id), asyncio.timeout(10):
        assert [each.id for each in await place.store.reap(10)] == [free.id]
    assert [each.id for each in await place.store.reap(10)] == [locked.id]


async def test_many_reapers_at_once_requeue_each_job_once(place: Place) -> None:
    jobs = await place.enqueue(*(Job("t", n) for n in range(40)))
    for taken in await place.claim(40):
        await place.expire(taken.id)
    reaped = [each.id for batch in await asyncio.gather(*(place.store.reap(10) for _ in range(8))) for each in batch]
    while batch := await place.store.reap(10):
        reaped += [each.id for each in batch]
    assert sorted(reaped) == sorted(jobs)
    assert {(await place.row(id)).expired_leases for id in jobs} == {1}


async def test_the_census_counts_held_jobs_that_lose_lease_after_lease(place: Place) -> None:
    """I7: what kills its workers leaves no error, and is held for most of its time."""
    suspect, other = await place.take(), await place.take()
    await place.alter(suspect.id, expired_leases=3)
    await place.alter(other.id, expired_leases=2)
    waiting = await place.job()
    await place.alter(waiting, expired_leases=9)
    assert (await place.store.census(["t", "u"])).suspects == {"t": 1, "u": 0}
