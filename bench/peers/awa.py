"""awa: a Rust core that calls handlers in Python."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import awa

from bench.peers.protocol import Adapter, Failure, Producer, Tally, payload

QUEUE = "bench"


@dataclass
class BenchJob:
    """The payload as awa wants it."""

    n: int
    to: str
    subject: str
    order: int
    note: str


def made(number: int) -> BenchJob:
    """The same payload as everywhere."""
    return BenchJob(**payload(number))


class AwaProducer(Producer):
    """Single inserts, and COPY for many."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def one(self, number: int) -> None:
        await self._client.insert(made(number), queue=QUEUE)

    async def many(self, numbers: range, keys: bool = False) -> None:
        unique = {"unique_opts": {"by_args": True}} if keys else {}
        await self._client.enqueue_many_copy([made(number) for number in numbers], queue=QUEUE, **unique)

    async def in_transaction(self, numbers: range) -> None:
        async with await self._client.transaction() as transaction:
            for number in numbers:
                await transaction.insert(made(number), queue=QUEUE)

    async def close(self) -> None:
        await self._client.close()


class Awa(Adapter):
    """`queue` is the worker's description of its queue, `start` what else `start` takes."""

    async def install(self) -> None:
        client = awa.AsyncClient(self.dsn)
        await client.migrate()
        # The storage of its fast path; without this a fresh database starts on the older one.
        await client.install_queue_storage()
        await client.close()

    async def producer(self) -> Producer:
        return AwaProducer(awa.AsyncClient(self.dsn))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        client = awa.AsyncClient(self.dsn, **self.config.get("client", {}))

        async def handle(job: Any) -> None:
            tally.begin(job.args.n)
            if tally.fail:
                raise awa.TerminalError(Failure.__name__)

        client.task(BenchJob, queue=QUEUE)(handle)
        queue = {"name": QUEUE, "max_workers": self.config["slots"], **self.config.get("queue", {})}
        await client.start([queue], **self.config.get("start", {}))
        await stop.wait()
        await client.shutdown(timeout_ms=10_000)
        await client.close()


ADAPTER = Awa
