"""Five steps from nothing to a job that is done: python -m examples.quickstart"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio

from brooq import Claim, Config, Event, Job, JobDone, Queue
from brooq.postgres import PostgresStore, open_pool
from examples.database import database


async def work(dsn: str) -> None:
    """Everything after the migration."""
    finished = asyncio.Event()

    # 1. A pool of yours, a queue over it.
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool), Config(workers=4))

        # 2. What to do with the jobs of a topic. It may run twice (a worker can die after the work is done): be ready.
        @queue.kind("greeting", max_attempts=3)
        async def greet(claim: Claim) -> None:
            print(f"Hello, {claim.payload['name']}! (attempt {claim.attempt})")

        # 3. A job. With an idempotency key there is one such job, however often it is asked for.
        id, created = await queue.enqueue(Job("greeting", {"name": "world"}))
        print(f"job {id}, created: {created}")

        # 4. Work.
        def told(event: Event) -> None:
            if isinstance(event, JobDone) and event.id == id:
                finished.set()

        queue.listen(told)
        async with queue:
            await finished.wait()

        # 5. The row tells what became of it.
        record = await queue.find(id)
        assert record is not None
        print(f"{record.state} after {record.attempts} attempt")


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
