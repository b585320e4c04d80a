"""The contract of the fence for consumers' transactions, of progress, of results and of what has ended."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.store_contract.place import LEASE, WORKER, Place

from brooq import Job, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_nobody_claims_a_job_while_a_transaction_relies_on_its_claim(place: Place) -> None:
    """Whatever becomes of the claim meanwhile: its lease may run out and be reaped, its outcome may be written."""
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.assert_held(tx, taken.hold)
    await place.expire(taken.id)
    assert [each.id for each in await place.store.reap(10)] == [taken.id]
    assert (await place.row(taken.id)).state is State.PENDING
    assert await place.claim(worker="another") == []
    await tx.commit()
    (again,) = await place.claim(worker="another")
    assert again.token == taken.token + 1
    assert again.expired_leases == 1


async def test_renewals_outcomes_and_cancels_go_past_a_fenced_transaction(place: Place) -> None:
    taken, other = await place.take(), await place.take()
    tx = await place.begin()
    assert await place.store.assert_held(tx, taken.hold)
    assert await place.store.assert_held(tx, other.hold)
    async with asyncio.timeout(5):
        assert (await place.renew(taken.hold)).renewed == [taken.hold]
        assert (await place.store.cancel(other.id)).canceled
        assert await place.write(Outcome(taken.id, taken.token, State.FAILED, "e", 0.0))
    assert await place.claim() == []
    await tx.rollback()
    assert [each.id for each in await place.claim()] == [taken.id]


@pytest.mark.parametrize("end", ["settled", "reaped", "claimed again", "canceled", "gone"])
async def test_a_transaction_of_a_claim_that_is_over_cannot_commit(place: Place, end: str) -> None:
    taken = await place.take()
    hold = taken.hold
    if end == "settled":
        await place.write(Outcome(taken.id, taken.token, State.DONE))
    elif end == "canceled":
        await place.store.cancel(taken.id)
    elif end == "gone":
        hold = Hold(uuid4(), 1)
    else:
        await place.expire(taken.id)
        await place.store.reap(10)
    if end == "claimed again":
        await place.claim(worker=WORKER)
    tx = await place.begin()
    (before,) = await place.store.enqueue(tx, [Job("zombie")])
    assert not await place.store.assert_held(tx, hold)
    await tx.commit()  # of an aborted transaction: that is a rollback
    assert await place.store.find(before.id) is None


async def test_progress_is_written_by_the_claim_that_holds_the_job_alone(place: Place) -> None:
    taken = await place.take()
    before = await place.row(taken.id)
    await place.store.progress(WORKER, {taken.hold: '{"done": 0.4, "note": "two of five"}'})
    after = await place.row(taken.id)
    assert after.progress is not None
    assert (after.progress.done, after.progress.note) == (0.4, "two of five")
    assert after.progress.at.tzinfo is not None
    assert (after.updated_at, after.locked_until, after.state) == (before.updated_at, before.locked_until, before.state)
    for worker, hold in (
        ("another", taken.hold),
        (WORKER, Hold(taken.id, taken.token + 1)),
        (WORKER, Hold(uuid4(), 1)),
    ):
        await place.store.progress(worker, {hold: '{"done": 1, "note": "stale"}'})
    await place.write(Outcome(taken.id, taken.token, State.DONE))
    await place.store.progress(WORKER, {taken.hold: '{"done": 1, "note": "late"}'})
    assert (await place.row(taken.id)).progress == after.progress


async def test_progress_waits_for_nobody(place: Place) -> None:
    taken, free = await place.take(), await place.take()
    async with place.ground.lock(taken.id), asyncio.timeout(5):
        await place.store.progress(WORKER, {each.hold: '{"done": 0.5}' for each in (taken, free)})
    assert (await place.row(taken.id)).progress is None
    assert (await place.row(free.id)).progress is not None


@pytest.mark.parametrize("by", ["exchange", "settle"])
async def test_a_result_travels_with_its_outcome(place: Place, by: str) -> None:
    write = place.write if by == "exchange" else place.settle
    taken, plain = await place.take(), await place.take()
    result = '{"big": 1267650600228229401496703205376, "list": [1.5, null, "ё"]}'
    assert await write(Outcome(taken.id, taken.token, State.DONE, result=result))
    assert (await place.row(taken.id)).result == {"big": 2**100, "list": [1.5, None, "ё"]}
    assert await write(Outcome(plain.id, plain.token, State.DONE))
    assert (await place.row(plain.id)).result is None


async def test_results_and_plain_outcomes_share_a_batch(place: Place) -> None:
    first, second = await place.take(), await place.take()
    outcomes = [
        Outcome(first.id, first.token, State.DONE),
        Outcome(second.id, second.token, State.DONE, result='"kept"'),
    ]
    assert len((await place.store.exchange(WORKER, outcomes, [], 0, LEASE)).settled) == 2
    assert [(await place.row(each.id)).result for each in (first, second)] == [None, "kept"]


async def test_what_has_ended_comes_whole_and_the_rest_is_told_of(place: Place) -> None:
    done, waiting = await place.terminal(payload={"a": 1}), await place.job()
    found = await place.store.ended([done, waiting, uuid4()])
    assert found == {done: await place.row(done), waiting: None}
    assert await place.store.ended([]) == {}
