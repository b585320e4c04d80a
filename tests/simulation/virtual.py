"""Virtual time: an event loop that never waits, whose clock jumps to the next timer.

The ready queue is not shuffled as a whole: asyncio promises that callbacks run in the order in which they were
registered, and the engine may rely on it, so a full shuffle would only find orders that cannot happen. What has no
promised order is what runs in different threads and processes. Each of those is a lane here: in order within a lane,
at random between lanes. A lane can be held, which is a stopped process (all its lanes) or a handler that blocks its
loop (the main lane alone). Interleavings inside a lane come from the delays of the store's verbs.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any, ParamSpec, TypeVar

from brooq.engine.runtime import Isolated, Runtime

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(eq=False)
class Lane:
    """What one thread of one process has to run."""

    name: str
    home: Lane | None = None
    """The lane that `call_soon_threadsafe` leads to from this one; None: itself."""
    holds: int = 0
    """The lane runs while this is 0."""
    queue: deque[Any] = field(default_factory=deque)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    stood: list[tuple[float, float]] = field(default_factory=list)
    """When it was held, from and to."""

    def hold(self, seconds: float) -> None:
        """Hold the lane for some time."""
        loop = asyncio.get_running_loop()
        self.holds += 1
        self.stood.append((loop.time(), loop.time() + seconds))

        def let_go() -> None:
            self.holds -= 1

        loop.call_later(seconds, let_go, context=in_lane(ROOT))


ROOT = Lane("root")
LANE: ContextVar[Lane] = ContextVar("lane", default=ROOT)


def in_lane(lane: Lane) -> Context:
    """A context whose tasks and callbacks run in the lane."""
    context = copy_context()
    context.run(LANE.set, lane)
    return context


class OutOfTime(Exception):
    """Virtual time ran past its limit, or nothing is left that could ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without I/O whose time is virtual."""

    def __init__(self, random: Random | None = None, limit: float = 100_000.0) -> None:
        """`random` chooses between lanes. At `limit` virtual seconds OutOfTime is raised."""
        super().__init__()
        self._now = 0.0
        self._random = random or Random(0)
        self._limit = limit
        self._busy: list[Lane] = []
        self._ready: deque[Any]
        self._scheduled: list[Any]
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Into the lane that stands for the loop's own thread."""
        lane = LANE.get()
        return self.call_soon(callback, *args, context=context or in_lane(lane.home or lane))

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **rest: Any
    ) -> Any:
        """A task, known to its lane."""
        lane = LANE.get() if context is None else context.get(LANE, ROOT)
        task = super().create_task(coro, name=name, context=context, **rest)
        lane.tasks.append(task)
        return task

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody is to be woken."""

    def _run_once(self) -> None:
        """One burst of one lane; or, when no lane can run, a jump to the next timer."""
        while True:
            self._collect()
            able = [lane for lane in self._busy if not lane.holds]
            if able:
                return self._burst(able[0] if len(able) == 1 else self._random.choice(able))
            if not self._scheduled or self._scheduled[0]._when > self._limit:
                raise OutOfTime(f"nothing happens between {self._now:g} s and {self._limit:g} s of virtual time")
            self._now = max(self._now, self._scheduled[0]._when)

    def _collect(self) -> None:
        """What has been called for, and what is due, into the lanes."""
        timers, ready = self._scheduled, self._ready
        while timers and (timers[0]._cancelled or timers[0]._when <= self._now):
            ready.append(heapq.heappop(timers))
        for handle in ready:
            if handle._cancelled:
                continue
            lane = handle._context.get(LANE, ROOT)
            if not lane.queue:
                self._busy.append(lane)
            lane.queue.append(handle)
        ready.clear()

    def _burst(self, lane: Lane) -> None:
        count = len(lane.queue)
        if len(self._busy) > 1:
            count = self._random.randint(1, count)
        for _ in range(count):
            if lane.holds:
                break
            handle = lane.queue.popleft()
            if not handle._cancelled:
                handle._run()
        if not lane.queue:
            self._busy.remove(lane)


class VirtualRuntime(Runtime):
    """The seam of the engine, on a virtual loop. The isolated coroutine is a task of the same loop."""

    def __init__(self, random: Random | None = None, keeper: Lane | None = None) -> None:
        """`keeper` is the lane of isolated coroutines; None: that of the caller."""
        super().__init__(random or Random(1))
        self._keeper = keeper

    def clock(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    def isolate(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> Isolated:
        """A task in a lane of its own."""
        context = in_lane(self._keeper or LANE.get())
        return _Task(asyncio.get_running_loop().create_task(main(), name=name, context=context))


class _Task:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    @property
    def alive(self) -> bool:
        return not self._task.done()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def run(main: Coroutine[Any, Any, T], *, random: Random | None = None, limit: float = 100_000.0) -> T:
    """Run to the end under virtual time; tasks left over are canceled. Raises OutOfTime."""
    loop = VirtualLoop(random, limit)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main)
    finally:
        ROOT.queue.clear()
        ROOT.tasks.clear()


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A decorator: the asynchronous test runs under virtual time, at most a day of it."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs), limit=86_400.0)

    return wrapper
