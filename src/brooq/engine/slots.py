"""The slots: where handlers run, as many at once as the worker has.

Handlers that never wait share one task, one after the other; a handler that waits keeps its task for itself, and the
others go on in new ones. So a task, a context and timers cost only those that need them. What has started and ended in one
turn of the event loop is told together: told one by one, it would cost as much as everything else about a quick handler.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context

from brooq.engine.attempt import Attempt
from brooq.engine.runtime import Runtime
from brooq.vocabulary.claim import CURRENT

TURN = 0.01
"""How many seconds handlers that never wait may run before the event loop gets its turn."""


class Slots:
    """Runs attempts, first come first served."""

    def __init__(
        self,
        size: int,
        runtime: Runtime,
        *,
        started: Callable[[list[Attempt]], None],
        waits: Callable[[Attempt], None],
        ended: Callable[[list[Attempt]], None],
    ) -> None:
        """`started` hears of attempts whose handlers have begun, `waits` of one that has not ended with its first step,
        `ended` of those whose handlers have exited, before their task waits for anything else."""
        self.running: dict[Attempt, None] = {}
        """Attempts in a slot. Whoever hears `ended` says when their slots are free, by `leave`."""
        self.waiting: deque[Attempt] = deque()
        """Attempts that are claimed and have no slot yet."""
        self._size = size
        self._runtime = runtime
        self._started = started
        self._waits = waits
        self._ended = ended
        self._fresh: list[Attempt] = []
        self._over: list[Attempt] = []
        self._telling = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._context = copy_context()

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Run these as soon as there are slots for them."""
        self.waiting.extend(attempts)
        self._context = copy_context()
        if not self._starting:
            self._spawn(1)

    def leave(self, attempts: Iterable[Attempt]) -> None:
        """The slots of these attempts are free."""
        elsewhere = False
        for attempt in attempts:
            self.running.pop(attempt, None)
            elsewhere = elsewhere or attempt.task is not None
        # A task that has just run its handler goes on by itself; a closing transaction ends elsewhere.
        if elsewhere and not self._starting:
            self._spawn(1)

    def remove(self, attempt: Attempt) -> None:
        """Do not start this one."""
        if attempt in self.waiting:
            self.waiting.remove(attempt)

    def _spawn(self, count: int) -> None:
        count = min(count, len(self.waiting), self._size - len(self.running) - self._starting)
        loop = asyncio.get_running_loop()
        for _ in range(count):
            self._starting += 1
            task = loop.create_task(self._run(), name="handlers of brooq", context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        self._starting -= 1
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        turn = now = self._runtime.clock()
        while self.waiting:
            if len(self.running) >= self._size:
                if not self._over:
                    break
                self._tell()
                continue
            attempt = self.waiting.popleft()
            self.running[attempt] = None
            attempt.task = task
            attempt.started_at = now
            self._fresh.append(attempt)
            self._tell_soon(loop)
            CURRENT.set(attempt.claim)
            context = copy_context()
            try:
                await attempt.kind.call(attempt.claim)
            except BaseException as error:  # noqa: BLE001  SystemExit in a task would end the event loop (C10, D7)
                attempt.error = error
            attempt.task = None
            attempt.ended_at = now = self._runtime.clock()
            attempt.disarm()
            self._over.append(attempt)
            self._tell_soon(loop)
            if task.cancelling() or copy_context() != context:
                break  # what one handler leaves behind in its task must not meet the next one
            if now - turn >= TURN:
                await asyncio.sleep(0)
                turn = now = self._runtime.clock()
        self._tell()
        if not self._starting:
            self._spawn(1)

    def _tell_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Behind the first step of whatever starts in this turn of the loop; a handler that ends is told no later."""
        if not self._telling:
            self._telling = True
            loop.call_soon(self._tell_in_turn)

    def _tell_in_turn(self) -> None:
        self._telling = False
        self._tell()

    def _tell(self) -> None:
        """Say what has started and ended. Called between steps only: whatever has a task has not ended with its first."""
        fresh, self._fresh = self._fresh, []
        over, self._over = self._over, []
        if fresh:
            self._started(fresh)
        waiting = [attempt for attempt in fresh if attempt.task is not None]
        for attempt in waiting:
            self._waits(attempt)
        if over:
            self._ended(over)
        if waiting:
            self._spawn(len(self.waiting))
