"""The one seam for time, chance and threads: a test puts a virtual clock, a seed and a single loop here."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Protocol


class Isolated(Protocol):
    """A coroutine that runs apart from the handlers."""

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""


class Runtime:
    """Real time, real chance, a thread for what handlers must not hold up."""

    def __init__(self, random: Random | None = None) -> None:
        """`random` is what delays and jitter are drawn from."""
        self.random = random or Random()  # noqa: S311  jitter is no secret

    def clock(self) -> float:
        """Seconds of a clock that never steps, the same in every thread."""
        return time.monotonic()

    def isolate(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> Isolated:
        """Run a coroutine in an event loop of its own, in a thread of its own."""
        return _Thread(main, name)


class _Thread:
    """A daemon thread: a process that has to exit does not wait for it."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._main = main
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        # The plain selector loop, whatever policy the process has: this thread must depend on as little as possible.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._supervise())

    async def _supervise(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(self._main())
        self._ready.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # looked at, so that nothing is printed; `alive` tells

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        assert self._loop is not None
        assert self._task is not None
        try:
            self._loop.call_soon_threadsafe(self._task.cancel)
        except RuntimeError:
            return  # the loop is closed: the coroutine has ended
        await asyncio.to_thread(self._thread.join, 5.0)
