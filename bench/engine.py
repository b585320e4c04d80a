"""brooq itself: one worker process, every feature of the engine on."""

from __future__ import annotations

import asyncio
import statistics

from bench.place import SCHEMA, Place, Stopwatch
from bench.raw import PAYLOAD, TOPIC, fill
from bench.result import Sample
from brooq import Claim, Config, Job, Queue
from brooq.postgres import PostgresStore, open_pool


async def drain(place: Place, jobs: int, slots: int) -> Sample:
    """No-op jobs through the engine, default settings but the slots."""
    place.empty()
    await fill(place, jobs)
    async with open_pool(place.dsn) as pool:
        queue = Queue(PostgresStore(pool, SCHEMA), Config(workers=slots))
        left, drained = jobs, asyncio.Event()

        @queue.kind(TOPIC)
        async def handle(claim: Claim) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                drained.set()

        watch = Stopwatch(place)
        async with queue:
            await drained.wait()
        # Leaving the block has written the last outcomes: they belong to the work.
        seconds, client, server = watch.stop()
    done = place.sql(f"select count(*) from \"{SCHEMA}\".job where state = 'done' and attempts = 1")[0][0]  # noqa: S608
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs are done")
    return Sample("brooq", f"{slots} slots", "drain", jobs / seconds, "jobs/s", client, server)


async def enqueue(place: Place, jobs: int, batch: int) -> Sample:
    """Enqueue durably, one by one or in bulk, one producer."""
    place.empty()
    async with open_pool(place.dsn) as pool:
        queue = Queue(PostgresStore(pool, SCHEMA))
        batches = [[Job(TOPIC, PAYLOAD) for _ in range(batch)] for _ in range(jobs // batch)]
        watch = Stopwatch(place)
        for each in batches:
            await queue.enqueue_many(each)
        seconds, client, server = watch.stop()
        await queue.close()
    measure = "enqueue" if batch == 1 else "bulk"
    return Sample("brooq", f"{batch} a call", measure, jobs / seconds, "jobs/s", client, server)


async def pickup(place: Place, jobs: int, poll: float) -> list[Sample]:
    """From the commit of a single job into an idle worker of the same process to its handler's start."""
    place.empty()
    delays: list[float] = []
    async with open_pool(place.dsn) as pool:
        queue = Queue(PostgresStore(pool, SCHEMA), Config(workers=10, poll_interval=poll))
        clock = asyncio.get_running_loop().time
        committed, started = 0.0, asyncio.Event()

        @queue.kind(TOPIC)
        async def handle(claim: Claim) -> None:
            delays.append(clock() - committed)
            started.set()

        producer = Queue(PostgresStore(pool, SCHEMA))
        async with queue:
            for _ in range(jobs):
                started.clear()
                committed = clock()
                await producer.enqueue(Job(TOPIC, PAYLOAD))
                await started.wait()
    cuts = statistics.quantiles(delays, n=100)
    return [
        Sample("brooq", f"poll {poll:g} s", f"pickup {name}", cuts[index] * 1000, "ms")
        for name, index in (("p50", 49), ("p95", 94), ("p99", 98))
    ]
