"""A queue that lives as long as an ASGI application: Starlette, FastAPI, and whatever else has a lifespan.

app = FastAPI(lifespan=lifespan(queue))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from brooq.engine.queue import Queue
from brooq.postgres.store import PostgresStore

CLOSING = 5.0
"""How many seconds a pool has to close in good order."""


@asynccontextmanager
async def running(queue: Queue, *, work: bool = True) -> AsyncIterator[Queue]:
    """Let the queue work for the length of a block, for a lifespan of one's own.

    A pool that nobody has opened yet is opened before and closed afterwards; one that is open stays open. `work` False:
    this process only enqueues, and workers run elsewhere.
    Raises what `Queue.start` raises.
    """
    driver = queue.store.driver if isinstance(queue.store, PostgresStore) else None
    opens = driver is not None and not driver.opened
    if driver is not None and opens:
        await driver.open()
    try:
        if work:
            await queue.start()
        yield queue
    finally:
        await queue.close()
        if driver is not None and opens:
            await driver.close(CLOSING)


def lifespan(queue: Queue, *, work: bool = True) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Queue]]]:
    """`running` as the lifespan of an application; endpoints find the queue as `request.state.queue` too."""

    @asynccontextmanager
    async def live(_: Any) -> AsyncIterator[dict[str, Queue]]:
        async with running(queue, work=work):
            yield {"queue": queue}

    return live


__all__ = ["lifespan", "running"]
