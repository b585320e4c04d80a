"""The contract of `enqueue`: insert or get, in a transaction of its own or of the caller (requirements E1 to E7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.store_contract.place import HOUR, Place, now

from brooq import Enqueued, Job, PayloadError, State, TxError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_new_job_waits_with_everything_it_was_given(place: Place) -> None:
    later = now() + HOUR
    job = Job(
        "email.send", {"to": ["a", 1.5, None]}, "order-42", later, priority=3, max_attempts=7, tags=("x", "y"),
        metadata={"tenant": 5},
    )  # fmt: skip
    before = now() - timedelta(seconds=2)
    assert await place.store.enqueue(None, [job]) == [Enqueued(job.id, True)]
    row = await place.row(job.id)
    assert (row.topic, row.payload, row.idempotency_key) == ("email.send", {"to": ["a", 1.5, None]}, "order-42")
    assert (row.available_at, row.priority, row.max_attempts) == (later, 3, 7)
    assert (row.tags, row.metadata) == (("x", "y"), {"tenant": 5})
    assert (row.state, row.attempts, row.claim_seq, row.expired_leases) == (State.PENDING, 0, 0, 0)
    assert (row.locked_by, row.locked_until, row.last_error, row.failures) == (None, None, None, ())
    assert before < row.created_at < now() + timedelta(seconds=2)


async def test_a_job_without_a_time_is_ready_at_once(place: Place) -> None:
    id = await place.job()
    row = await place.row(id)
    assert (row.idempotency_key, row.tags, row.metadata, row.max_attempts) == ("", (), None, None)
    assert [taken.id for taken in await place.claim()] == [id]


async def test_no_jobs_make_no_rows(place: Place) -> None:
    assert await place.store.enqueue(None, []) == []
    assert await place.store.enqueue(None, iter([])) == []
    assert await place.ground.count() == 0


@pytest.mark.parametrize("in_tx", [False, True], ids=["alone", "in a transaction"])
async def test_jobs_may_be_made_one_by_one(place: Place, in_tx: bool) -> None:
    jobs = [Job("t", number, "k" if number in {3, 5} else "") for number in range(7)]
    tx = await place.store.begin() if in_tx else None
    answers = await place.store.enqueue(tx, (job for job in jobs))
    if tx is not None:
        await tx.commit()
    assert answers == [Enqueued(jobs[3].id, False) if job is jobs[5] else Enqueued(job.id, True) for job in jobs]
    assert await place.ground.count() == 6


@pytest.mark.parametrize("in_tx", [False, True], ids=["alone", "in a transaction"])
async def test_jobs_that_cannot_be_made_leave_none(place: Place, in_tx: bool) -> None:
    def made() -> Iterator[Job]:
        yield Job("t", idempotency_key="k")
        raise ZeroDivisionError

    tx = await place.store.begin() if in_tx else None
    with pytest.raises(ZeroDivisionError):
        await place.store.enqueue(tx, made())
    if tx is not None:
        await tx.commit()
    assert await place.ground.count() == 0


async def test_a_key_that_exists_answers_the_id_of_its_job(place: Place) -> None:
    first = await place.job(payload=1, idempotency_key="k")
    assert await place.store.enqueue(None, [Job("t", 2, "k")]) == [Enqueued(first, False)]
    assert (await place.row(first)).payload == 1
    assert await place.ground.count() == 1


@pytest.mark.parametrize("state", [State.DONE, State.DEAD, State.CANCELED])
async def test_a_key_is_not_freed_by_a_terminal_state(place: Place, state: State) -> None:
    id = await place.terminal(state, idempotency_key="k")
    assert await place.store.enqueue(None, [Job("t", None, "k")]) == [Enqueued(id, False)]
    assert (await place.row(id)).state is state


async def test_a_key_counts_within_its_topic(place: Place) -> None:
    one, two = await place.store.enqueue(None, [Job("a", None, "k"), Job("b", None, "k")])
    assert (one.created, two.created) == (True, True)
    assert one.id != two.id


@pytest.mark.fault(21)
async def test_the_empty_key_is_none_and_a_blank_is_one(place: Place) -> None:
    """Fault 21: "" is no key, " " is."""
    answers = await place.store.enqueue(None, [Job("t"), Job("t"), Job("t", None, " "), Job("t", None, " ")])
    assert [answer.created for answer in answers] == [True, True, True, False]
    assert answers[2].id == answers[3].id
    assert (await place.row(answers[2].id)).idempotency_key == " "
    assert await place.ground.count() == 3


@pytest.mark.parametrize("key", ["", "k"])
async def test_the_same_job_object_twice_is_one_row_and_counts_as_created(place: Place, key: str) -> None:
    job = Job("t", None, key)
    for _ in range(2):
        assert await place.store.enqueue(None, [job]) == [Enqueued(job.id, True)]
    assert await place.store.enqueue(None, [job, job]) == [Enqueued(job.id, True)] * 2
    assert await place.ground.count() == 1


async def test_answers_come_in_the_order_asked_whatever_the_order_of_writing(place: Place) -> None:
    jobs = [Job("z", 0, "b"), Job("a", 1, "z"), Job("z", 2, "a"), Job("a", 3), Job("z", 4, "b")]
    answers = await place.store.enqueue(None, jobs)
    assert [answer.id for answer in answers] == [*(job.id for job in jobs[:4]), jobs[0].id]
    assert [answer.created for answer in answers] == [True, True, True, True, False]
    for job in jobs[:4]:
        assert (await place.row(job.id)).payload == job.payload


async def test_a_refused_payload_names_its_job_and_leaves_nothing(place: Place) -> None:
    with pytest.raises(PayloadError, match="number 1 ") as caught:
        await place.store.enqueue(None, [Job("t"), Job("t", {"a": ["x\0y"]})])
    assert caught.value.place == "$.a[0]"
    assert await place.ground.count() == 0


# --- in a transaction ---


async def test_a_job_is_seen_once_its_transaction_commits(place: Place) -> None:
    tx = await place.begin()
    job = Job("t", None, "k")
    assert await place.store.enqueue(tx, [job]) == [Enqueued(job.id, True)]
    assert await place.store.find(job.id) is None
    assert await place.claim() == []
    await tx.commit()
    assert [taken.id for taken in await place.claim()] == [job.id]


async def test_a_transaction_rolled_back_leaves_no_job_and_no_key(place: Place) -> None:
    tx = await place.begin()
    await place.store.enqueue(tx, [Job("t", None, "k")])
    await tx.rollback()
    assert await place.ground.count() == 0
    again = Job("t", None, "k")
    assert await place.store.enqueue(None, [again]) == [Enqueued(again.id, True)]


@pytest.mark.fault(20)
async def test_a_duplicate_leaves_the_transaction_usable(place: Place) -> None:
    """Fault 20: the same key twice in one transaction, then more work, then the commit."""
    tx = await place.begin()
    first, second, third = Job("t", 1, "k"), Job("t", 2, "k"), Job("t", 3)
    answers = [(await place.store.enqueue(tx, [job]))[0] for job in (first, second, third)]
    await tx.commit()
    assert answers == [Enqueued(first.id, True), Enqueued(first.id, False), Enqueued(third.id, True)]
    assert await place.ground.count() == 2


async def test_a_transaction_that_has_ended_or_is_foreign_is_refused(place: Place) -> None:
    tx = await place.begin()
    await tx.commit()
    foreign: Any = object()
    for refused in (tx, foreign):
        with pytest.raises(TxError):
            await place.store.enqueue(refused, [Job("t")])
    assert await place.ground.count() == 0


# --- rivals ---


@pytest.mark.fault(18)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
async def test_the_key_of_a_rival_that_commits_is_found(place: Place, inside: bool) -> None:
    """Fault 18 (a): the second producer waits for the first, then answers the first one's id."""
    rival, job = await place.begin(), Job("t", None, "k")
    (first,) = await place.store.enqueue(rival, [Job("t", None, "k")])
    own = await place.begin() if inside else None
    async with place.waiting(place.store.enqueue(own, [job])) as answers:
        await rival.commit()
        assert await answers == [Enqueued(first.id, False)]
    if own is not None:
        await own.commit()
    assert await place.ground.count() == 1


