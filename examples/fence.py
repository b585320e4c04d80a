"""A handler that lost its job cannot write any more, not even into a table of its own: python -m examples.fence"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from brooq import Claim, Config, Job, LeaseLost, Queue
from brooq.postgres import PostgresStore, open_pool, wrap_tx
from examples.database import database


async def lose(pool: AsyncConnectionPool[Any], job: UUID) -> None:
    """What happens to a process that is frozen for longer than its lease: the job goes back, and somebody else takes it."""
    async with pool.connection() as connection:
        await connection.execute(
            "update job set state = 'pending', locked_by = null, locked_until = null where id = %s", [job]
        )


async def work(dsn: str) -> None:
    """One job, two runs of it, one booking."""
    async with open_pool(dsn) as pool:
        async with pool.connection() as connection:
            await connection.execute("create table if not exists example_booking (job uuid, claim bigint)")
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.05))

        @queue.kind("example.book")
        async def book(claim: Claim) -> None:
            if claim.token == 1:
                await lose(pool, claim.id)
            try:
                async with pool.connection() as connection, connection.transaction():
                    await connection.execute("insert into example_booking values (%s, %s)", [claim.id, claim.token])
                    # The last statement of the transaction: from here to the commit nobody takes the job over.
                    await claim.assert_held(wrap_tx(connection))
            except LeaseLost:
                print(f"claim {claim.token} was refused")
                raise

        job, _ = await queue.enqueue(Job("example.book"))
        async with queue:
            await queue.wait(job, 60)
        async with pool.connection() as connection:
            found = await connection.execute("select claim from example_booking where job = %s", [job])
            print("booked by claims", [claim for (claim,) in await found.fetchall()])


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
