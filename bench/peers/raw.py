"""The raw limit: brooq's own statements in a tight loop, with no engine around them."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg

from bench.peers.brooq import TOPIC, Brooq, pool, store
from bench.peers.protocol import Producer, Tally, payload
from brooq import State
from brooq.engine.outcome import Outcome

LEASE = timedelta(minutes=2)
INSERT = "insert into job (topic, payload) values ($1, $2)"


class RawProducer(Producer):
    """A plain INSERT on one connection of the driver, nothing else."""

    def __init__(self, connection: Any, insert: Callable[[str, str], Awaitable[Any]]) -> None:
        self._connection = connection
        self._insert = insert

    async def one(self, number: int) -> None:
        await self._insert(TOPIC, json.dumps(payload(number)))

    async def close(self) -> None:
        await self._connection.close()


class Raw(Brooq):
    """Claims `batch` jobs, and writes their outcomes with the next claim, on each of `connections`."""

    async def producer(self) -> Producer:
        if self.spec["mode"] != "one":
            return await super().producer()
        if self.config["driver"] == "asyncpg":
            asyncpg = importlib.import_module("asyncpg")
            theirs = await asyncpg.connect(self.dsn)
            statement = await theirs.prepare(INSERT)
            return RawProducer(theirs, statement.fetch)
        ours = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        cursor = psycopg.AsyncRawCursor(ours)
        return RawProducer(ours, lambda topic, body: cursor.execute(INSERT, (topic, body)))

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        async with pool(self.dsn, self.config, 1) as opened:
            at = store(opened, self.config)

            async def lane(number: int) -> None:
                outcomes: list[Outcome] = []
                while True:
                    limit = 0 if stop.is_set() else self.config["batch"]
                    exchange = await at.exchange(f"raw-{number}", outcomes, [TOPIC], limit, LEASE)
                    for _ in exchange.taken:
                        tally.begin(tally.count)
                    outcomes = [Outcome(taken.id, taken.token, State.DONE) for taken in exchange.taken]
                    if not outcomes:
                        return

            await asyncio.gather(*(lane(number) for number in range(self.config["connections"])))
            await stop.wait()
            await at.close()


ADAPTER = Raw
