"""PgQueuer, on asyncpg and uvloop as its own command line runs it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.peers.protocol import Adapter, Failure, Producer, Tally, payload

ENTRYPOINT = "bench"


def encoded(number: int) -> bytes:
    """Payloads are bytes there."""
    return json.dumps(payload(number)).encode()


class PgQueuerProducer(Producer):
    """`enqueue` with single values and with lists."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._queries = Queries(AsyncpgDriver(connection))

    async def one(self, number: int) -> None:
        await self._queries.enqueue(ENTRYPOINT, encoded(number))

    async def many(self, numbers: range, keys: bool = False) -> None:
        count = len(numbers)
        await self._queries.enqueue(
            [ENTRYPOINT] * count,
            [encoded(number) for number in numbers],
            [0] * count,
            dedupe_key=[f"key-{number}" for number in numbers] if keys else None,
        )

    async def in_transaction(self, numbers: range) -> None:
        async with self._connection.transaction():
            for number in numbers:
                await self.one(number)

    async def close(self) -> None:
        await self._connection.close()


class PgQueuer(Adapter):
    """`batch` is what one claim takes; `pool`: on so many connections instead of one."""

    async def install(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def producer(self) -> Producer:
        return PgQueuerProducer(await asyncpg.connect(self.dsn))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        size = self.config.get("pool", 0)
        if size:
            opened = await asyncpg.create_pool(self.dsn, min_size=size, max_size=size)
            driver = AsyncpgPoolDriver(opened)
        else:
            opened = await asyncpg.connect(self.dsn)
            driver = AsyncpgDriver(opened)
        manager = QueueManager(Queries(driver))

        async def handle(job: Job) -> None:
            tally.begin(json.loads(job.payload)["n"])
            if tally.fail:
                raise Failure

        manager.entrypoint(ENTRYPOINT)(handle)
        running = asyncio.create_task(manager.run(**self.config.get("run", {})))
        await stop.wait()
        manager.shutdown.set()
        await running
        await opened.close()


ADAPTER = PgQueuer
