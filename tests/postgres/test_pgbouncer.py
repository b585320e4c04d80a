"""Through PgBouncer in transaction mode, with two server connections for everybody (fault 32)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
from tests.pooler import Pooler
from tests.postgres.observer import Observer, Opened

from brooq import Claim, Config, Enqueued, Job, KindOptions, Queue
from brooq.postgres import as_psycopg, wrap_tx

JOBS = 1000


@pytest.fixture
def pooled_dsn(dsn: str, tmp_path: Path) -> Iterator[str]:
    """The database through PgBouncer: its default pool, whose two connections all clients share."""
    with Pooler(dsn, tmp_path) as pooler:
        yield pooler.dsn


@pytest.mark.fault(32)
async def test_two_workers_and_a_producer_share_two_server_connections(pooled_dsn: str, observer: Observer) -> None:
    """Fault 32: a thousand jobs, each run once, without prepared statements and without a trace in the sessions."""
    ran: Counter[int] = Counter()

    async def handler(claim: Claim) -> None:
        ran[claim.payload] += 1

    async def produce(queue: Queue) -> None:
        for number in range(0, JOBS, 20):
            await queue.enqueue_many([Job("t", n, f"k{n}") for n in range(number, number + 19)])
            # One at a time, often enough that a driver which prepares by itself would begin to.
            await queue.enqueue(Job("t", number + 19, f"k{number + 19}"))

    async with AsyncExitStack() as stack:
        queues = []
        for _ in range(3):
            store = await stack.enter_async_context(Opened(pooled_dsn, prepared=False, max_size=4))
            queues.append(
                Queue(store, Config(workers=20, poll_interval=0.1, lease=5, census_period=0.2, reaper_period=0.2))
            )
        producer, *workers = queues
        for queue in workers:
            queue.register_kind("t", handler)
            await stack.enter_async_context(queue)
        await produce(producer)
        await observer.until(lambda: observer.value("select count(*) from job where state <> 'done'") == 0, 60)
        assert await producer.enqueue(Job("t", 0, "k0")) == Enqueued(
            observer.value("select id from job where idempotency_key = 'k0'"), False
        )
    assert sum(ran.values()) == len(ran) == JOBS
    assert observer.value("select count(*) from job where state = 'done' and attempts = 1") == JOBS
    # What a session remembers now, all later clients of PgBouncer would inherit.
    async with await psycopg.AsyncConnection.connect(pooled_dsn, autocommit=True, prepare_threshold=None) as connection:
        for setting, default in (
            ("lock_timeout", "0"),
            ("enable_seqscan", "on"),
            ("statement_timeout", "0"),
            ("transaction_isolation", "read committed"),
        ):
            row = await (await connection.execute("select current_setting(%s)", [setting])).fetchone()
            assert row == (default,)
        row = await (await connection.execute("select count(*) from pg_prepared_statements")).fetchone()
        assert row == (0,)


@pytest.mark.fault(32)
async def test_transactions_of_queue_and_caller_pass_through(pooled_dsn: str, observer: Observer) -> None:
    """Fault 32: a transaction keeps its server connection, the caller's and the queue's alike."""
    async with Opened(pooled_dsn, prepared=False) as store:
        queue = Queue(store)
        for number in range(8):
            async with await psycopg.AsyncConnection.connect(pooled_dsn, prepare_threshold=None) as connection:
                assert (await queue.enqueue_tx(wrap_tx(connection), Job("t", number))).created
            tx = await queue.begin()
            own = as_psycopg(tx)
            assert own is not None
            await own.execute("select 1")
            assert (await queue.enqueue_tx(tx, Job("t", number))).created
            await tx.rollback()
        await asyncio.gather(*(queue.enqueue(Job("t", n, "k")) for n in range(20)))
    assert observer.value("select count(*) from job") == 9


@pytest.mark.fault(32)
async def test_pauses_limits_and_periodic_jobs_pass_through(pooled_dsn: str, observer: Observer) -> None:
    """Fault 32: nothing of them lives in a session; two workers keep to the limits exactly."""
    most: Counter[str] = Counter()
    running: Counter[str] = Counter()

    async def handler(claim: Claim) -> None:
        running["all"] += 1
        running[claim.payload] += 1
        for name in ("all", claim.payload):
            most[name] = max(most[name], running[name])
        await asyncio.sleep(0.005)
        running["all"] -= 1
        running[claim.payload] -= 1

    async with AsyncExitStack() as stack:
        queues = []
        for _ in range(2):
            store = await stack.enter_async_context(Opened(pooled_dsn, prepared=False, max_size=4))
            queue = Queue(store, Config(workers=10, poll_interval=0.1))
            options = KindOptions(max_running=6, max_running_per_key=2)
            queue.cron("* * * * * *", "t", payload="tick", options=options)(handler)
            await stack.enter_async_context(queue)
            queues.append(queue)
        await queues[0].pause("t")
        await queues[1].enqueue_many([Job("t", f"k{n % 5}", concurrency_key=f"k{n % 5}") for n in range(200)])
        await queues[1].resume("t")
        await observer.until(lambda: observer.value("select count(*) from job where state = 'done'") >= 201, 60)
    assert most["all"] <= 6
    assert max(most[f"k{number}"] for number in range(5)) <= 2
    assert observer.value("select count(*) from job where payload = '\"tick\"'") >= 1
