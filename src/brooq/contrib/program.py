"""A worker in the foreground until a signal, for the command lines of frameworks: no HTTP surface, no further packages."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from brooq.engine.queue import Queue

DONE, FAILED = 0, 1


def work(opened: Callable[[], AbstractAsyncContextManager[Queue]]) -> int:
    """Run the queue until SIGTERM or SIGINT, a second one hastens the end; answers the exit code.

    1: handlers had not exited and were abandoned. Raises what `Queue.start` raises.
    """
    return asyncio.run(_work(opened))


async def _work(opened: Callable[[], AbstractAsyncContextManager[Queue]]) -> int:
    heard: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard.put_nowait, number)
    async with opened() as queue:
        try:
            await queue.start()
            await heard.get()
            stopping = loop.create_task(queue.stop())
            second = loop.create_task(heard.get())
            await asyncio.wait([stopping, second], return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await queue.stop()  # while another is under way: ends its grace
            second.cancel()
            await stopping
        finally:
            await queue.close()
        return FAILED if queue.abandoned else DONE
