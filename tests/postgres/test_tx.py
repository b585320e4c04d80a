"""Transactions across the border, on the real driver (requirements T2, T3, T6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from brooq import Job, Queue, TxError
from brooq.postgres import PostgresStore, as_psycopg, open_pool, wrap_tx
from brooq.postgres.drivers.psycopg import PsycopgDriver
from brooq.postgres.pool import Pool
from brooq.testing import MemoryStore


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(dsn) as opened:
        async with opened.connection() as connection:
            await connection.execute("create table bill (id int primary key)")
        yield opened


async def counts(pool: Pool) -> tuple[Any, ...]:
    async with pool.connection() as connection:
        row = await (
            await connection.execute("select (select count(*) from bill), (select count(*) from job)")
        ).fetchone()
    assert row is not None
    return tuple(row)


async def test_a_connection_that_is_wrapped_and_unwrapped_is_the_same_object(pool: Pool) -> None:
    async with pool.connection() as connection:
        assert as_psycopg(wrap_tx(connection)) is connection
        async with connection.transaction() as transaction:
            assert as_psycopg(wrap_tx(transaction)) is connection


async def test_a_foreign_or_ended_transaction_unwraps_to_none(pool: Pool) -> None:
    assert as_psycopg(None) is None
    assert as_psycopg(await MemoryStore().begin()) is None
    queue = Queue(PostgresStore(pool))
    for end in ("commit", "rollback"):
        tx = await queue.begin()
        assert as_psycopg(tx) is not None
        await getattr(tx, end)()
        assert as_psycopg(tx) is None
        with pytest.raises(TxError):
            await queue.enqueue_tx(tx, Job("a"))


@pytest.mark.parametrize("other", [None, object(), "postgresql://", 7], ids=["None", "object", "str", "int"])
def test_nothing_but_a_transaction_of_the_driver_is_wrapped(other: object) -> None:
    with pytest.raises(TypeError, match=r"psycopg\.AsyncConnection"):
        wrap_tx(other)


def test_a_synchronous_connection_is_refused_in_words(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(TypeError, match=r"psycopg\.Connection"):
        wrap_tx(connection)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_of_the_consumer_carries_rows_and_jobs_together(pool: Pool, commit: bool) -> None:
    queue = Queue(PostgresStore(pool))
    async with pool.connection() as connection:
        await connection.execute("insert into bill values (1)")
        assert (await queue.enqueue_tx(wrap_tx(connection), Job("a"))).created
        await (connection.commit() if commit else connection.rollback())
    assert await counts(pool) == ((1, 1) if commit else (0, 0))


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_of_the_queue_carries_rows_and_jobs_together(pool: Pool, commit: bool) -> None:
    queue = Queue(PostgresStore(pool))
    tx = await queue.begin()
    connection = as_psycopg(tx)
    assert connection is not None
    await connection.execute("insert into bill values (1)")
    await queue.enqueue_tx(tx, Job("a"))
    await (tx.commit() if commit else tx.rollback())
    assert await counts(pool) == ((1, 1) if commit else (0, 0))


async def test_a_savepoint_that_is_rolled_back_takes_its_job_along(pool: Pool) -> None:
    queue = Queue(PostgresStore(pool))
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("insert into bill values (1)")
        async with connection.transaction(force_rollback=True) as inner:
            await queue.enqueue_tx(wrap_tx(inner), Job("a"))
    assert await counts(pool) == (1, 0)


async def test_autocommit_without_a_transaction_is_refused(pool: Pool, dsn: str) -> None:
    """The job would be committed on its own."""
    queue = Queue(PostgresStore(pool))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        with pytest.raises(TxError, match="autocommit"):
            await queue.enqueue_tx(wrap_tx(connection), Job("a"))
        async with connection.transaction():
            await queue.enqueue_tx(wrap_tx(connection), Job("a"))
    assert await counts(pool) == (0, 1)


async def test_a_connection_comes_back_to_the_pool_as_it_was_lent(pool: Pool) -> None:
    queue = Queue(PostgresStore(pool))
    await queue.enqueue(Job("a"))
    tx = await queue.begin()
    await tx.rollback()
    async with pool.connection() as connection:
        assert connection.autocommit is False
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def test_the_pool_outlives_the_queue(pool: Pool) -> None:
    async def handler(claim: object) -> None: ...

    queue = Queue(PostgresStore(pool))
    queue.register_kind("a", handler)
    async with queue:
        pass
    assert not pool.closed
    assert await counts(pool) == (0, 0)


async def test_a_borrower_that_gives_up_while_its_connection_is_asked_leaves_it_in_the_pool(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def silent(_: PsycopgDriver, __: object) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with open_pool(dsn, min_size=1, max_size=1, timeout=5) as pool:
        store = PostgresStore(pool)
        with monkeypatch.context() as patch:
            patch.setattr(PsycopgDriver, "_alive", silent)
            waiting = asyncio.ensure_future(store.begin())
            await asked.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
        tx = await store.begin()
        await tx.rollback()
