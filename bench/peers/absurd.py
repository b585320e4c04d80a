"""Absurd, its asynchronous client; the schema is the one that its command line tool carries."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.protocol import Adapter, Failure, Producer, Tally, payload

QUEUE = "bench"
TASK = "bench"


class AbsurdProducer(Producer):
    """It has no bulk interface: many are spawned one by one in one transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._app = AsyncAbsurd(connection, queue_name=QUEUE)

    async def one(self, number: int) -> None:
        await self._app.spawn(TASK, payload(number), queue=QUEUE)

    async def many(self, numbers: range, keys: bool = False) -> None:
        async with self._connection.transaction():
            for number in numbers:
                key = f"key-{number}" if keys else None
                await self._app.spawn(TASK, payload(number), queue=QUEUE, idempotency_key=key)

    async def in_transaction(self, numbers: range) -> None:
        await self.many(numbers)

    async def close(self) -> None:
        await self._connection.close()


class Absurd(Adapter):
    """`worker` is what `start_worker` takes."""

    async def install(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
            await AsyncAbsurd(connection, queue_name=QUEUE).create_queue()

    async def producer(self) -> Producer:
        return AbsurdProducer(await psycopg.AsyncConnection.connect(self.dsn, autocommit=True))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        app = AsyncAbsurd(self.dsn, queue_name=QUEUE)

        async def handle(params: Any, context: Any) -> None:
            tally.begin(params["n"])
            if tally.fail:
                raise Failure

        app.register_task(TASK, default_max_attempts=1)(handle)
        running = asyncio.create_task(app.start_worker(**self.config["worker"]))
        await stop.wait()
        app.stop_worker()
        await running
        await app.close()


ADAPTER = Absurd
