"""The raw limit: the store's own statements in a tight loop, with no engine around them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from bench.place import SCHEMA, Place, Stopwatch
from bench.result import Sample
from brooq import Job, State
from brooq.engine.outcome import Outcome
from brooq.postgres import PostgresStore, open_pool

TOPIC = "bench"
PAYLOAD = {"to": "somebody@example.org", "subject": "hello", "order": 12345, "note": "x" * 30}
LEASE = timedelta(minutes=2)


async def fill(place: Place, jobs: int) -> None:
    """Put ready jobs into the table."""
    async with open_pool(place.dsn) as pool:
        store = PostgresStore(pool, SCHEMA)
        for start in range(0, jobs, 1000):
            await store.enqueue(None, [Job(TOPIC, PAYLOAD) for _ in range(min(1000, jobs - start))])


async def drain(place: Place, jobs: int, batch: int, connections: int) -> Sample:
    """Claim `batch` jobs, and write their outcomes with the next claim, on each of the connections."""
    place.empty()
    await fill(place, jobs)
    async with open_pool(place.dsn) as pool:
        store = PostgresStore(pool, SCHEMA)

        async def lane(number: int) -> int:
            outcomes: list[Outcome] = []
            total = 0
            while True:
                exchange = await store.exchange(f"raw-{number}", outcomes, [TOPIC], batch, LEASE)
                outcomes = [Outcome(taken.id, taken.token, State.DONE) for taken in exchange.taken]
                total += len(exchange.settled)
                if not outcomes:
                    return total

        watch = Stopwatch(place)
        settled = sum(await asyncio.gather(*(lane(number) for number in range(connections))))
        seconds, client, server = watch.stop()
        await store.close()
    if settled != jobs:
        raise RuntimeError(f"{settled} of {jobs} jobs were settled")
    return Sample("raw SQL", f"batch {batch} x {connections}", "drain", jobs / seconds, "jobs/s", client, server)
