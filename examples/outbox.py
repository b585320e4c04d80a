"""A table of yours beside the queue, keyed by the job's id: who ordered what, without brooq knowing of it.

    python -m examples.outbox

The row is written always, whether or not the enqueue made the job, with ON CONFLICT DO NOTHING: a call that is repeated
finds its job and its row, and a call that died between the two writes (or before your table existed) is healed by the
next one. Both writes are in one transaction.
"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import psycopg

from brooq import Job, Queue
from brooq.postgres import PostgresStore, open_pool, wrap_tx
from examples.database import database

TABLE = (
    "create table if not exists example_outbox (job_id uuid primary key, tenant text not null, asked_by text not null)"
)


async def ask(queue: Queue, connection: psycopg.AsyncConnection[Any], tenant: str, user: str, month: str) -> UUID:
    """Ask for a monthly report; asking twice asks once."""
    job = Job("report.monthly", {"tenant": tenant, "month": month}, idempotency_key=f"{tenant}:{month}")
    id, created = await queue.enqueue_tx(wrap_tx(connection), job)
    # Not only when `created`: the job may be older than this row.
    await connection.execute(
        "insert into example_outbox (job_id, tenant, asked_by) values (%s, %s, %s) on conflict (job_id) do nothing",
        [id, tenant, user],
    )
    print(f"{user} asked: {'a new job' if created else 'the job exists'}")
    return id


async def work(dsn: str) -> None:
    """Two users ask for the same report."""
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool))
        async with pool.connection() as connection:
            await connection.execute(TABLE)
        ids = set()
        for user in ("anna", "boris"):
            async with pool.connection() as connection, connection.transaction():
                ids.add(await ask(queue, connection, "lantern", user, "2025-03"))
        async with pool.connection() as connection:
            found = await connection.execute(
                "select o.asked_by, j.state from example_outbox o join job j on j.id = o.job_id where j.id = any(%s)",
                [list(ids)],
            )
            for asked_by, state in await found.fetchall():
                print(f"one report, asked for by {asked_by} first: {state}")


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
