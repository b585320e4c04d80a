"""The engine on a real PostgreSQL in real time, with short leases: what virtual time cannot show."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from brooq import Claim, Config, Enqueued, Job, JobRecord, Queue, State, StoreUnavailable
from brooq.postgres import PostgresStore, migrate, open_pool
from brooq.postgres.local import LocalPostgres
from brooq.postgres.pool import Pool
from brooq.vocabulary.signal import LeaseLost

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {"lease": 3, "poll_interval": 0.2, "reaper_period": 1, "shutdown_grace": 1}
GENEROUS = 40.0
"""Seconds within which everything must have happened, even on a busy machine."""


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(dsn, max_size=4) as opened:
        yield opened


@contextmanager
def worker(dsn: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that is ready; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.worker_process", dsn, name], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def until(look: Callable[[], Awaitable[Any]], seconds: float = GENEROUS) -> Any:
    """Look until it answers something true."""
    deadline = time.monotonic() + seconds
    while not (found := await look()):
        assert time.monotonic() < deadline, "nothing happened"
        await asyncio.sleep(0.05)
    return found


async def until_state(queue: Queue, id: UUID, state: State) -> JobRecord:
    """Wait for a job to be in a state."""

    async def look() -> JobRecord | None:
        try:
            record = await queue.find(id)
        except StoreUnavailable:
            return None
        return record if record is not None and record.state is state else None

    found: JobRecord = await until(look)
    return found


@pytest.mark.fault(3)
async def test_a_killed_workers_job_comes_back_though_its_name_lives_on(dsn: str, pool: Pool) -> None:
    """Fault 3."""
    producer = Queue(PostgresStore(pool))
    id = (await producer.enqueue(Job("sleep", 60))).id
    with worker(dsn, "pod-1") as first:
        await until_state(producer, id, State.PROCESSING)
        first.kill()
        first.wait()
        orphan = await producer.find(id)
        assert orphan is not None
        with worker(dsn, "pod-1"):
            leases = set()

            async def again() -> bool:
                record = await producer.find(id)
                assert record is not None
                if record.claim_seq == 1 and record.state is State.PROCESSING:
                    leases.add((record.locked_by, record.locked_until))
                return record.claim_seq == 2

            await until(again)
            record = await producer.find(id)
    # On a slow day the lease is over before the new worker is up: then there is nothing to see.
    assert leases <= {(orphan.locked_by, orphan.locked_until)}
    assert record is not None
    assert record.locked_by != orphan.locked_by
    assert (record.attempts, record.expired_leases) == (2, 1)


@pytest.mark.fault(5)
async def test_a_handler_that_blocks_its_loop_costs_no_lease(dsn: str, pool: Pool) -> None:
    """Fault 5: blocked for three leases, with a well-behaved neighbour and another process waiting for the jobs."""
    producer = Queue(PostgresStore(pool))
    with ExitStack() as processes:
        processes.enter_context(worker(dsn, "one"))
        slow = await producer.enqueue(Job("sleep", 10))
        await until_state(producer, slow.id, State.PROCESSING)
        blocking = await producer.enqueue(Job("block", 10))
        await until_state(producer, blocking.id, State.PROCESSING)
        processes.enter_context(worker(dsn, "two"))
        for id in (slow.id, blocking.id):
            record = await until_state(producer, id, State.DONE)
            assert (record.claim_seq, record.attempts, record.expired_leases) == (1, 1, 0)


@pytest.mark.fault(7)
async def test_a_cut_of_every_connection_costs_no_lease(dsn: str, pool: Pool) -> None:
    """Fault 7."""
    runs = 0

    async def handler(_: Claim) -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(6)

    queue = Queue(PostgresStore(pool), Config(**SETTINGS))
    queue.register_kind("t", handler)
    async with queue:
        id = (await queue.enqueue(Job("t"))).id
        first = await until_state(queue, id, State.PROCESSING)

        async def renewed() -> bool:
            record = await queue.find(id)
            return record is not None and record.locked_until != first.locked_until

        await until(renewed)
        assert await terminate(dsn) >= 2
        record = await until_state(queue, id, State.DONE)
        assert (runs, record.claim_seq, record.expired_leases) == (1, 1, 0)


async def terminate(dsn: str) -> int:
    """Cut every connection of brooq to this database; answers how many."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, application_name="test") as connection:
        cursor = await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name = 'brooq'"
        )
        return len(await cursor.fetchall())