@pytest.mark.fault(18)
async def test_the_key_of_a_rival_that_rolls_back_is_free(place: Place) -> None:
    """Fault 18 (b): the second producer waits for the first, then makes the row itself."""
    rival, job = await place.begin(), Job("t", None, "k")
    await place.store.enqueue(rival, [Job("t", None, "k")])
    async with place.waiting(place.store.enqueue(None, [job])) as answers:
        await rival.rollback()
        assert await answers == [Enqueued(job.id, True)]
    assert await place.ground.count() == 1


async def test_the_same_job_object_in_a_rivals_transaction_is_waited_for(place: Place) -> None:
    rival, job = await place.begin(), Job("t")
    await place.store.enqueue(rival, [job])
    async with place.waiting(place.store.enqueue(None, [job])) as answers:
        await rival.commit()
        assert await answers == [Enqueued(job.id, True)]
    assert await place.ground.count() == 1


@pytest.mark.fault(18)
async def test_fifty_producers_of_one_key_make_one_row(place: Place) -> None:
    """Fault 18: one id, exactly one True."""
    answers = await asyncio.gather(*(place.store.enqueue(None, [Job("t", number, "k")]) for number in range(50)))
    assert len({answer.id for (answer,) in answers}) == 1
    assert sum(answer.created for (answer,) in answers) == 1
    assert await place.ground.count() == 1


async def test_producers_of_several_keys_in_opposite_order_do_not_meet_crosswise(place: Place) -> None:
    keys = [f"k{number}" for number in range(20)]

    async def produce(order: list[str]) -> list[Enqueued]:
        return await place.store.enqueue(None, [Job("t", None, key) for key in order])

    answers = await asyncio.gather(*(produce(keys[:: 1 if number % 2 else -1]) for number in range(8)))
    assert sum(answer.created for each in answers for answer in each) == len(keys)
    assert await place.ground.count() == len(keys)
