"""Periodic jobs on PostgreSQL: many workers at once, and one that dies in the middle of a tick."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import psycopg
from tests.postgres.observer import Observer, Opened

from brooq import BrooqError, Claim, Config, Queue, Schedule
from brooq.engine.scheduler import job_of

PAST = datetime(2026, 1, 1, tzinfo=UTC)


async def test_many_workers_make_one_job_of_each_tick(dsn: str, observer: Observer) -> None:
    """Every second, over both drivers; each of the workers declares the schedule at its start."""

    async def handler(claim: Claim) -> None:
        pass

    async with AsyncExitStack() as stack:
        for number in range(6):
            driver = "asyncpg" if number % 2 else "psycopg"
            store = await stack.enter_async_context(Opened(dsn, driver=driver))
            queue = Queue(store, Config(poll_interval=0.2))
            queue.cron("* * * * * *", "t", name="every-second")(handler)
            await stack.enter_async_context(queue)
        await observer.until(lambda: observer.value("select count(*) from job where state = 'done'") >= 4)
    ticks = [row[0] for row in observer.run("select available_at from job order by available_at")]
    assert ticks == [ticks[0] + timedelta(seconds=number) for number in range(len(ticks))]
    assert observer.value("select count(distinct idempotency_key) = count(*) from job") is True


async def test_the_tick_of_a_worker_that_dies_in_the_middle_of_it_is_run_by_another(
    dsn: str, observer: Observer
) -> None:
    async with Opened(dsn) as dying, Opened(dsn) as other:
        await other.schedule(Schedule("n", "* * * * *", "t"), PAST, "ann")
        (record,) = (await other.schedules(due=True)).schedules
        next_at = PAST + timedelta(minutes=1)
        async with await psycopg.AsyncConnection.connect(dsn) as holder:
            await holder.execute("select 1 from brooq_schedule for update")
            firing = asyncio.ensure_future(dying.fire(record, next_at, PAST, [job_of(record, PAST)]))
            waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            await observer.until(lambda: observer.run(waiting))
            observer.run("select pg_terminate_backend(pid) from pg_stat_activity"
                         " where datname = current_database() and wait_event_type = 'Lock'")  # fmt: skip
            with suppress(BrooqError):
                await firing
        assert observer.value("select count(*) from job") == 0
        assert await other.fire(record, next_at, PAST, [job_of(record, PAST)]) is True
    assert observer.run("select topic, state from job") == [("t", "pending")]
    assert observer.value("select next_at from brooq_schedule") == next_at


async def test_the_job_of_a_tick_wakes_a_worker_of_another_process(dsn: str, observer: Observer) -> None:
    started = asyncio.Event()

    async def handler(claim: Claim) -> None:
        started.set()

    async with Opened(dsn) as one, Opened(dsn) as two:
        queue = Queue(one, Config(poll_interval=3600))
        queue.register_kind("t", handler)
        await two.schedule(Schedule("n", "0 0 1 1 *", "t"), PAST, "ann")
        (record,) = (await two.schedules(due=True)).schedules
        future = datetime(2999, 1, 1, tzinfo=UTC)
        observer.run("update brooq_schedule set next_at = %s", future)  # its own scheduler has nothing to do
        async with queue, asyncio.timeout(30):
            (record,) = (await two.schedules()).schedules
            assert await two.fire(record, future, PAST, [job_of(record, PAST)]) is True
            await started.wait()
