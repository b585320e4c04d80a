"""The exchanger: lanes on which outcomes go out and claims come in.

Whatever has ended while the last exchange was on its way goes out with the next one, together with a claim for the slots
that are free. With two lanes handlers work while the database does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from brooq.engine.config import Config
from brooq.engine.loop import Pulse
from brooq.engine.recorder import Entry, Recorder
from brooq.engine.runtime import Runtime
from brooq.engine.store import Exchange, Store, Taken
from brooq.vocabulary.error import StoreBusy, StoreRefused
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

LANES = 2
FEW_SLOTS = 32
"""Below this many slots one lane is enough: splitting them would only halve the batches."""

APART_AT_ONCE = 2
"""How many outcomes that are written alone are on their way at one time."""

FLUSH_STEP = 0.1
"""How many seconds a stop waits at most before it looks again whether everything is written."""


class Exchanger:
    """Runs the lanes of one worker."""

    def __init__(
        self,
        store: Store,
        worker: str,
        topics: Iterable[str],
        config: Config,
        recorder: Recorder,
        runtime: Runtime,
        *,
        free: Callable[[], int],
        begin: Callable[[list[Taken], float], None],
    ) -> None:
        """`free` tells how many slots are free now; `begin` gets what was claimed, and the clock from before it was."""
        count = 1 if config.workers < FEW_SLOTS else LANES
        self.pulses = [Pulse(f"lane {number + 1}", runtime) for number in range(count)]
        self._store = store
        self._worker = worker
        self._topics = deque(topics)
        self._lease = config.lease_time
        self._share = -(-config.workers // count)
        self._recorder = recorder
        self._runtime = runtime
        self._free = free
        self._begin = begin
        self._entries: list[Entry] = []
        self._hungry = True
        self._claiming = False
        self._exchanging = 0
        self._finished = False
        self._work = asyncio.Event()
        self._progress = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._apart: set[asyncio.Task[None]] = set()
        # Each may have to wait for a locked row, on a connection of its own meanwhile.
        self._apart_at_once = asyncio.Semaphore(APART_AT_ONCE)

    def start(self) -> None:
        """Start the lanes in the running event loop."""
        loop = asyncio.get_running_loop()
        for pulse in self.pulses:
            self._lanes.append(loop.create_task(self._lane(pulse), name=f"brooq {pulse.name}"))

    def look(self) -> None:
        """There may be jobs: claim as soon as a slot is free."""
        self._hungry = True
        self._work.set()

    def freed(self) -> None:
        """A slot has become free."""
        self._work.set()

    def send(self, entries: Iterable[Entry]) -> None:
        """Write these outcomes with the next exchange."""
        self._entries.extend(entries)
        self._work.set()

    async def flush(self, seconds: float, hasty: Callable[[], float | None]) -> None:
        """Wait until every outcome is written, for at most so many seconds; `hasty` may shorten what is left."""
        deadline = self._runtime.clock() + seconds
        while self._entries or self._exchanging or self._apart:
            short = hasty()
            if short is not None:
                deadline = min(deadline, short)
            left = deadline - self._runtime.clock()
            if left <= 0:
                log.error(text("engine.outcomes_left", count=len(self._entries) + len(self._apart)))
                return
            self._progress.clear()
            try:
                async with asyncio.timeout(min(left, FLUSH_STEP)):
                    await self._progress.wait()
            except TimeoutError:
                pass

    async def stop(self) -> None:
        """Stop the lanes."""
        self._finished = True
        self._work.set()
        tasks = [*self._lanes, *self._apart]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _lane(self, pulse: Pulse) -> None:
        try:
            while not self._finished:
                if not self._entries and not (self._hungry and self._claimable()):
                    self._work.clear()
                    await self._work.wait()
                    continue
                try:
                    await self._exchange()
                except Exception as error:  # noqa: BLE001  a lane must survive whatever it meets (fault 50)
                    await asyncio.sleep(pulse.stumble(error))
                else:
                    pulse.beat()
        finally:
            pulse.alive = False

    def _claimable(self) -> int:
        """How many jobs the next exchange may claim. One claim at a time: two at once would look at the same rows, and
        lock in passing what the other has just taken, which its outcomes then have to wait for."""
        return 0 if self._claiming else max(min(self._free(), self._share), 0)

    async def _exchange(self) -> None:
        entries, self._entries = self._entries, []
        self._exchanging += 1
        try:
            exchange = await self._ask(entries, self._claimable())
        except (StoreRefused, StoreBusy) as error:
            self._set_apart(await self._recorder.separate(entries, error))
        except BaseException:
            for entry in entries:
                entry.uncertain = True
            self._entries = entries + self._entries
            raise
        else:
            if entries:
                self._set_apart(await self._recorder.confirm(entries, exchange.settled))
        finally:
            self._exchanging -= 1
            self._progress.set()

    async def _ask(self, entries: list[Entry], limit: int) -> Exchange:
        """One exchange with the store; what it claims begins at once."""
        self._topics.rotate(-1)
        sent = self._runtime.clock()
        if limit:
            self._claiming = True
            self._hungry = False  # whoever calls `look` from now on may know of jobs that this claim does not see
        full = True
        try:
            exchange = await self._store.exchange(
                self._worker, [entry.outcome for entry in entries], self._topics, limit, self._lease
            )
            full = len(exchange.taken) >= limit
        finally:
            if limit:
                self._claiming = False
                if full:
                    self._hungry = True
                self._work.set()
        if exchange.taken:
            self._begin(exchange.taken, sent)
        return exchange

    def _set_apart(self, entries: list[Entry]) -> None:
        """Write these alone from now on, until they land or their lease has run out: one row must not hold up the rest."""
        for entry in entries:
            task = asyncio.get_running_loop().create_task(self._write_alone(entry))
            self._apart.add(task)
            task.add_done_callback(self._apart.discard)

    async def _write_alone(self, entry: Entry) -> None:
        pulse = Pulse(f"outcome of {entry.outcome.id}", self._runtime)
        deadline = self._runtime.clock() + self._lease.total_seconds()
        left = [entry]
        while left and self._runtime.clock() < deadline:
            pulse.failures += 1
            await asyncio.sleep(pulse.pause())
            async with self._apart_at_once:
                left = await self._recorder.alone(entry)
        if left:
            self._recorder.landed([entry], recorded=False)
        self._progress.set()
