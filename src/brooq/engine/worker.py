"""The worker: fills its slots with claimed jobs, and says what became of them."""

from __future__ import annotations

import asyncio
import logging

from brooq.engine.attempt import Attempt
from brooq.engine.closing import Closing
from brooq.engine.config import Config
from brooq.engine.exchanger import Exchanger
from brooq.engine.keeper import LeaseKeeper
from brooq.engine.kind import Kind
from brooq.engine.listeners import Listeners
from brooq.engine.loop import Pulse
from brooq.engine.metrics import Metrics
from brooq.engine.outcome import Ending, Outcome, decide, released
from brooq.engine.recorder import Entry, Recorder
from brooq.engine.runtime import Runtime
from brooq.engine.store import Hold, Store, Taken
from brooq.vocabulary.event import JobClaimed
from brooq.vocabulary.job import State
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import Interruption, LeaseLost, ShuttingDown, Signal

log = logging.getLogger("brooq")

EXIT_MARGIN = 2.0
"""How many seconds a handler interrupted by a shutdown has to exit before its job is handed back all the same."""


class Worker:
    """Runs jobs in the event loop that calls `start`."""

    def __init__(
        self,
        store: Store,
        name: str,
        kinds: dict[str, Kind],
        config: Config,
        metrics: Metrics,
        listeners: Listeners,
        runtime: Runtime,
    ) -> None:
        """`name` is the owner of this worker's leases: never used by another process start."""
        self.name = name
        self.abandoned: list[Attempt] = []
        """Attempts whose handler had not exited when the worker stopped."""
        self.keeper = LeaseKeeper(store, name, config, runtime, self._lose)
        self._store = store
        self._kinds = kinds
        self._config = config
        self._lease = config.lease_time
        self._metrics = metrics
        self._listeners = listeners
        self._runtime = runtime
        self._recorder = Recorder(store, name, self.keeper, metrics, listeners)
        self._exchanger = Exchanger(
            store, name, kinds, config, self._recorder, runtime, free=self._free, begin=self._begin
        )
        self._running: dict[Hold, Attempt] = {}
        self._stopping = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._hastened: float | None = None
        self._hasten = asyncio.Event()

    def start(self) -> None:
        """Start keeping leases and exchanging."""
        self.keeper.start()
        self._exchanger.start()

    def nudge(self) -> None:
        """There may be jobs: look now."""
        self._exchanger.look()

    async def poll(self) -> None:
        """The tick of the poll loop: polling is the truth, everything else only hastens it."""
        self.nudge()

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopping

    def running(self) -> list[str]:
        """`topic id` of every job whose handler runs now, hung handlers included."""
        return [f"{attempt.kind.topic} {attempt.hold.id}" for attempt in list(self._running.values())]

    def busy(self) -> dict[str, int]:
        """How many slots each topic occupies, hung handlers included."""
        counts = dict.fromkeys(self._kinds, 0)
        for attempt in self._running.values():
            counts[attempt.kind.topic] += 1
        return counts

    @property
    def all_hung(self) -> bool:
        """Whether every slot is taken by a handler that does not exit."""
        hung = sum(attempt.hung for attempt in self._running.values())
        return hung >= self._config.workers

    @property
    def pulses(self) -> list[Pulse]:
        """How the lanes are."""
        return self._exchanger.pulses

    # --- attempts ---

    def _free(self) -> int:
        return 0 if self._stopping else self._config.workers - len(self._running)

    def _begin(self, taken: list[Taken], sent: float) -> None:
        if self._stopping or self._runtime.clock() >= sent + self._config.lease_seconds:
            # Claimed, never started: straight back (U3). So is what came so late that the lease is over by now (L3).
            self._exchanger.send(Entry(None, each.topic, released(each.id, each.token)) for each in taken)
            return
        loop = asyncio.get_running_loop()
        now = self._runtime.clock()
        attempts = []
        for each in taken:
            attempt = Attempt(each, self._kinds[each.topic], self.name, sent, now)
            attempts.append(attempt)
            self._running[attempt.hold] = attempt
            self._metrics.claimed[each.topic] += 1
            self._metrics.pickup_seconds[each.topic].add(each.waited)
        self.keeper.hold([attempt.hold for attempt in attempts], sent)
        self._quiet.clear()
        if self._listeners:
            for attempt in attempts:
                claim = attempt.claim
                event = JobClaimed(claim.id, claim.topic, claim.attempt, claim.token, attempt.waited)
                self._listeners.emit(event)
        for attempt in attempts:
            attempt.task = loop.create_task(attempt.run(self._ended))
        # Behind the first step of every one of them: a handler that never waits needs no timers.
        loop.call_soon(self._arm, attempts, now)

    def _arm(self, attempts: list[Attempt], now: float) -> None:
        for attempt in attempts:
            if self._running.get(attempt.hold) is attempt and not attempt.detached and not attempt.closing:
                attempt.arm(now, self._exceeded, self._interrupt)

    # --- endings ---

    def _ended(self, attempt: Attempt) -> None:
        """The handler has exited."""
        attempt.disarm()
        attempt.ended_at = self._runtime.clock()
        self._metrics.attempt_seconds[attempt.kind.topic].add(attempt.ended_at - attempt.started_at)
        if attempt.detached:
            self._leave(attempt)
            return
        self._report(attempt)
        outcome = self._decide(attempt)
        claim = attempt.claim
        if outcome.state is State.DONE and (claim._callbacks or claim._chained):  # noqa: SLF001  the engine made it
            closing = Closing(self._store, self.name, attempt, outcome, self._runtime)
            attempt.closing = True
            attempt.task = asyncio.get_running_loop().create_task(self._close(attempt, closing))
        else:
            self._record(attempt, outcome)
            self._leave(attempt)

    def _decide(self, attempt: Attempt) -> Outcome:
        claim = attempt.claim
        outcome = decide(
            claim.id,
            claim.token,
            claim.attempt,
            Ending(attempt.error, claim.interruption),
            attempt.kind.options,
            attempt.max_attempts,
            self._runtime.random,
        )
        assert outcome is not None, "an attempt whose lease is lost is detached"
        return outcome

    def _record(self, attempt: Attempt, outcome: Outcome) -> None:
        self._exchanger.send([Entry(attempt, attempt.kind.topic, outcome)])

    def _leave(self, attempt: Attempt) -> None:
        """The slot is free again."""
        if self._running.get(attempt.hold) is attempt:
            del self._running[attempt.hold]
        self._exchanger.freed()
        if not self._running:
            self._quiet.set()

    async def _close(self, attempt: Attempt, closing: Closing) -> None:
        """Close the job in a transaction of its own, with the handler's callbacks and chained jobs."""
        try:
            settled = await closing.run()
        except BaseException as error:  # noqa: BLE001  the consumer's callback may raise anything (C9, C10)
            if not attempt.detached:
                attempt.error = error
                self._report(attempt)
                self._record(attempt, self._decide(attempt))
        else:
            self._recorder.landed([Entry(attempt, attempt.kind.topic, closing.outcome)], recorded=settled)
        finally:
            self._leave(attempt)

    def _report(self, attempt: Attempt) -> None:
        error, claim = attempt.error, attempt.claim
        if error is None or claim.interruption is not None:
            return
        extra = {"job": str(claim.id), "topic": claim.topic, "attempt": claim.attempt}
        if isinstance(error, Signal):
            log.info(text("engine.signal", job=claim.id, topic=claim.topic, signal=type(error).__name__), extra=extra)
        else:
            log.error(
                text(
                    "engine.attempt_failed",
                    job=claim.id,
                    topic=claim.topic,
                    attempt=claim.attempt,
                    kind=type(error).__name__,
                ),
                exc_info=error,
                extra=extra,
            )

    # --- interruptions ---

    def _interrupt(self, attempt: Attempt, cause: Interruption) -> None:
        attempt.interrupt(cause, self._config.watchdog_seconds, self._hung)

    def _exceeded(self, attempt: Attempt) -> None:
        """The ceiling of one attempt: the failure is recorded now, however the handler behaves (I2)."""
        if attempt.detached or self._running.get(attempt.hold) is not attempt:
            return
        cause = attempt.exceeded()
        if attempt.claim.interruption is None:
            self._interrupt(attempt, cause)
        attempt.claim.interruption = cause
        attempt.ended_at = self._runtime.clock()
        self._record(attempt, self._decide(attempt))
        attempt.detached = True
        self.keeper.release(attempt.hold)

    def _lose(self, holds: list[Hold]) -> None:
        """The keeper says: held no longer. Nothing may be written."""
        for hold in holds:
            self.keeper.release(hold)
            attempt = self._running.get(hold)
            if attempt is None or attempt.detached or attempt.closing:
                continue  # its outcome is on its way: the guard decides
            attempt.detached = True
            topic = attempt.kind.topic
            self._metrics.lease_lost[topic] += 1
            log.info(text("engine.lease_lost", job=hold.id, topic=topic), extra={"job": str(hold.id), "topic": topic})
            self._interrupt(attempt, LeaseLost(text("engine.lease_lost", job=hold.id, topic=topic)))

    def _hung(self, attempt: Attempt) -> None:
        """The watchdog: interrupted, and still not gone (I5)."""
        if attempt.hung or self._running.get(attempt.hold) is not attempt:
            return
        attempt.hung = True
        topic = attempt.kind.topic
        self._metrics.hung[topic] += 1
        seconds = self._runtime.clock() - attempt.started_at
        log.error(
            text("engine.hung", job=attempt.hold.id, topic=topic, seconds=seconds),
            extra={"job": str(attempt.hold.id), "topic": topic},
        )

    # --- stopping ---

    def hasten(self) -> None:
        """Cut short every grace of a stop in progress."""
        self._hastened = self._runtime.clock() + EXIT_MARGIN
        self._hasten.set()

    async def stop(self, grace: float) -> None:
        """Claim no more, let handlers end within `grace` seconds, interrupt the rest, hand back what is left, and write
        every outcome that can be written: what cannot before its lease has run out would be refused anyway."""
        self._stopping = True
        try:
            await self._until_quiet(grace, self._hasten)
            for attempt in list(self._running.values()):
                if not attempt.detached and not attempt.closing:
                    cause = text("engine.shutting_down", job=attempt.hold.id)
                    attempt.interrupt(ShuttingDown(cause), EXIT_MARGIN, self._hung)
            await self._until_quiet(min(EXIT_MARGIN, self._config.watchdog_seconds))
            self.abandoned = list(self._running.values())
            for attempt in self.abandoned:
                self._abandon(attempt)
            await self._exchanger.flush(self._config.lease_seconds, lambda: self._hastened)
        finally:
            # Even when whoever waits for the stop gives up: leases renewed for nobody would keep their jobs for ever.
            await self._exchanger.stop()
            await self.keeper.stop()

    def _abandon(self, attempt: Attempt) -> None:
        """The handler (or its callback) does not exit: its job must not wait for that."""
        self._hung(attempt)
        if attempt.detached:
            return
        if attempt.closing and attempt.task is not None:
            attempt.task.cancel()  # its transaction rolls back, and lets go of the row
        cause = attempt.claim.interruption
        spent = cause is not None and not isinstance(cause, ShuttingDown)
        self._record(attempt, self._decide(attempt) if spent else released(*attempt.hold))
        attempt.detached = True

    async def _until_quiet(self, seconds: float, hasten: asyncio.Event | None = None) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self._quiet, hasten) if event is not None]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
