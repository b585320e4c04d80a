"""An order and its job in one transaction: both or neither. python -m examples.transaction"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import psycopg

from brooq import Job, Queue
from brooq.postgres import PostgresStore, open_pool, wrap_tx
from examples.database import database


class CardDeclinedError(Exception):
    """Something of yours went wrong after the job was enqueued."""


async def place_order(queue: Queue, connection: psycopg.AsyncConnection[Any], goods: str, *, paid: bool) -> UUID:
    """Write the order and the job that ships it, in the caller's transaction; answers the job's id."""
    row = await (
        await connection.execute("insert into example_order (goods) values (%s) returning id", [goods])
    ).fetchone()
    assert row is not None
    # The id is known before the commit; nobody sees the job until then.
    id, _ = await queue.enqueue_tx(wrap_tx(connection), Job("order.ship", {"order": row[0]}))
    if not paid:
        raise CardDeclinedError
    return id


async def work(dsn: str) -> None:
    """One order that is committed, one that is rolled back."""
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool))
        async with pool.connection() as connection:
            await connection.execute(
                "create table if not exists example_order (id bigint generated always as identity, goods text)"
            )

        async with pool.connection() as connection, connection.transaction():
            shipped = await place_order(queue, connection, "kettle", paid=True)
        record = await queue.find(shipped)
        print(f"committed: the job is {record.state if record else 'missing'}")

        before = await count(pool)
        try:
            async with pool.connection() as connection, connection.transaction():
                await place_order(queue, connection, "lamp", paid=False)
        except CardDeclinedError:
            after = await count(pool)
            print(f"rolled back: {after[0] - before[0]} orders and {after[1] - before[1]} jobs more than before")


async def count(pool: Any) -> tuple[int, int]:
    """How many orders and how many jobs there are."""
    async with pool.connection() as connection:
        found = await connection.execute(
            "select (select count(*) from example_order), (select count(*) from job where topic = 'order.ship')"
        )
        orders, jobs = await found.fetchone()
        return orders, jobs


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
