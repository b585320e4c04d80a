"""Threads for handlers that are plain functions: the engine's own, never the executor of asyncio, which the consumer's
code fills with work of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

IDLE = 10.0
"""How many seconds a thread without work stays."""


class _Work(NamedTuple):
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: Context
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[tuple[Any, BaseException | None]]


class Threads:
    """As many threads as there is work at one time: none until the first, and none a while after the last.

    They are daemons: a handler that never returns must not keep the process from exiting.
    """

    def __init__(self, name: str = "brooq-handler") -> None:
        """Starts nothing."""
        self._name = name
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for work which nobody has put yet."""
        self._closed = False

    async def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call it in a thread, in a copy of the caller's context; answers what it returns, raises what it raises.

        Canceling whoever waits does not stop the thread: nothing can.
        """
        loop = asyncio.get_running_loop()
        work = _Work(call, arguments, copy_context(), loop, loop.create_future())
        with self._lock:
            fresh = self._idle == 0
            if not fresh:
                self._idle -= 1
        if fresh:
            threading.Thread(target=self._serve, args=(work,), name=self._name, daemon=True).start()
        else:
            self._queue.put(work)
        result, error = await work.answer
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error  # its traceback holds this very frame

    def close(self) -> None:
        """Let the threads end as soon as they have nothing to do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._queue.put(None)

    def _serve(self, work: _Work | None) -> None:
        while work is not None:
            _do(work)
            work = self._next()

    def _next(self) -> _Work | None:
        with self._lock:
            if self._closed:
                return None
            self._idle += 1
        while True:
            try:
                return self._queue.get(timeout=IDLE)
            except Empty:
                with self._lock:
                    if self._idle:  # else somebody has counted on this thread just now, and puts its work
                        self._idle -= 1
                        return None


def _do(work: _Work) -> None:
    result, error = None, None
    try:
        result = work.context.run(work.call, *work.arguments)
    except BaseException as raised:  # noqa: BLE001  SystemExit included: it is the handler's failure (C10)
        error = raised
    try:
        work.loop.call_soon_threadsafe(_tell, work.answer, result, error)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more
    finally:
        del error


def _tell(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if not answer.done():
        answer.set_result((result, error))
