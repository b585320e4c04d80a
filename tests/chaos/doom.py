"""Processes that kill themselves at a point that is named: between two steps of the engine, or half-way through one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Iterable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

from brooq import Enqueued, Job
from brooq.engine.outcome import Outcome
from brooq.engine.store import Exchange, Hold, Renewal, Renewer, Requeued
from brooq.postgres import PostgresStore
from brooq.postgres.session import Driver, Session
from brooq.postgres.tx import OwnTx
from brooq.service.journal import Lines
from brooq.vocabulary.tx import Tx

POINTS = (
    "before a claim",
    "during a claim",
    "after a claim",
    "before a handler",
    "after a handler",
    "before an outcome",
    "during an outcome",
    "after an outcome",
    "before a closing",
    "in a callback",
    "after a callback",
    "before a chained job",
    "during a chained job",
    "before a commit",
    "during a commit",
    "after a commit",
    "before a renewal",
    "during a renewal",
    "after a renewal",
    "during a reap",
    "after a reap",
)
RARE = {"in a callback", "after a callback", "before a chained job", "during a chained job", "after a reap"}
"""Points that a process does not come to often: the first time is its last."""
HALF_WAY = 0.004
"""How many seconds after a statement was sent its process dies at most, without waiting for the answer."""
T = TypeVar("T")


class Doom:
    """Ends this process when it comes to its point for so many times."""

    def __init__(self, point: str, times: int, faults: Lines) -> None:
        """An empty point is never reached. Deaths are noted in the log of the faults."""
        self._point = point
        self._left = times
        self._faults = faults
        self._random = Random(f"{point} {times} {os.getpid()}")

    def at(self, point: str) -> None:
        """The process is at a point."""
        if self._comes(point):
            self._die()

    async def during(self, point: str, work: Awaitable[T]) -> T:
        """Do something; or send it, and die before its end is heard of."""
        if not self._comes(point):
            return await work
        task = asyncio.ensure_future(work)
        await asyncio.wait([task], timeout=self._random.uniform(0, HALF_WAY))
        self._die()
        raise AssertionError

    def _comes(self, point: str) -> bool:
        if point != self._point:
            return False
        self._left -= 1
        return self._left == 0

    def _die(self) -> None:
        self._faults.write("kill", {"target": os.getpid(), "point": self._point})
        os.kill(os.getpid(), signal.SIGKILL)


class DoomedStore(PostgresStore):
    """The store of a worker that is to die at a point."""

    def __init__(self, pool: Any, doom: Doom) -> None:
        """On the consumer's pool, as always."""
        super().__init__(pool)
        self._doom = doom

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes and the next claim."""
        doom, ends = self._doom, [name for name, some in (("a claim", limit), ("an outcome", outcomes)) if some]
        for end in ends:
            doom.at(f"before {end}")
        work: Awaitable[Exchange] = super().exchange(worker, outcomes, topics, limit, lease)
        for end in ends:
            work = doom.during(f"during {end}", work)
        answer = await work
        if answer.taken:
            doom.at("after a claim")
        if outcomes:
            doom.at("after an outcome")
        return answer

    async def begin(self) -> OwnTx:
        """A transaction that closes a job."""
        own = await super().begin()
        session, own.session = own.session, None
        assert session is not None
        return DoomedTx(session, self.driver, self._doom)

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """The first statement of such a transaction."""
        self._doom.at("before a closing")
        return await super().settle(tx, worker, outcome)

    async def enqueue(self, tx: Tx | None, jobs: Iterable[Job]) -> list[Enqueued]:
        """The last one, where jobs are chained."""
        if tx is None:
            return await super().enqueue(tx, jobs)
        self._doom.at("before a chained job")
        return await self._doom.during("during a chained job", super().enqueue(tx, jobs))

    async def reap(self, limit: int) -> list[Requeued]:
        """Expired leases."""
        requeued = await self._doom.during("during a reap", super().reap(limit))
        if requeued:
            self._doom.at("after a reap")
        return requeued

    async def renewer(self) -> Renewer:
        """A renewer that dies as well."""
        return DoomedRenewer(await super().renewer(), self._doom)


class DoomedTx(OwnTx):
    """A transaction whose commit may be the last thing that is done."""

    def __init__(self, session: Session, driver: Driver, doom: Doom) -> None:
        """The session is borrowed from the driver's pool, and its transaction is open."""
        super().__init__(session, driver)
        self._doom = doom

    async def commit(self) -> None:
        """Commit."""
        self._doom.at("before a commit")
        await self._doom.during("during a commit", super().commit())
        self._doom.at("after a commit")


class DoomedRenewer(Renewer):
    """The renewer of such a worker."""

    def __init__(self, renewer: Renewer, doom: Doom) -> None:
        """`renewer` is the one that the store makes."""
        self._renewer = renewer
        self._doom = doom

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Renew what is held."""
        if not holds:
            return await self._renewer.renew(worker, holds, lease)
        self._doom.at("before a renewal")
        answer = await self._doom.during("during a renewal", self._renewer.renew(worker, holds, lease))
        self._doom.at("after a renewal")
        return answer

    async def close(self) -> None:
        """Close it."""
        await self._renewer.close()
