"""asyncpg: the consumer's transaction, the pool, and what only that driver has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from brooq import Claim, Config, Job, PayloadError, Queue, State, StoreUnavailable, TxError
from brooq.postgres import PostgresStore, as_asyncpg, as_psycopg, open_pool, wrap_tx

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


@pytest_asyncio.fixture
async def pool(dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(dsn, driver="asyncpg") as opened:
        yield opened


@pytest.fixture
def queue(pool: Pool) -> Queue:
    return Queue(PostgresStore(pool))


async def count(pool: Pool) -> int:
    return int(await pool.fetchval("select count(*) from job"))


async def test_commit_makes_the_job_visible(pool: Pool, queue: Queue) -> None:
    async with pool.acquire() as connection, connection.transaction():
        assert (await queue.enqueue_tx(wrap_tx(connection), Job("t", {"n": 1}))).created
        assert await count(pool) == 0
    assert await count(pool) == 1


async def test_rollback_leaves_no_job(pool: Pool, queue: Queue) -> None:
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await queue.enqueue_tx(wrap_tx(connection), Job("t"))
        await transaction.rollback()
    assert await count(pool) == 0


async def test_a_savepoint_takes_back_only_its_own(pool: Pool, queue: Queue) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await queue.enqueue_tx(wrap_tx(connection), Job("t", "kept"))
        savepoint = connection.transaction()
        await savepoint.start()
        await queue.enqueue_tx(wrap_tx(connection), Job("t", "gone"))
        await savepoint.rollback()
    assert [row[0] for row in await pool.fetch("select payload from job")] == ['"kept"']


async def test_a_key_that_exists_and_a_bad_payload_leave_the_transaction_usable(pool: Pool, queue: Queue) -> None:
    first = await queue.enqueue(Job("t", idempotency_key="k"))
    async with pool.acquire() as connection, connection.transaction():
        tx = wrap_tx(connection)
        assert await queue.enqueue_tx(tx, Job("t", idempotency_key="k")) == (first.id, False)
        with pytest.raises(PayloadError):
            await queue.enqueue_tx(tx, Job("t", object()))
        await queue.enqueue_tx(tx, Job("t", "after"))
    assert await count(pool) == 2


async def test_a_connection_outside_of_a_transaction_is_refused(pool: Pool, queue: Queue) -> None:
    async with pool.acquire() as connection:
        with pytest.raises(TxError):
            await queue.enqueue_tx(wrap_tx(connection), Job("t"))


async def test_a_pooled_and_a_plain_connection_are_both_wrapped(pool: Pool, queue: Queue, dsn: str) -> None:
    plain = await asyncpg.connect(dsn)
    async with plain.transaction():
        await queue.enqueue_tx(wrap_tx(plain), Job("t"))
    await plain.close()
    assert await count(pool) == 1


async def test_the_queues_own_transaction_is_one_of_asyncpg(pool: Pool, queue: Queue) -> None:
    tx = await queue.begin()
    connection = as_asyncpg(tx)
    assert connection is not None
    assert as_psycopg(tx) is None
    await connection.execute("create table note (text text)")
    await queue.enqueue_tx(tx, Job("t"))
    await tx.rollback()
    assert as_asyncpg(tx) is None
    assert await count(pool) == 0
    assert await pool.fetchval("select to_regclass('note')") is None


async def test_effects_share_the_closing_transaction(pool: Pool, queue: Queue) -> None:
    await pool.execute("create table effect (id uuid)")

    @queue.kind("t")
    async def handle(claim: Claim) -> None:
        @claim.on_succeeded
        async def effect(tx: Any) -> None:
            connection = as_asyncpg(tx)
            assert connection is not None
            await connection.execute("insert into effect values ($1)", claim.id)

        claim.chain(Job("child"))

    async with queue:
        id, _ = await queue.enqueue(Job("t"))
        while (record := await queue.find(id)) is None or record.state is not State.DONE:
            pass
    assert [row[0] for row in await pool.fetch("select id from effect")] == [id]
    assert await pool.fetchval("select count(*) from job where topic = 'child'") == 1


async def test_handlers_may_hold_the_whole_pool(dsn: str) -> None:
    async with open_pool(dsn, driver="asyncpg", max_size=1) as small:
        queue = Queue(PostgresStore(small), Config(workers=3))

        @queue.kind("t")
        async def handle(claim: Claim) -> None:
            await small.fetchval("select pg_sleep(0.05)")

        await queue.enqueue_many([Job("t") for _ in range(9)])
        async with queue:
            while await small.fetchval("select count(*) from job where state <> 'done'"):
                pass


@pytest.mark.parametrize("form", ["url", "pairs"])
async def test_a_dsn_of_either_form_is_read(dsn: str, form: str) -> None:
    parts: dict[str, Any] = dict(conninfo_to_dict(dsn))
    parts |= {"connect_timeout": "5", "application_name": "shop", "keepalives": "1"}
    named = (
        make_conninfo(**parts)
        if form == "pairs"
        else f"{dsn.partition('?')[0]}?connect_timeout=5&application_name=shop"
    )
    async with open_pool(named, driver="asyncpg") as pool:
        assert await pool.fetchval("show application_name") == "shop"


async def test_no_database_is_said_without_a_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await open_pool("postgresql://u:canary@127.0.0.1:1/d", driver="asyncpg", timeout=5)
    assert "canary" not in str(caught.value)


def test_a_pool_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="asyncpg"):
        PostgresStore(object())


async def test_an_address_beside_the_host_is_where_it_connects(dsn: str) -> None:
    parts: dict[str, Any] = {**conninfo_to_dict(dsn), "host": "nowhere.invalid", "hostaddr": "127.0.0.1"}
    async with open_pool(make_conninfo(**parts), driver="asyncpg") as pool:
        assert await pool.fetchval("select 1") == 1


async def test_a_connection_is_reset_for_others_though_not_after_an_enqueue(dsn: str) -> None:
    """A statement of the queue leaves nothing behind to reset; what a consumer leaves is still taken away."""
    async with open_pool(dsn, driver="asyncpg", min_size=1, max_size=1) as pool:
        queue = Queue(PostgresStore(pool))
        async with pool.acquire() as connection:
            before, pid = await connection.fetchval("show work_mem"), connection.get_server_pid()
        for _ in range(3):
            await queue.enqueue(Job("t"))
        with psycopg.connect(dsn) as witness:
            ((last,),) = witness.execute("select query from pg_stat_activity where pid = %s", [pid]).fetchall()
        assert "RESET" not in last
        async with pool.acquire() as connection:
            await connection.execute("set work_mem = '123kB'")
        async with pool.acquire() as connection:
            assert await connection.fetchval("show work_mem") == before
        tx = await queue.begin()
        raw = as_asyncpg(tx)
        assert raw is not None
        await raw.execute("set work_mem = '321kB'")
        await tx.commit()
        async with pool.acquire() as connection:
            assert await connection.fetchval("show work_mem") == before
