"""What the engine's tests are built from: queues on a store in memory, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.simulation.virtual import VirtualRuntime

from brooq.engine.config import Config
from brooq.engine.queue import Queue
from brooq.engine.store import Store
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Handler
from brooq.vocabulary.job import JobRecord, State
from brooq.vocabulary.kind import KindOptions, ResolvedOptions

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
OPTIONS = ResolvedOptions(3, 60.0, 300.0, 1.0, 60.0)


def memory() -> MemoryStore:
    """A store whose clock is the running loop's."""
    loop = asyncio.get_running_loop()
    return MemoryStore(lambda: EPOCH + timedelta(seconds=loop.time()))


def queue(store: Store, handler: Handler | None = None, options: KindOptions | None = None, **settings: Any) -> Queue:
    """A queue with the kind `t`, short settings, and virtual time."""
    defaults: dict[str, Any] = {"lease": 3, "poll_interval": 0.2, "reaper_period": 1, "shutdown_grace": 1}
    made = Queue(store, Config(**(defaults | settings)), name="test", runtime=VirtualRuntime())
    if handler is not None:
        made.register_kind("t", handler, options)
    return made


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Let virtual time go on until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.01)


def row(store: MemoryStore) -> JobRecord:
    """The only job."""
    (record,) = store.jobs
    return record


async def until_state(store: MemoryStore, state: State, seconds: float = 60.0) -> JobRecord:
    """Wait for the only job to be in a state."""
    await until(lambda: row(store).state is state, seconds)
    return row(store)
