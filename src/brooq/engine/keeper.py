"""The lease keeper: renews what this process holds, and tells at once what it holds no longer.

Renewals run apart from the handlers (requirement L2). The fence is a timer of its own, measured from before the last
good renewal was sent (L3): a query that hangs on a dead link comes back too late to tell anything.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from brooq.engine.config import Config
from brooq.engine.loop import Pulse
from brooq.engine.runtime import Isolated, Runtime
from brooq.engine.store import Hold, Renewer, Store


class Held(Protocol):
    """Whatever stands for a claim."""

    @property
    def id(self) -> UUID:
        """The job."""

    @property
    def token(self) -> int:
        """The fence."""


GATHER = 0.005
"""For how many seconds a renewal that is asked for waits for others."""


class Watchdog(NamedTuple):
    """Somebody who acts when he is not fed: `feed` is called every `period` seconds, in the thread of the renewals."""

    feed: Callable[[], object]
    period: float


BATCH = 1000
"""How many leases one statement renews."""


class LeaseKeeper:
    """Keeps the leases of one worker process."""

    def __init__(
        self, store: Store, worker: str, config: Config, runtime: Runtime, lost: Callable[[list[Any]], None]
    ) -> None:
        """`lost` is called in the loop that called `start`, with what was held and is gone for good."""
        self.pulse = Pulse("lease keeper", runtime)
        self._store = store
        self._worker = worker
        self.lease = config.lease_time
        self._period = config.lease_seconds / 3
        self._runtime = runtime
        self._lost = lost
        self._deadlines: dict[Held, float] = {}
        self._lock = threading.Lock()
        self._held = asyncio.Event()
        self._next = math.inf
        self._isolated: Isolated | None = None
        self._away: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._fence: asyncio.Task[None] | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self.watchdog: Watchdog | None = None
        """Fed where leases are renewed; to be set before the start."""

    def start(self) -> None:
        """Start renewing."""
        self._home = asyncio.get_running_loop()
        self._fence = self._home.create_task(self._watch_deadlines(), name="brooq fence")
        self._isolated = self._runtime.isolate(self._renew_forever, "brooq-leases")

    async def stop(self) -> None:
        """Stop renewing. What is still held then runs out by itself."""
        if self._isolated is not None:
            await self._isolated.stop()
        if self._fence is not None:
            self._fence.cancel()
            await asyncio.wait([self._fence])
        self._isolated = self._fence = None

    @property
    def alive(self) -> bool:
        """Whether renewals and the fence still run."""
        return (
            self._isolated is not None and self._isolated.alive and self._fence is not None and not self._fence.done()
        )

    def hold(self, holds: Iterable[Held], sent: float) -> None:
        """Keep these; `sent` is the clock from before their claim went out: the lease is surely valid a lease from then."""
        deadline = sent + self.lease.total_seconds()
        with self._lock:
            self._deadlines.update(dict.fromkeys(holds, deadline))
        if deadline < self._next:
            self._held.set()

    def release(self, *holds: Held) -> None:
        """Keep these no longer; nothing happens when one is not kept."""
        with self._lock:
            for hold in holds:
                self._deadlines.pop(hold, None)

    def doubt(self, jobs: Iterable[UUID]) -> None:
        """Renew now if any of these is kept: the renewal tells whether it is still held. From any thread."""
        asked = set(jobs)
        with self._lock:
            kept = any(held.id in asked for held in self._deadlines)
        if not kept or self._away is None:
            return
        loop, soon = self._away
        try:
            loop.call_soon_threadsafe(soon.set)
        except RuntimeError:
            pass  # renewals have ended

    async def beat(self, renewer: Renewer) -> None:
        """Renew every lease once. Raises StoreUnavailable: then nothing is known, and the old deadlines stand."""
        with self._lock:
            held = {Hold(each.id, each.token): each for each in self._deadlines}
        holds = sorted(held)
        for start in range(0, len(holds), BATCH):
            batch = holds[start : start + BATCH]
            sent = self._runtime.clock()
            renewal = await renewer.renew(self._worker, batch, self.lease)
            deadline = sent + self.lease.total_seconds()
            with self._lock:
                for hold in renewal.renewed:
                    if held[hold] in self._deadlines:
                        self._deadlines[held[hold]] = deadline
            if renewal.lost:
                self._tell([held[hold] for hold in renewal.lost])

    def _tell(self, holds: list[Held]) -> None:
        assert self._home is not None
        try:
            self._home.call_soon_threadsafe(self._lost, holds)
        except RuntimeError:
            pass  # the consumer's loop is closed; there is no handler left to interrupt

    async def _renew_forever(self) -> None:
        renewer = await self._store.renewer()
        soon = asyncio.Event()
        self._away = asyncio.get_running_loop(), soon
        feeding = None if self.watchdog is None else asyncio.ensure_future(_feed(self.watchdog))
        try:
            wait = self._period
            while True:
                await self._pause(soon, wait)
                try:
                    await self.beat(renewer)
                except Exception as error:  # noqa: BLE001  one failed renewal must not end the heartbeat (fault 7)
                    # Soon again: there are two more tries' worth of lease left, and an outage may be short.
                    wait = min(self.pulse.stumble(error), self._period / 4)
                else:
                    self.pulse.beat()
                    wait = self._period
        finally:
            if feeding is not None:
                feeding.cancel()
            await renewer.close()

    async def _pause(self, soon: asyncio.Event, seconds: float) -> None:
        """Until the next renewal is due, or asked for; several that are asked for at one time are one."""
        try:
            async with asyncio.timeout(seconds):
                await soon.wait()
            await asyncio.sleep(GATHER)
        except TimeoutError:
            pass
        soon.clear()

    async def _watch_deadlines(self) -> None:
        """Sleeps until the earliest deadline. Renewals only move deadlines on, but a claim whose answer took long can
        bring an earlier one: `hold` wakes this then."""
        loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                self._next = min(self._deadlines.values(), default=math.inf)
            self._held.clear()
            left = self._next - self._runtime.clock()
            if left > 0:
                timer = None if math.isinf(left) else loop.call_later(left, self._held.set)
                try:
                    await self._held.wait()
                finally:
                    if timer is not None:
                        timer.cancel()
            now = self._runtime.clock()
            with self._lock:
                expired = [hold for hold, deadline in self._deadlines.items() if deadline <= now]
                for hold in expired:
                    del self._deadlines[hold]
            if expired:
                self._lost(expired)


async def _feed(watchdog: Watchdog) -> None:
    """Of its own beside the renewals: a renewal that waits for an answer is no reason to end the process."""
    while True:
        watchdog.feed()
        await asyncio.sleep(watchdog.period)
