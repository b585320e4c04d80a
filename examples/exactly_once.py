"""An effect that happens exactly once, although its handler may run twice: python -m examples.exactly_once

It is written by `on_succeeded`, in the very transaction that closes the job: the effect is there if and only if the job
is `done`. This holds for effects in the same database and for nothing else; a mail can always be sent twice.
"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio

from brooq import Claim, Config, Event, Job, JobDone, Queue, Tx
from brooq.postgres import PostgresStore, as_psycopg, open_pool
from examples.database import database

TABLE = "create table if not exists example_ledger (account text not null, cents bigint not null)"


async def pay(claim: Claim) -> None:
    """Books a payment; at its first attempt the closing transaction fails after the booking was written."""
    account, cents = claim.payload["account"], claim.payload["cents"]

    @claim.on_succeeded
    async def book(tx: Tx) -> None:
        connection = as_psycopg(tx)
        assert connection is not None
        await connection.execute("insert into example_ledger (account, cents) values (%s, %s)", [account, cents])
        if claim.attempt == 1:
            raise ConnectionError("the worst moment: booked, and not yet closed")


async def work(dsn: str) -> None:
    """One payment, two attempts, one booking."""
    async with open_pool(dsn) as pool:
        async with pool.connection() as connection:
            await connection.execute(TABLE)
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.05, backoff_base=0.1))
        queue.register_kind("example.pay", pay)
        job = Job("example.pay", {"cents": 1250})
        job.payload["account"] = f"account of {job.id}"
        done = asyncio.Event()

        def told(event: Event) -> None:
            if isinstance(event, JobDone) and event.id == job.id:
                done.set()

        queue.listen(told)
        await queue.enqueue(job)
        async with queue:
            await done.wait()
        async with pool.connection() as connection:
            found = await connection.execute(
                "select count(*), sum(cents) from example_ledger where account = %s", [job.payload["account"]]
            )
            print("bookings: {}, cents: {}".format(*(await found.fetchone() or ())))
        record = await queue.find(job.id)
        assert record is not None
        print(f"{record.state} after {record.attempts} attempts")


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
