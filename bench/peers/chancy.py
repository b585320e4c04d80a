"""Chancy, on its executor for coroutines."""

from __future__ import annotations

import asyncio
from typing import Any

from chancy import Chancy, Job, Queue, Worker
from psycopg.rows import dict_row

from bench.peers.protocol import Adapter, Failure, Producer, Spec, Tally, payload

QUEUE = "bench"


tallies: list[Tally] = []
"""That of this process: a handler is found by its import path there, and knows nothing else."""


async def handle(*, n: int, **_: Any) -> None:
    """The handler."""
    (tally,) = tallies
    tally.begin(n)
    if tally.fail:
        raise Failure


def job(number: int, key: str | None = None) -> Any:
    """A job for the handler."""
    return Job(func="bench.peers.chancy.handle", kwargs=payload(number), queue=QUEUE, max_attempts=1, unique_key=key)


class ChancyProducer(Producer):
    """`push` and `push_many`, and `push_many_ex` on a caller's cursor."""

    def __init__(self, chancy: Any) -> None:
        self._chancy = chancy

    async def one(self, number: int) -> None:
        await self._chancy.push(job(number))

    async def many(self, numbers: range, keys: bool = False) -> None:
        async for _ in self._chancy.push_many([job(n, f"key-{n}" if keys else None) for n in numbers]):
            pass

    async def in_transaction(self, numbers: range) -> None:
        async with self._chancy.pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            for number in numbers:
                await self._chancy.push_many_ex(cursor, [job(number)])

    async def close(self) -> None:
        await self._chancy.__aexit__(None, None, None)


class ChancyAdapter(Adapter):
    """`queue` is the queue's declaration."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._chancy = Chancy(self.dsn)

    async def install(self) -> None:
        async with self._chancy as chancy:
            await chancy.migrate()

    async def producer(self) -> Producer:
        return ChancyProducer(await self._chancy.__aenter__())

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        tallies.append(tally)
        async with self._chancy as chancy:
            await chancy.declare(Queue(name=QUEUE, **self.config["queue"]), upsert=True)
            async with Worker(chancy, register_signal_handlers=False, shutdown_timeout=10):
                await stop.wait()


ADAPTER = ChancyAdapter
