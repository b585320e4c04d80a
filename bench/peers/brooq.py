"""brooq itself, in a process of its own like every other system: one worker, every feature of the engine on."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from bench.peers.protocol import Adapter, Failure, Producer, Tally, payload
from brooq import Claim, Config, Job, KindOptions, Queue
from brooq.postgres import PostgresStore, migrate, open_pool, wrap_tx

TOPIC = "bench"


def pool(dsn: str, config: dict[str, Any], size: int) -> Any:
    """A pool of the driver that the configuration names."""
    return open_pool(dsn, driver=config["driver"], min_size=size, max_size=max(size, 10))


def store(opened: Any, config: dict[str, Any]) -> PostgresStore:
    """The store, with wake-ups unless they are turned off."""
    return PostgresStore(opened, wakeups=config.get("wakeups", True))


class BrooqProducer(Producer):
    """Through the queue's public interface."""

    def __init__(self, opened: Any, config: dict[str, Any], dsn: str) -> None:
        self._pool = opened
        self._dsn = dsn
        self._queue = Queue(store(opened, config))

    async def one(self, number: int) -> None:
        await self._queue.enqueue(Job(TOPIC, payload(number)))

    async def many(self, numbers: range, keys: bool = False) -> None:
        await self._queue.enqueue_many(
            Job(TOPIC, payload(number), idempotency_key=f"key-{number}" if keys else "") for number in numbers
        )

    async def in_transaction(self, numbers: range) -> None:
        async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
            for number in numbers:
                await self._queue.enqueue_tx(wrap_tx(connection), Job(TOPIC, payload(number)))

    async def close(self) -> None:
        await self._queue.close()
        await self._pool.close()


class Brooq(Adapter):
    """brooq in the project's own environment."""

    async def install(self) -> None:
        migrate.up(self.dsn)

    async def producer(self) -> Producer:
        return BrooqProducer(await pool(self.dsn, self.config, 1), self.config, self.dsn)

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        async with pool(self.dsn, self.config, 1) as opened:
            queue = Queue(
                store(opened, self.config),
                Config(workers=self.config["slots"], prefetch=self.config.get("prefetch", 0)),
            )

            async def handle(claim: Claim) -> None:
                tally.begin(claim.payload["n"])
                if tally.fail:
                    raise Failure

            queue.register_kind(TOPIC, handle, KindOptions(max_attempts=1 if tally.fail else 5))
            for number in range(self.config.get("topics", 0)):
                queue.register_kind(f"topic-{number}", handle)
            async with queue:
                await stop.wait()


ADAPTER = Brooq
