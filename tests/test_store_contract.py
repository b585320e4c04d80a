"""One behaviour suite for every store: what the engine relies on holds in memory and on PostgreSQL alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from brooq import Job, PayloadError, State, StoreBusy, TxError
from brooq.engine.outcome import Outcome
from brooq.engine.store import Exchange, Fate, Hold, Store, Taken
from brooq.postgres import PostgresStore, open_pool
from brooq.testing import MemoryStore

LEASE = timedelta(seconds=60)
PAST = timedelta(seconds=-1)
"""A lease that is over before it begins: how a test makes one expire without waiting."""


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with open_pool(request.getfixturevalue("dsn"), max_size=12) as pool:
        postgres = PostgresStore(pool)
        await postgres.open()
        yield postgres
        await postgres.close()


async def put(store: Store, *jobs: Job) -> list[Job]:
    await store.enqueue(None, jobs)
    return list(jobs)


async def take(
    store: Store, limit: int = 10, worker: str = "w", topics: Sequence[str] = ("a",), lease: timedelta = LEASE
) -> list[Taken]:
    return (await store.exchange(worker, [], topics, limit, lease)).taken


async def settle(store: Store, worker: str, *outcomes: Outcome) -> list[Hold]:
    return (await store.exchange(worker, outcomes, [], 0, LEASE)).settled


async def state_of(store: Store, job: Job) -> State:
    record = await store.find(job.id)
    assert record is not None
    return record.state


def done(taken: Taken) -> Outcome:
    return Outcome(taken.id, taken.token, State.DONE)


# --- enqueue ---


async def test_enqueue_answers_the_id_and_that_it_made_the_row(store: Store) -> None:
    job = Job("a", {"n": 1}, tags=("x", "y"), metadata={"by": "me"}, priority=3, max_attempts=7)
    assert await store.enqueue(None, [job]) == [(job.id, True)]
    record = await store.find(job.id)
    assert record is not None
    assert (record.topic, record.payload, record.state, record.attempts, record.claim_seq) == (
        "a",
        {"n": 1},
        State.PENDING,
        0,
        0,
    )
    assert (record.tags, record.metadata, record.priority, record.max_attempts) == (("x", "y"), {"by": "me"}, 3, 7)
    assert (record.idempotency_key, record.locked_by, record.last_error, record.failures) == ("", None, None, ())


async def test_a_key_makes_one_job_per_topic_whatever_its_state(store: Store) -> None:
    first, second = Job("a", idempotency_key="k"), Job("a", idempotency_key="k")
    await put(store, first)
    assert await store.enqueue(None, [second]) == [(first.id, False)]
    (taken,) = await take(store)
    await settle(store, "w", done(taken))
    assert await store.enqueue(None, [second]) == [(first.id, False)]
    elsewhere = Job("b", idempotency_key="k")
    assert await store.enqueue(None, [elsewhere]) == [(elsewhere.id, True)]


async def test_no_key_is_no_key_and_a_blank_is_one(store: Store) -> None:
    plain = [Job("a"), Job("a"), Job("a", idempotency_key=" ")]
    assert [created for _, created in await store.enqueue(None, plain)] == [True, True, True]
    assert await store.enqueue(None, [Job("a", idempotency_key=" ")]) == [(plain[2].id, False)]


async def test_the_same_job_twice_is_one_row_and_counts_as_created(store: Store) -> None:
    """Repeating an enqueue whose answer was lost is safe: the id tells."""
    job = Job("a", idempotency_key="k")
    assert await store.enqueue(None, [job]) == await store.enqueue(None, [job]) == [(job.id, True)]
    assert len(await take(store)) == 1


async def test_a_list_is_answered_in_its_order_duplicates_included(store: Store) -> None:
    jobs = [Job("a", idempotency_key=key) for key in ("z", "a", "z", "m")] + [Job("a")]
    answers = await store.enqueue(None, jobs)
    made = [jobs[0].id, jobs[1].id, jobs[0].id, jobs[3].id, jobs[4].id]
    first_of_z = answers[0].id
    assert {answers[0].id, answers[2].id} == {first_of_z}
    assert first_of_z in (jobs[0].id, jobs[2].id)
    assert [answer.id for answer in answers[3:]] == made[3:]
    assert sorted(answer.created for answer in answers) == [False, True, True, True, True]


async def test_a_bad_payload_in_a_list_names_its_number_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(PayloadError, match="number 1"):
        await store.enqueue(None, [Job("a"), Job("a", {"x": "\0"}), Job("a")])
    assert await take(store) == []
    assert await store.enqueue(None, []) == []


async def test_a_transaction_makes_jobs_visible_at_its_commit(store: Store) -> None:
    tx = await store.begin()
    job = Job("a")
    assert await store.enqueue(tx, [job]) == [(job.id, True)]
    assert await take(store) == []
    await tx.commit()
    assert [taken.id for taken in await take(store)] == [job.id]


async def test_a_rollback_leaves_no_job_and_frees_its_key(store: Store) -> None:
    tx = await store.begin()
    job = Job("a", idempotency_key="k")
    await store.enqueue(tx, [job])
    await tx.rollback()
    assert await store.find(job.id) is None
    assert (await store.enqueue(None, [Job("a", idempotency_key="k")]))[0].created


async def test_a_transaction_that_has_ended_is_refused(store: Store) -> None:
    tx = await store.begin()
    await tx.commit()
    with pytest.raises(TxError):
        await store.enqueue(tx, [Job("a")])


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.fault(18)
async def test_a_rival_with_the_same_key_is_waited_for(store: Store, commit: bool) -> None:
    """Fault 18: never None, never two rows."""
    rival = await store.begin()
    theirs, ours = Job("a", idempotency_key="k"), Job("a", idempotency_key="k")
    await store.enqueue(rival, [theirs])
    waiting = asyncio.ensure_future(store.enqueue(None, [ours]))
    finished, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not finished, "it has to wait: nobody knows yet whose job exists"
    await (rival.commit() if commit else rival.rollback())
    assert await waiting == ([(theirs.id, False)] if commit else [(ours.id, True)])
    assert len(await take(store)) == 1


@pytest.mark.fault(18)
async def test_many_producers_of_one_key_make_one_job(store: Store) -> None:
    """Fault 18: one id, exactly one True."""
    answers = await asyncio.gather(*(store.enqueue(None, [Job("a", idempotency_key="k")]) for _ in range(50)))
    assert len({answer.id for (answer,) in answers}) == 1
    assert sum(answer.created for (answer,) in answers) == 1


# --- claim ---


async def test_a_claim_takes_by_priority_then_readiness_then_order_of_enqueueing(store: Store) -> None:
    now = datetime.now(UTC)
    late = Job("a", available_at=now - timedelta(seconds=10))
    early = Job("a", available_at=now - timedelta(seconds=20))
    ties = [Job("a", available_at=now - timedelta(seconds=15)) for _ in range(3)]
    urgent_last = Job("a", available_at=now - timedelta(seconds=1), priority=0)
    low = Job("a", available_at=now - timedelta(seconds=99), priority=9)
    await put(store, low, *reversed(ties), late, early, urgent_last)
    assert [taken.id for taken in await take(store)] == [job.id for job in (early, *ties, late, urgent_last, low)]


async def test_a_claim_spends_an_attempt_and_moves_the_fence(store: Store) -> None:
    (job,) = await put(store, Job("a", {"n": 1}))
    (taken,) = await take(store, worker="w1")
    assert (taken.id, taken.topic, taken.attempt, taken.token) == (job.id, "a", 1, 1)
    assert taken.waited >= 0
    record = await store.find(job.id)
    assert record is not None
    assert (record.state, record.locked_by, record.locked_until) == (State.PROCESSING, "w1", taken.until)
    assert await settle(store, "w1", Outcome(job.id, 1, State.PENDING, delay=0.0, refund=1)) == [Hold(job.id, 1)]
    (again,) = await take(store, worker="w2")
    assert (again.attempt, again.token) == (1, 2), "the attempt was given back, the fence never is"


async def test_a_claim_takes_no_more_than_asked_and_nothing_twice(store: Store) -> None:
    jobs = await put(store, *(Job("a") for _ in range(10)))
    first, second = await take(store, 4), await take(store, 4, worker="v")
    assert len(first) == len(second) == 4
    assert len(await take(store, 0)) == 0
    assert len(await take(store, 100)) == 2
    assert {taken.id for taken in (*first, *second)} < {job.id for job in jobs}


async def test_claims_side_by_side_share_the_jobs(store: Store) -> None:
    """G1: never held by two at one time."""
    await put(store, *(Job("a") for _ in range(200)))
    batches = await asyncio.gather(*(take(store, 7, worker=f"w{number}") for number in range(40)))
    ids = [taken.id for batch in batches for taken in batch]
    assert len(ids) == len(set(ids))
    assert all(len(batch) <= 7 for batch in batches)


async def test_the_future_is_left_alone(store: Store) -> None:
    await put(store, Job("a", available_at=datetime.now(UTC) + timedelta(hours=1)))
    assert await take(store) == []


@pytest.mark.fault(25)
async def test_foreign_topics_are_left_alone(store: Store) -> None:
    """Fault 25."""
    (foreign,) = await put(store, Job("b"))
    assert await take(store, topics=["a"]) == []
    assert await take(store, topics=[]) == []
    record = await store.find(foreign.id)
    assert record is not None
    assert (record.state, record.attempts) == (State.PENDING, 0)
    assert [taken.id for taken in await take(store, topics=["a", "b"])] == [foreign.id]


async def test_topics_are_served_in_the_order_given(store: Store) -> None:
    await put(store, *(Job(topic) for topic in "abcabc"))
    assert [taken.topic for taken in await take(store, 3, topics=["b", "a", "c"])].count("b") == 2
    assert {taken.topic for taken in await take(store, 1, topics=["c", "a"])} == {"c"}


# --- outcomes ---


@pytest.mark.parametrize("state", [State.DONE, State.DEAD, State.CANCELED])
async def test_a_terminal_outcome_is_final(store: Store, state: State) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    assert await settle(store, "w", Outcome(job.id, 1, state)) == [taken.hold]
    for other in State:
        assert await settle(store, "w", Outcome(job.id, 1, other)) == []
    assert await take(store) == []
    assert await store.reap(10) == []
    assert (await store.cancel(job.id)).canceled is False
    assert await state_of(store, job) is state


async def test_a_failure_waits_for_its_time_and_keeps_its_reason(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    await take(store)
    await settle(store, "w", Outcome(job.id, 1, State.FAILED, "ValueError: no", delay=3600.0))
    record = await store.find(job.id)
    assert record is not None
    assert (record.state, record.attempts, record.last_error, record.locked_by) == (
        State.FAILED,
        1,
        "ValueError: no",
        None,
    )
    assert record.available_at > datetime.now(UTC) + timedelta(minutes=59)
    assert await take(store) == []


async def test_past_failures_are_kept_on_the_row_the_last_ten(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    for number in range(1, 13):
        (taken,) = await take(store)
        await settle(store, "w", Outcome(job.id, taken.token, State.FAILED, f"E{number} " + "x" * 2000, delay=0.0))
    (taken,) = await take(store)
    await settle(store, "w", done(taken))
    record = await store.find(job.id)
    assert record is not None
    assert [failure.attempt for failure in record.failures] == list(range(3, 13))
    assert record.failures[-1].error.startswith("E12 ")
    assert len(record.failures[-1].error) == 500
    assert record.failures[-1].worker == "w"
    assert record.last_error is not None
    assert record.last_error.startswith("E12"), "success does not wipe the last reason"


async def test_an_attempt_given_back_never_goes_below_zero(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    await take(store)
    await settle(store, "w", Outcome(job.id, 1, State.FAILED, "later", delay=0.0, refund=5))
    record = await store.find(job.id)
    assert record is not None
    assert record.attempts == 0


@pytest.mark.parametrize(
    ("worker", "token"), [("other", 1), ("w", 0), ("w", 2)], ids=["another owner", "an older claim", "a later claim"]
)
async def test_an_outcome_of_another_claim_is_refused(store: Store, worker: str, token: int) -> None:
    (job,) = await put(store, Job("a"))
    await take(store)
    assert await settle(store, worker, Outcome(job.id, token, State.DONE)) == []
    assert await state_of(store, job) is State.PROCESSING


async def test_a_worker_that_takes_the_job_again_does_not_let_its_old_claim_through(store: Store) -> None:
    """G5, reliability D1: the owner is the same, the claim is not."""
    (job,) = await put(store, Job("a"))
    (old,) = await take(store, lease=PAST)
    await store.reap(10)
    (new,) = await take(store)
    assert (old.token, new.token) == (1, 2)
    renewer = await store.renewer()
    renewal = await renewer.renew("w", [old.hold, new.hold], LEASE)
    await renewer.close()
    assert (renewal.renewed, renewal.lost) == ([new.hold], [old.hold])
    assert await settle(store, "w", done(old)) == []
    assert await settle(store, "w", done(new)) == [new.hold]
    assert await state_of(store, job) is State.DONE


async def test_outcomes_and_the_next_claim_are_one_step(store: Store) -> None:
    first, second = await put(store, Job("a"), Job("a"))
    (taken,) = await take(store, 1)
    exchange = await store.exchange("w", [done(taken)], ["a"], 5, LEASE)
    assert isinstance(exchange, Exchange)
    assert exchange.settled == [taken.hold]
    assert [each.id for each in exchange.taken] == [second.id]
    assert await state_of(store, first) is State.DONE


async def test_a_job_handed_back_is_not_claimed_by_the_same_exchange(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    back = Outcome(job.id, taken.token, State.PENDING, delay=0.0, refund=1)
    assert (await store.exchange("w", [back], ["a"], 5, LEASE)).taken == []
    assert len(await take(store)) == 1


async def test_one_refused_outcome_does_not_cost_its_neighbours_theirs(store: Store) -> None:
    await put(store, *(Job("a") for _ in range(3)))
    taken = await take(store)
    await store.cancel(taken[1].id)
    assert set(await settle(store, "w", *map(done, taken))) == {taken[0].hold, taken[2].hold}


async def test_a_row_that_stays_locked_stops_the_exchange_with_nothing_done(store: Store) -> None:
    first, second = await put(store, Job("a"), Job("a"))
    taken = await take(store)
    tx = await store.begin()
    assert await store.settle(tx, "w", done(taken[0]))
    with pytest.raises(StoreBusy):
        await settle(store, "w", *map(done, taken))
    assert await state_of(store, second) is State.PROCESSING
    await tx.rollback()
    assert len(await settle(store, "w", *map(done, taken))) == 2
    assert await state_of(store, first) is State.DONE


# --- settle inside a transaction ---


async def test_settle_is_undone_by_a_rollback_and_visible_after_a_commit(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    tx = await store.begin()
    assert await store.settle(tx, "w", done(taken))
    assert await state_of(store, job) is State.PROCESSING
    await tx.rollback()
    tx = await store.begin()
    child = Job("a")
    assert await store.settle(tx, "w", done(taken))
    await store.enqueue(tx, [child])
    await tx.commit()
    assert await state_of(store, job) is State.DONE
    assert await state_of(store, child) is State.PENDING


async def test_settle_by_a_claim_that_is_over_is_refused(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    await store.cancel(job.id)
    tx = await store.begin()
    assert await store.settle(tx, "w", done(taken)) is False
    await tx.rollback()
    assert await state_of(store, job) is State.CANCELED


async def test_fates_tell_what_the_rows_say(store: Store) -> None:
    first, second = await put(store, Job("a"), Job("a"))
    taken = await take(store)
    await settle(store, "w", done(taken[0]))
    fates = await store.fates([first.id, second.id, uuid4()])
    assert fates == {first.id: Fate(State.DONE, 1, "w"), second.id: Fate(State.PROCESSING, 1, "w")}


# --- leases ---


async def test_a_renewal_moves_the_end_of_the_lease(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    renewer = await store.renewer()
    renewal = await renewer.renew("w", [taken.hold], LEASE * 2)
    record = await store.find(job.id)
    assert record is not None
    assert record.locked_until is not None
    assert record.locked_until > taken.until
    assert (renewal.renewed, renewal.lost) == ([taken.hold], [])
    await store.cancel(job.id)
    unknown = Hold(uuid4(), 1)
    renewal = await renewer.renew("w", [taken.hold, unknown], LEASE)
    assert (renewal.renewed, set(renewal.lost)) == ([], {taken.hold, unknown})
    await renewer.close()


async def test_a_locked_row_is_neither_renewed_nor_lost(store: Store) -> None:
    await put(store, Job("a"), Job("a"))
    taken = await take(store)
    tx = await store.begin()
    assert await store.settle(tx, "w", done(taken[0]))
    renewer = await store.renewer()
    renewal = await renewer.renew("w", [each.hold for each in taken], LEASE)
    assert (renewal.renewed, renewal.lost) == ([taken[1].hold], [])
    await tx.rollback()
    await renewer.close()


@pytest.mark.fault(1)
async def test_the_reaper_takes_expired_leases_and_nothing_else(store: Store) -> None:
    """Fault 1: terminal rows and fresh leases stay as they are."""
    finished, fresh, expired, waiting = await put(store, *(Job("a") for _ in range(4)))
    taken = {each.id: each for each in await take(store, 1, lease=PAST)}
    await settle(store, "w", done(taken[finished.id]))
    await take(store, 1)
    await take(store, 1, lease=PAST)
    assert [requeued.id for requeued in await store.reap(10)] == [expired.id]
    assert await store.reap(10) == []
    states = [await state_of(store, job) for job in (finished, fresh, expired, waiting)]
    assert states == [State.DONE, State.PROCESSING, State.PENDING, State.PENDING]
    record = await store.find(expired.id)
    assert record is not None
    assert (record.attempts, record.expired_leases, record.locked_by, record.last_error) == (1, 1, None, None)


async def test_a_settle_that_hangs_before_its_commit_does_not_stop_the_reaper(store: Store) -> None:
    """Reliability D3."""
    frozen, other = await put(store, Job("a"), Job("a"))
    taken = await take(store, lease=timedelta(seconds=0.05))
    tx = await store.begin()
    assert await store.settle(tx, "w", done(taken[0]))
    async with asyncio.timeout(10):
        while not (reaped := await store.reap(10)):  # noqa: ASYNC110  the store's clock is waited for
            await asyncio.sleep(0.01)
    assert [requeued.id for requeued in reaped] == [other.id]
    await tx.commit()
    assert await state_of(store, frozen) is State.DONE


async def test_the_reaper_keeps_to_its_limit(store: Store) -> None:
    await put(store, *(Job("a") for _ in range(5)))
    await take(store, lease=PAST)
    assert [len(await store.reap(2)) for _ in range(4)] == [2, 2, 1, 0]


# --- cancel ---


async def test_cancel_says_what_it_found(store: Store) -> None:
    waiting, running = await put(store, Job("a", available_at=datetime.now(UTC) + timedelta(hours=1)), Job("a"))
    (taken,) = await take(store)
    assert await store.cancel(waiting.id) == (True, State.PENDING, "a")
    assert await store.cancel(running.id) == (True, State.PROCESSING, "a")
    assert await store.cancel(running.id) == (False, State.CANCELED, "a")
    assert await store.cancel(uuid4()) == (False, None, None)
    assert await settle(store, "w", done(taken)) == []
    assert await state_of(store, running) is State.CANCELED


async def test_cancel_waits_for_a_settle_that_is_under_way(store: Store) -> None:
    (job,) = await put(store, Job("a"))
    (taken,) = await take(store)
    tx = await store.begin()
    await store.settle(tx, "w", done(taken))
    canceling = asyncio.ensure_future(store.cancel(job.id))
    finished, _ = await asyncio.wait([canceling], timeout=0.2)
    assert not finished
    await tx.commit()
    assert await canceling == (False, State.DONE, "a")


# --- retention ---


async def test_retention_deletes_the_oldest_terminal_jobs_in_batches(store: Store) -> None:
    jobs = await put(store, *(Job("a", idempotency_key=str(number)) for number in range(5)))
    for taken in await take(store, 4):
        await settle(store, "w", done(taken))
    await asyncio.sleep(0)  # ages are compared with the store's clock, which has moved on since
    assert await store.prune(timedelta(hours=1), 10) == []
    assert await store.prune(timedelta(0), 3) == ["a", "a", "a"]
    assert await store.find(jobs[0].id) is None
    assert await state_of(store, jobs[3]) is State.DONE
    assert await store.prune(timedelta(0), 3) == ["a"]
    assert await state_of(store, jobs[4]) is State.PENDING, "active states are never deleted"
    assert (await store.enqueue(None, [Job("a", idempotency_key="0")]))[0].created, "the key is free again"


# --- looking ---


async def test_the_census_counts_by_topic_and_state(store: Store) -> None:
    now = datetime.now(UTC)
    await put(
        store, Job("b", available_at=now - timedelta(seconds=100)), Job("a", available_at=now + timedelta(hours=1))
    )
    await put(store, *(Job("c") for _ in range(4)))
    taken = await take(store, 3, topics=["c"])
    outcomes = [
        Outcome(each.id, each.token, state) for each, state in zip(taken, (State.DONE, State.DEAD), strict=False)
    ]
    await settle(store, "w", *outcomes)
    census = await store.census(["a", "z"])
    counts = {(depth.topic, depth.state): depth.jobs for depth in census.depths if depth.jobs}
    assert counts == {
        ("a", State.PENDING): 1,
        ("b", State.PENDING): 1,
        ("c", State.PENDING): 1,
        ("c", State.PROCESSING): 1,
        ("c", State.DONE): 1,
        ("c", State.DEAD): 1,
    }
    assert census.oldest["b"] >= 100
    assert census.oldest["a"] == census.oldest["z"] == 0.0


async def test_find_knows_nothing_of_a_job_that_is_not_there(store: Store) -> None:
    assert await store.find(uuid4()) is None


@pytest.mark.fault(43)
async def test_attempts_at_the_end_of_their_range_can_still_be_claimed(dsn: str) -> None:
    """Fault 43: no 22003 at the claim."""
    async with open_pool(dsn) as pool:
        store = PostgresStore(pool)
        (job,) = await put(store, Job("a"))
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute("update job set attempts = 2147483647 where id = %s", [job.id])
        (taken,) = await take(store)
        assert taken.attempt == 2**31 - 1
        await store.close()


def test_contract_covers_every_verb() -> None:
    """A verb that is added to the port is added here."""
    source = Path(__file__).read_text(encoding="utf-8")
    verbs = [name for name in vars(Store) if not name.startswith("_")]
    missing = [verb for verb in verbs if f"store.{verb}(" not in source and f"postgres.{verb}(" not in source]
    assert not missing
