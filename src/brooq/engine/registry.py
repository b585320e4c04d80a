"""The registry: says every few seconds that this engine is there and what its slots do, for people to look at.

Nothing is decided by it: who holds a job is told by its lease alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
from datetime import timedelta

from brooq.engine.reason import sanitize
from brooq.engine.runtime import Runtime
from brooq.engine.store import Presence, Store
from brooq.engine.worker import Worker
from brooq.vocabulary.error import StoreError
from brooq.vocabulary.version import VERSION

PERIOD = 5.0
"""How many seconds lie between two entries."""

FORGET = timedelta(minutes=15)
"""For how long an engine that ended without a word stays on the list: people look for it there."""

MOST = 200
"""Up to how many slots are told of."""

FAREWELL = 2.0
"""How many seconds the last word may take: a stop must not wait for a database that is away."""


class Registry:
    """This engine's entry in the list of workers."""

    def __init__(self, store: Store, worker: Worker, slots: int, topics: tuple[str, ...], runtime: Runtime) -> None:
        """Of a worker that is about to start."""
        self._store = store
        self._worker = worker
        self._slots = slots
        self._topics = topics
        self._runtime = runtime
        self._host = sanitize(socket.gethostname(), 200)
        self._born = runtime.clock()

    async def tick(self) -> None:
        """Say it once."""
        worker = self._worker
        presence = Presence(
            name=worker.name,
            host=self._host,
            pid=os.getpid(),
            version=VERSION,
            uptime=max(self._runtime.clock() - self._born, 0.0),
            stopping=worker.stopping,
            slots=self._slots,
            topics=self._topics,
            busy={topic: count for topic, count in worker.busy().items() if count},
            running=tuple(worker.slots(MOST)),
        )
        await self._store.announce(presence, FORGET)

    async def leave(self) -> None:
        """Say that it is over. When that cannot be said in time, the others forget this engine in a while."""
        try:
            async with asyncio.timeout(FAREWELL):
                await self._store.withdraw(self._worker.name)
        except (StoreError, TimeoutError):
            pass