@pytest.mark.fault(7)
async def test_a_worker_that_cannot_renew_fences_itself(dsn: str, pool: Pool) -> None:
    """Fault 7: the table is locked for longer than the lease."""
    claims: list[Claim] = []
    told: list[float] = []

    async def handler(claim: Claim) -> None:
        claims.append(claim)
        if claim.token > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append(time.monotonic())
            raise

    queue = Queue(PostgresStore(pool), Config(**SETTINGS))
    queue.register_kind("t", handler)
    async with queue, await psycopg.AsyncConnection.connect(dsn, application_name="test") as blocker:
        id = (await queue.enqueue(Job("t"))).id

        async def started() -> bool:
            return bool(claims)

        await until(started)
        await blocker.execute("lock table job in access exclusive mode")
        locked = time.monotonic()

        async def fenced() -> bool:
            return bool(told)

        await until(fenced)
        assert isinstance(claims[0].interruption, LeaseLost)
        assert told[0] - locked < 3 + 2
        cursor = await blocker.execute("select state, claim_seq, last_error from job")
        assert await cursor.fetchone() == ("processing", 1, None)
        await blocker.rollback()
        record = await until_state(queue, id, State.DONE)
        assert (record.claim_seq, record.last_error) == (2, None)


@pytest.mark.fault(29)
async def test_a_restart_of_the_database_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    """Fault 29: an outage shorter than the lease costs no run, and the log stays short."""
    caplog.set_level(logging.INFO, "brooq")
    runs = 0

    async def handler(_: Claim) -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(2)

    with tempfile.TemporaryDirectory(prefix="brooq-", dir="/tmp") as folder:
        server = LocalPostgres(Path(folder) / "pg", settings={"fsync": False}).start()
        try:
            migrate.up(server.dsn)
            port = server.port
            async with open_pool(server.dsn, max_size=2) as pool:
                queue = Queue(PostgresStore(pool), Config(**(SETTINGS | {"lease": 30})))
                queue.register_kind("t", handler)
                async with queue:
                    first = (await queue.enqueue(Job("t"))).id
                    await until_state(queue, first, State.PROCESSING)
                    await asyncio.to_thread(server.stop)

                    async def noticed() -> bool:
                        return any(record.levelno == logging.WARNING for record in caplog.records)

                    await until(noticed)
                    await asyncio.to_thread(server.start)
                    assert server.port == port
                    record = await until_state(queue, first, State.DONE)
                    assert (runs, record.claim_seq) == (1, 1)
                    second = await until(lambda: enqueued(queue))
                    await until_state(queue, second.id, State.DONE)

                    async def well() -> bool:
                        return queue.health().well

                    await until(well)
        finally:
            server.stop()
    lines = [record for record in caplog.records if record.name == "brooq"]
    assert len(lines) < 60
    assert all(record.levelno < logging.ERROR for record in lines)


async def enqueued(queue: Queue) -> Enqueued | None:
    """A job, when the database takes it."""
    try:
        return await queue.enqueue(Job("t"))
    except StoreUnavailable:
        return None


@pytest.mark.fault(34)
async def test_handlers_may_hold_the_whole_pool(dsn: str) -> None:
    """Fault 34: for several leases; an enqueue inside fails with a named error, and no lease is lost."""
    refused: list[str] = []

    async def handler(_: Claim) -> None:
        async with pool.connection():
            holding.append(1)
            await until(all_hold)
            with pytest.raises(StoreUnavailable) as caught:
                await queue.enqueue(Job("other"))
            refused.append(str(caught.value))
            await asyncio.sleep(5)

    async def all_hold() -> bool:
        return len(holding) == 4

    async def all_done() -> bool:
        async with await psycopg.AsyncConnection.connect(dsn, application_name="test") as connection:
            cursor = await connection.execute("select count(*) from job where state = 'done' and claim_seq = 1")
            return await cursor.fetchone() == (4,)

    holding: list[int] = []
    async with open_pool(dsn, max_size=4, timeout=1.0) as pool:
        queue = Queue(PostgresStore(pool), Config(**(SETTINGS | {"workers": 4, "lease": 2})))
        queue.register_kind("t", handler)
        async with queue:
            await queue.enqueue_many([Job("t") for _ in range(4)])
            await until(all_done)
            assert queue.metrics.lease_lost["t"] == 0
    assert len(refused) == 4
    assert all("pool" in reason for reason in refused)


@pytest.mark.fault(40)
async def test_a_cancel_reaches_the_handler_at_the_next_renewal(dsn: str, pool: Pool) -> None:
    """I3: through the queue, and by the documented UPDATE."""
    told: dict[UUID, float] = {}

    async def handler(claim: Claim) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told[claim.id] = time.monotonic()
            raise

    queue = Queue(PostgresStore(pool), Config(**SETTINGS))
    queue.register_kind("t", handler)
    async with queue, await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        first, second = [each.id for each in await queue.enqueue_many([Job("t"), Job("t")])]
        for id in (first, second):
            await until_state(queue, id, State.PROCESSING)
        begun = time.monotonic()
        assert (await queue.cancel(first)).canceled
        await connection.execute("update job set state = 'canceled', updated_at = now() where id = %s", [second])

        async def both() -> bool:
            return len(told) == 2

        await until(both)
        assert max(told.values()) - begun < 1 + 1.5
        for id in (first, second):
            record = await queue.find(id)
            assert record is not None
            assert (record.state, record.last_error) == (State.CANCELED, None)
