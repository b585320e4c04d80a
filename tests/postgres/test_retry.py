"""Doing a finished job once more: a new job that names the old one, which stays as it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.postgres.observer import Observer, Opened
from tests.postgres.roles import place

from brooq import Job, State
from brooq.engine.outcome import Outcome
from brooq.postgres import PostgresStore
from brooq.postgres.operator import Operator
from brooq.vocabulary.error import StoreUnavailable
from brooq.vocabulary.job import JobRecord

LEASE = timedelta(seconds=30)
TRAIL = "select actor, action, job, topic, found, done, reason, made from brooq_operation order by id"
FULL = Job("t", {"a": 1.5}, "key", priority=3, max_attempts=7, tags=("x",), metadata={"trace": "1"})


async def ended(store: PostgresStore, job: Job, state: State = State.DEAD) -> JobRecord:
    """A job that has come to its end."""
    await store.enqueue(None, [job])
    exchange = await store.exchange("w", [], ["t"], 1, LEASE)
    (taken,) = exchange.taken
    await store.exchange("w", [Outcome(taken.id, taken.token, state, "boom")], [], 0, LEASE)
    return await row(store, job.id)


async def row(store: PostgresStore, id: UUID | None) -> JobRecord:
    assert id is not None
    record = await store.find(id)
    assert record is not None
    return record


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("state", [State.DEAD, State.DONE, State.CANCELED])
async def test_a_retry_is_a_new_job_linked_to_the_old_one_which_stays_as_it_is(
    driver: str, state: State, dsn: str, observer: Observer
) -> None:
    async with Opened(dsn, driver=driver) as store:
        old = await ended(store, FULL, state)
        operator = Operator(store, "ann")
        made, found, topic, standing = await operator.retry(old.id, "the mail server is back")
        assert (found, topic, standing) == (state, "t", None)
        assert await row(store, old.id) == old
        new = await row(store, made)
        assert new == replace(
            old, id=new.id, state=State.PENDING, attempts=0, claim_seq=0, idempotency_key="", locked_by=None,
            locked_until=None, last_error=None, failures=(), retry_of=old.id, available_at=new.available_at,
            created_at=new.created_at, updated_at=new.updated_at,
        )  # fmt: skip
        assert observer.run(TRAIL) == [
            ("ann", "retry", old.id, "t", str(state), True, "the mail server is back", new.id)
        ]
        await operator.close()


async def test_what_has_not_ended_is_not_retried_and_the_try_is_written_down(dsn: str, observer: Observer) -> None:
    async with Opened(dsn) as store:
        operator = Operator(store, "ann")
        waiting, held = Job("u"), Job("t")
        await store.enqueue(None, [waiting, held])
        await store.exchange("w", [], ["t"], 1, LEASE)
        assert await operator.retry(waiting.id) == (None, State.PENDING, "u", None)
        assert await operator.retry(held.id) == (None, State.PROCESSING, "t", None)
        assert await operator.retry(UUID(int=1)) == (None, None, None, None)
        assert observer.value("select count(*) from job") == 2
        assert [(each[2], each[5], each[7]) for each in observer.run(TRAIL)] == [
            (waiting.id, False, None), (held.id, False, None),
        ]  # fmt: skip
        await operator.close()


async def test_a_job_is_retried_once_at_a_time_however_many_ask(dsn: str, observer: Observer) -> None:
    async with Opened(dsn) as store:
        old = await ended(store, Job("t"))
        operators = [Operator(store, f"person {number}") for number in range(8)]
        answers = await asyncio.gather(*(operator.retry(old.id) for operator in operators))
        (made,) = [answer.id for answer in answers if answer.id is not None]
        assert {answer.standing for answer in answers if answer.id is None} == {made}
        assert observer.value("select count(*) from job where retry_of = %s", old.id) == 1
        assert observer.run("select done, count(*)::int from brooq_operation group by done order by done") == [
            (False, 7), (True, 1),
        ]  # fmt: skip
        # Once that one has ended too, either of the two can be done again.
        await store.cancel(made)
        again = await operators[0].retry(old.id)
        further = await operators[0].retry(made)
        assert again.id is not None
        assert further.id is not None
        assert (await row(store, further.id)).retry_of == made
        for operator in operators:
            await operator.close()


async def test_no_trail_no_retry(dsn: str, observer: Observer) -> None:
    async with Opened(dsn) as store:
        old = await ended(store, Job("t"))
        observer.run("alter table brooq_operation add constraint no check (reason <> 'no')")
        operator = Operator(store, "ann")
        with pytest.raises(Exception, match="violates check constraint"):
            await operator.retry(old.id, "no")
        assert observer.value("select count(*) from job") == 1
        assert (await operator.retry(old.id, "yes")).id is not None
        await operator.close()


async def test_an_idle_worker_hears_of_a_retry(dsn: str) -> None:
    async with Opened(dsn) as store:
        old = await ended(store, Job("t"))
        bell = store.bell(["t"])
        assert bell is not None
        await bell.hang_up(lambda _: None)
        operator = Operator(store, "ann")
        await operator.retry(old.id)
        assert await bell.wait(10) == 1
        await bell.close()
        await operator.close()


async def test_who_may_cancel_and_enqueue_may_retry(empty_dsn: str) -> None:
    with place(empty_dsn) as found:
        async with (
            Opened(found.login("work", "worker"), found.schema) as work,
            Opened(found.login("both", "worker", "producer"), found.schema) as both,
            Opened(found.login("app", "producer"), found.schema) as app,
        ):
            (job,) = await app.enqueue(None, [Job("t", 1)])
            assert (await work.cancel(job.id)).canceled
            for store in (work, app):
                operator = Operator(store, "eve")
                with pytest.raises(StoreUnavailable, match="permission denied"):
                    await operator.retry(job.id)
                await operator.close()
            operator = Operator(both, "ann")
            assert (await operator.retry(job.id)).id is not None
            await operator.close()
