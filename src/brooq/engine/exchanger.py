"""The exchanger: lanes on which outcomes go out and claims come in.

Whatever has ended while the last exchange was on its way goes out with the next one. Few slots have one lane, where a
claim for the free ones travels along. Many have two: one for claims, of half the slots at a time, one for outcomes, so
that claims, outcomes and handlers are all at work at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from brooq.engine.attempt import Attempt
from brooq.engine.config import Config
from brooq.engine.limited import LimitedTopics
from brooq.engine.loop import Pulse
from brooq.engine.recorder import Recorder, outcome_of
from brooq.engine.runtime import Runtime
from brooq.engine.store import Exchange, Store, Taken
from brooq.vocabulary.error import StoreBusy, StoreRefused
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

FEW_SLOTS = 200
"""Up to this many slots one lane is enough: apart, claims and outcomes would be twice as many commits of half the
size, which costs more than it gains by overlapping (ADR 0016)."""

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
        slots = config.workers + config.prefetch
        few = slots <= FEW_SLOTS
        self.pulses = [Pulse(name, runtime) for name in (("exchange",) if few else ("claims", "outcomes"))]
        self._store = store
        self._worker = worker
        self._topics = deque(topics)
        self._lease = config.lease_time
        self._share = slots if few else -(-slots // 2)
        self._recorder = recorder
        self._runtime = runtime
        self._free = free
        self._begin = begin
        self._limited = LimitedTopics(store, worker, config.lease_time, self.look)
        self._ended: list[Attempt] = []
        self._hungry = True
        self._rung: dict[str, None] = {}
        """Topics that are to be looked at, when all are not."""
        self._exchanging = 0
        self._finished = False
        self._claims = asyncio.Event()
        self._outcomes = self._claims if few else asyncio.Event()
        self._progress = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._apart: set[asyncio.Task[None]] = set()
        # Each may have to wait for a locked row, on a connection of its own meanwhile.
        self._apart_at_once = asyncio.Semaphore(APART_AT_ONCE)

    def start(self) -> None:
        """Start the lanes in the running event loop."""
        loop = asyncio.get_running_loop()
        first, last = self.pulses[0], self.pulses[-1]
        for pulse in self.pulses:
            lane = self._lane(pulse, claims=pulse is first, outcomes=pulse is last)
            self._lanes.append(loop.create_task(lane, name=f"brooq {pulse.name}"))

    def look(self, topic: str = "") -> None:
        """There may be jobs, of one topic where it is named: claim as soon as a slot is free."""
        if topic:
            self._rung[topic] = None
        else:
            self._hungry = True
        self._claims.set()

    def freed(self, attempts: Iterable[Attempt]) -> None:
        """The slots of these have become free. Within the limits of their topics, that makes room for the next ones."""
        if not self._hungry and any(attempt.topic in self._limited for attempt in attempts):
            self._hungry = True
        self._claims.set()

    def send(self, attempts: Iterable[Attempt]) -> None:
        """Write the outcomes of these with the next exchange."""
        self._ended.extend(attempts)
        self._outcomes.set()

    async def flush(self, seconds: float, hasty: Callable[[], float | None]) -> None:
        """Wait until every outcome is written, for at most so many seconds; `hasty` may shorten what is left."""
        deadline = self._runtime.clock() + seconds
        while self._ended or self._exchanging or self._apart:
            short = hasty()
            if short is not None:
                deadline = min(deadline, short)
            left = deadline - self._runtime.clock()
            if left <= 0:
                log.error(text("engine.outcomes_left", count=len(self._ended) + len(self._apart)))
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
        self._limited.stop()
        tasks = [*self._lanes, *self._apart]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _lane(self, pulse: Pulse, *, claims: bool, outcomes: bool) -> None:
        work = self._claims if claims else self._outcomes
        try:
            while not self._finished:
                limit = self._claimable() if claims and (self._hungry or self._rung) else 0
                if not limit and not (outcomes and self._ended):
                    work.clear()
                    await work.wait()
                    continue
                attempts: list[Attempt] = []
                if outcomes:
                    attempts, self._ended = self._ended, attempts
                try:
                    await self._exchange(attempts, limit)
                except Exception as error:  # noqa: BLE001  a lane must survive whatever it meets (fault 50)
                    await asyncio.sleep(pulse.stumble(error))
                else:
                    pulse.beat()
        finally:
            pulse.alive = False

    def _claimable(self) -> int:
        """How many jobs the next exchange may claim. There is one claim at a time: two at once would look at the same
        rows, and lock in passing what the other has just taken, which its outcomes then have to wait for."""
        return max(min(self._free(), self._share), 0)

    async def _exchange(self, attempts: list[Attempt], limit: int) -> None:
        self._exchanging += 1
        try:
            exchange, left = await self._ask(attempts, limit)
        except (StoreRefused, StoreBusy) as error:
            self._set_apart(await self._recorder.separate(attempts, error))
        except BaseException:
            for attempt in attempts:
                attempt.uncertain = True
            self._ended = attempts + self._ended
            raise
        else:
            if attempts:
                self._set_apart(await self._recorder.confirm(attempts, exchange.settled))
                if self._outcomes is not self._claims and any(attempt.topic in self._limited for attempt in attempts):
                    self.look()  # the lane of claims has looked before these were recorded
            if left:
                await self._claim_limited(left)
        finally:
            self._exchanging -= 1
            self._progress.set()

    async def _ask(self, attempts: list[Attempt], limit: int) -> tuple[Exchange, int]:
        """One exchange with the store; what it claims begins at once. How many slots are left for limited topics."""
        topics: Sequence[str] = ()
        share = 0
        if limit:
            topics = self._asked()
            share = self._limited.share(limit)
            self._hungry = False  # whoever calls `look` from now on may know of jobs that this claim does not see
        full = True
        sent = self._runtime.clock()
        try:
            exchange = await self._store.exchange(
                self._worker, [outcome_of(attempt) for attempt in attempts], topics, share, self._lease
            )
            full = len(exchange.taken) >= share
        finally:
            if limit and full:
                self._hungry = True
        if exchange.taken:
            self._begin(exchange.taken, sent)
        if not limit:
            return exchange, 0
        self._limited.told(exchange.limited, topics)
        return exchange, limit - len(exchange.taken) if exchange.limited else 0

    def _asked(self) -> Sequence[str]:
        """The topics of the next claim: all of them in turns, or those that jobs were told of."""
        rung, self._rung = self._rung, {}
        if self._hungry:
            self._topics.rotate(-1)
            return self._topics
        return list(rung)

    async def _claim_limited(self, limit: int) -> None:
        """The limited topics' share of the free slots. Their outcomes of this round are recorded by now."""
        sent = self._runtime.clock()
        more = True
        try:
            more = await self._limited.claim(limit, lambda taken: self._begin(taken, sent))
        finally:
            if more:
                self._hungry = True

    def _set_apart(self, attempts: list[Attempt]) -> None:
        """Write these alone from now on, until they land or their lease has run out: one row must not hold up the rest."""
        for attempt in attempts:
            task = asyncio.get_running_loop().create_task(self._write_alone(attempt))
            self._apart.add(task)
            task.add_done_callback(self._apart.discard)

    async def _write_alone(self, attempt: Attempt) -> None:
        pulse = Pulse(f"outcome of {attempt.id}", self._runtime)
        deadline = self._runtime.clock() + self._lease.total_seconds()
        left = [attempt]
        while left and self._runtime.clock() < deadline:
            pulse.failures += 1
            await asyncio.sleep(pulse.pause())
            async with self._apart_at_once:
                left = await self._recorder.alone(attempt)
        if left:
            self._recorder.landed([attempt], recorded=False)
        self._progress.set()
