"""Wake-ups on a real server: heard at the commit, over either driver, and only when somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import psycopg
import pytest
import pytest_asyncio

from brooq import Config, Job, Queue, StoreUnavailable
from brooq.postgres import PostgresStore, open_pool, wrap_tx
from brooq.postgres.bell import PostgresBell
from brooq.postgres.operator import Operator

Driver = Literal["psycopg", "asyncpg"]
SOON = 10.0
"""Seconds that a ring may take on a busy machine."""

RUNG: list[str] = []
"""The topics that the bell of the fixture has rung for."""


@pytest.fixture(params=["psycopg", "asyncpg"])
def driver(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest_asyncio.fixture
async def store(dsn: str, driver: Driver) -> AsyncIterator[PostgresStore]:
    async with open_pool(dsn, driver=driver) as pool:
        yield PostgresStore(pool)


@pytest_asyncio.fixture
async def bell(store: PostgresStore) -> AsyncIterator[PostgresBell]:
    made = store.bell(["t", "u"])
    assert isinstance(made, PostgresBell)
    RUNG.clear()
    await made.hang_up(RUNG.append)
    yield made
    await made.close()


async def test_an_enqueue_rings(store: PostgresStore, bell: PostgresBell) -> None:
    assert await bell.wait(0) == 0
    await store.enqueue(None, [Job("t")])
    assert await bell.wait(SOON) == 1
    await store.enqueue(None, [Job("t"), Job("t"), Job("u")])
    rung = await bell.wait(SOON)
    while rung < 2:
        rung += await bell.wait(SOON)
    assert (rung, sorted(RUNG)) == (2, ["t", "t", "u"]), "once a topic"


async def test_what_nobody_here_can_start_does_not_ring(store: PostgresStore, bell: PostgresBell) -> None:
    await store.enqueue(None, [Job("t", idempotency_key="k")])
    assert await bell.wait(SOON) == 1
    await store.enqueue(None, [Job("foreign")])
    await store.enqueue(None, [Job("t", available_at=datetime.now(UTC) + timedelta(hours=1))])
    await store.enqueue(None, [Job("t", idempotency_key="k")])
    assert await bell.wait(0.2) == 0


async def test_it_rings_at_the_commit(store: PostgresStore, bell: PostgresBell, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await PostgresStore(store.pool).enqueue(wrap_tx(connection), [Job("t")])
        assert await bell.wait(0.2) == 0
        await connection.commit()
    assert await bell.wait(SOON) == 1


async def test_a_bell_that_was_taken_down_is_not_rung(store: PostgresStore, bell: PostgresBell) -> None:
    await bell.take_down()
    await store.enqueue(None, [Job("t")])
    assert await bell.wait(0.2) == 0
    await bell.hang_up(RUNG.append)
    await store.enqueue(None, [Job("t")])
    assert await bell.wait(SOON) == 1


async def test_several_workers_are_all_told(store: PostgresStore, bell: PostgresBell) -> None:
    other, others = store.bell(["t"]), list[str]()
    assert other is not None
    await other.hang_up(others.append)
    await store.enqueue(None, [Job("t")])
    assert [await bell.wait(SOON), await other.wait(SOON)] == [1, 1]
    assert (RUNG, others) == (["t"], ["t"])
    await bell.take_down()
    await store.enqueue(None, [Job("t")])
    assert await other.wait(SOON) == 1
    await other.close()


async def test_a_lost_connection_is_said(store: PostgresStore, bell: PostgresBell, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
                      " and datname = current_database() and query like '%advisory_lock_shared%'")  # fmt: skip
    with pytest.raises(StoreUnavailable):
        await bell.wait(SOON)
    await bell.hang_up(RUNG.append)
    await store.enqueue(None, [Job("t")])
    assert await bell.wait(SOON) == 1


async def test_nothing_is_locked_when_nobody_waits(store: PostgresStore, dsn: str) -> None:
    await store.enqueue(None, [Job("t")])
    with psycopg.connect(dsn) as admin:
        assert admin.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)


async def test_without_wake_ups_there_is_no_bell_and_nobody_rings(dsn: str, bell: PostgresBell) -> None:
    async with open_pool(dsn) as pool:
        silent = PostgresStore(pool, wakeups=False)
        assert silent.bell(["t"]) is None
        await silent.enqueue(None, [Job("t")])
    assert await bell.wait(0.2) == 0


async def test_where_statements_are_not_prepared_there_is_no_bell(dsn: str, driver: Driver) -> None:
    async with open_pool(dsn, driver=driver, prepared=False) as pool:
        assert PostgresStore(pool).bell(["t"]) is None


async def test_a_cancel_of_a_running_job_is_heard_and_no_other(store: PostgresStore, bell: PostgresBell) -> None:
    held, waiting = await store.enqueue(None, [Job("t"), Job("foreign")])
    (taken,) = (await store.exchange("w", [], ["t"], 1, timedelta(hours=1))).taken
    await bell.wait(0)
    await store.cancel(waiting.id)
    assert (await bell.wait(0.2), bell.canceled()) == (0, [])
    await bell.take_down()
    await store.cancel(held.id)
    await bell.wait(SOON)
    assert bell.canceled() == [held.id] == [taken.id]
    assert bell.canceled() == []
    operator = Operator(store, "ann")
    (other,) = await store.enqueue(None, [Job("t")])
    await store.exchange("w", [], ["t"], 1, timedelta(hours=1))
    await operator.cancel(other.id)
    await bell.wait(SOON)
    assert bell.canceled() == [other.id]
    await operator.close()
    await store.close()


async def test_what_anybody_notifies_does_no_harm(store: PostgresStore, bell: PostgresBell, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for payload in (
            '"public". no id',
            '"public". ',
            "",
            '"public".',
            '"other". 018f0000-0000-7000-8000-000000000000',
        ):
            await connection.execute("select pg_notify('brooq_wakeups', %s)", [payload])
    await store.enqueue(None, [Job("t")])
    rung = 0
    while not rung:
        rung = await bell.wait(SOON)
    assert bell.canceled() == []


async def observed_listening(pool: Any) -> bool:
    """Whether somebody holds the lock of those who wait: whoever does, listens already."""
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select exists (select from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted"
            " and database = (select oid from pg_database where datname = current_database()))"
        )
        return bool((await cursor.fetchone())[0])


@pytest.mark.parametrize("wakeups", [True, False])
async def test_a_cancel_by_another_process_reaches_the_handler(dsn: str, driver: Driver, wakeups: bool) -> None:
    """With wake-ups long before the next renewal, which is a minute away; without them at the next renewal."""
    lease = 180 if wakeups else 1.5
    async with open_pool(dsn, driver=driver) as pool, open_pool(dsn) as other:
        queue = Queue(PostgresStore(pool, wakeups=wakeups), Config(poll_interval=0.05, lease=lease))
        stranger = Queue(PostgresStore(other, wakeups=wakeups))
        started, ended = asyncio.Event(), asyncio.Event()

        @queue.kind("t", attempt_timeout=300, max_execution_timeout=300)
        async def handler(claim: Any) -> None:
            started.set()
            try:
                await asyncio.sleep(300)
            finally:
                ended.set()

        async with queue, asyncio.timeout(30):
            answer = await stranger.enqueue(Job("t"))
            await started.wait()
            while wakeups and not await observed_listening(other):  # noqa: ASYNC110  there is no event in the server
                # Whoever does not listen yet, hears of it by its next renewal.
                await asyncio.sleep(0.01)
            assert (await stranger.cancel(answer.id)).canceled
            await ended.wait()


async def test_a_job_of_another_process_starts_without_waiting_for_the_poll(dsn: str, driver: Driver) -> None:
    async with open_pool(dsn, driver=driver) as pool, open_pool(dsn) as other:
        queue, producer = Queue(PostgresStore(pool), Config(poll_interval=3600)), Queue(PostgresStore(other))
        started = asyncio.Event()

        @queue.kind("t")
        async def handler(claim: Any) -> None:
            started.set()

        async with queue, asyncio.timeout(60):
            for _ in range(5):
                started.clear()
                await producer.enqueue(Job("t"))
                await started.wait()
