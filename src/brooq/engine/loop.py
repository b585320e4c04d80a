"""The one loop: period, start, stop, back-off after errors, and what is said of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from brooq.engine.runtime import Runtime
from brooq.vocabulary.error import SchemaError, StoreError
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

SICK_AFTER = 3
"""After how many unexpected errors in a row a loop counts as unable to run."""

REMIND = 30.0
"""How many seconds lie between two reports of one and the same outage."""


async def end_all(*ends: Callable[[], Awaitable[object]]) -> None:
    """Each of them, in this order, also when one before raised or whoever waits gives up; what was raised comes last."""
    async with AsyncExitStack() as ending:
        for end in reversed(ends):
            ending.push_async_callback(end)


class Pulse:
    """Whether something that runs again and again is well: counts errors in a row, and keeps the log from flooding."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        """`name` is what texts call it."""
        self.name = name
        self.failures = 0
        self.unexpected = 0
        self.alive = True
        self._runtime = runtime
        self._reported = 0.0

    def beat(self) -> None:
        """It went well."""
        if self.failures:
            log.info(text("engine.recovered", loop=self.name, failures=self.failures))
        self.failures = self.unexpected = 0

    def stumble(self, error: Exception) -> float:
        """It went wrong; answers how many seconds to wait: from 0.1 up to 5, jittered down to the half."""
        self.failures += 1
        passing = isinstance(error, (StoreError, SchemaError))
        self.unexpected = 0 if passing else self.unexpected + 1
        now = self._runtime.clock()
        if self.failures == 1 or now - self._reported >= REMIND:
            self._reported = now
            if passing:
                log.warning(text("engine.unavailable", loop=self.name, failures=self.failures, reason=error))
            else:
                log.error(text("engine.loop_failed", loop=self.name, reason=repr(error)), exc_info=error)
        return self.pause()

    def pause(self) -> float:
        """How long to wait after that many failures in a row, in seconds."""
        top = min(0.1 * 2.0 ** min(max(self.failures - 1, 0), 10), 5.0)
        return self._runtime.random.uniform(top / 2, top)

    @property
    def well(self) -> bool:
        """Alive, and not failing again and again for a reason of our own. An outage of the database is no sickness."""
        return self.alive and self.unexpected < SICK_AFTER


class Loop:
    """Calls a tick every `period` seconds, the first time at once. A tick that raises is tried again after a back-off."""

    def __init__(self, name: str, period: float, tick: Callable[[], Awaitable[object]], runtime: Runtime) -> None:
        """`tick` can be called by hand, in tests; the loop only decides when."""
        self.pulse = Pulse(name, runtime)
        self._period = period
        self._tick = tick
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start ticking in the running event loop."""
        self.pulse.alive = True
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"brooq {self.pulse.name}")

    async def stop(self) -> None:
        """Stop ticking; a tick on its way is canceled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._tick()
                except Exception as error:  # noqa: BLE001  a loop must survive whatever its tick meets
                    wait = self.pulse.stumble(error)
                else:
                    self.pulse.beat()
                    wait = self._period
                await asyncio.sleep(wait)
        finally:
            self.pulse.alive = False
