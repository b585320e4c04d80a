"""The waker: hears of jobs at their commit while the worker is idle, and steps back when they come in crowds.

A wake-up makes the producers' commits wait for each other, so it is asked for only while it is worth it: when rings come
in crowds, the bell is taken down, and the worker looks every few milliseconds until it has been quiet for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from brooq.engine.loop import Pulse
from brooq.engine.runtime import Runtime
from brooq.engine.store import Bell
from brooq.vocabulary.error import StoreRefused

WINDOW = 0.1
"""Over how many seconds rings are counted, and how long it must be quiet for the bell to hang again."""

CROWD = 20
"""That many rings within the window are a crowd: two hundred a second. Where a commit takes a millisecond, eight producers
that serialize their commits lose half of their speed at six hundred."""

LOOK = 0.004
"""How many seconds lie between two looks while the bell does not hang."""

HEAR = 0.05
"""How many seconds lie between two times that it is asked for cancels while it does not hang."""

SETTLING = (0.005, 0.02, 0.08, 0.3)
"""Looks after the bell was hung: a producer that met no bell may commit only after the first of them."""

ROUND = 5.0
"""How many seconds one wait for the bell lasts at most."""


class Waker:
    """Nudges the worker."""

    def __init__(
        self,
        bell: Bell,
        nudge: Callable[[], None],
        rung: Callable[[str], None],
        claimed: Callable[[], int],
        runtime: Runtime,
        canceled: Callable[[list[UUID]], None],
    ) -> None:
        """`nudge` makes the worker look for jobs, `rung` for those of one topic. `claimed` tells how many it has claimed so
        far; `canceled` hears of jobs that were canceled while they ran, here or elsewhere."""
        self.pulse = Pulse("wake-ups", runtime)
        self._bell = bell
        self._nudge = nudge
        self._rung = rung
        self._claimed = claimed
        self._runtime = runtime
        self._canceled = canceled
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start listening in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="brooq wake-ups")

    async def stop(self) -> None:
        """Stop listening."""
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        finally:
            await self._bell.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._bell.hang_up(self._rung)
                self.pulse.beat()
                await self._settle()
                await self._listen()
                await self._bell.take_down()
                await self._look_often()
            except StoreRefused as error:
                self.pulse.stumble(error)
                await self._bell.close()
                return  # no wake-ups here: polling is enough
            except Exception as error:  # noqa: BLE001  polling goes on whatever becomes of the hints
                await self._bell.close()
                await asyncio.sleep(self.pulse.stumble(error))

    async def _settle(self) -> None:
        for seconds in SETTLING:
            self._nudge()
            await self._wait(seconds)
        self._nudge()

    async def _listen(self) -> None:
        """Until they come in crowds."""
        rings, since = 0, self._runtime.clock()
        while rings < CROWD:
            rung = await self._wait(ROUND)
            now = self._runtime.clock()
            if now - since >= WINDOW:
                rings, since = 0, now
            rings += rung

    async def _wait(self, seconds: float) -> int:
        rung = await self._bell.wait(seconds)
        canceled = self._bell.canceled()
        if canceled:
            self._canceled(canceled)
        return rung

    async def _look_often(self) -> None:
        """Until nothing has come for a while."""
        claimed, since = self._claimed(), self._runtime.clock()
        heard = since
        while self._runtime.clock() - since < WINDOW:
            self._nudge()
            await asyncio.sleep(LOOK)
            if self._runtime.clock() - heard >= HEAR:
                await self._wait(0)
                heard = self._runtime.clock()
            if (now := self._claimed()) != claimed:
                claimed, since = now, self._runtime.clock()
