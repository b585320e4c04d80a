"""The worker: fills its slots with claimed jobs, and says what became of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from brooq.engine.attempt import Attempt
from brooq.engine.bind import Grounds
from brooq.engine.closing import Closing
from brooq.engine.complaint import Complaints
from brooq.engine.config import Config
from brooq.engine.exchanger import Exchanger
from brooq.engine.keeper import LeaseKeeper
from brooq.engine.kind import Kind, Wrap
from brooq.engine.listeners import Listeners
from brooq.engine.loop import Pulse, end_all
from brooq.engine.metrics import Metrics
from brooq.engine.outcome import Ending, Outcome, decide, quarantined, released
from brooq.engine.progress import ClaimHands
from brooq.engine.recorder import Recorder
from brooq.engine.redactor import Redactor
from brooq.engine.runtime import Runtime
from brooq.engine.slots import Slots
from brooq.engine.store import Running, Store, Taken
from brooq.vocabulary.claim import Lease
from brooq.vocabulary.event import JobClaimed
from brooq.vocabulary.job import State
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import Interruption, LeaseLost, MaxExecutionExceeded, ShuttingDown

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
        redact: Redactor = str,
        around: Sequence[Wrap] = (),
    ) -> None:
        """`redact` has the last word on the text of a failure.
        `name` is the owner of this worker's leases: never used by another process start."""
        self.name = name
        self.abandoned: list[Attempt] = []
        """Attempts whose handler had not exited when the worker stopped."""
        self.keeper = LeaseKeeper(store, name, config, runtime, self._lose)
        self._store = store
        self._quarantines = any(kind.options.quarantine_after is not None for kind in kinds.values())
        self._grounds = Grounds(runtime)
        self._kinds = {topic: self._grounds.bind(kind) for topic, kind in kinds.items()}
        for wrap in around:
            self._kinds = {topic: replace(kind, call=wrap(kind.call)) for topic, kind in self._kinds.items()}
        self._config = config
        self._metrics = metrics
        self._listeners = listeners
        self._runtime = runtime
        self._complaints = Complaints()
        self._redact = redact
        self._recorder = Recorder(store, name, self.keeper, metrics, listeners)
        self._exchanger = Exchanger(
            store, name, kinds, config, self._recorder, runtime, free=self._free, begin=self._begin
        )
        self._slots = Slots(config.workers, runtime, started=self._started, waits=self._arm, ended=self._ended)
        self._hands = ClaimHands(store, name)
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

    def rung(self, topic: str) -> None:
        """There is a job of this topic: look now."""
        self._exchanger.look(topic)

    def doubt(self, jobs: Sequence[UUID]) -> None:
        """Somebody may have taken these jobs away: renew at once, if any of them is held here."""
        self.keeper.doubt(jobs)

    async def poll(self) -> None:
        """The tick of the poll loop: polling is the truth, everything else only hastens it."""
        self.nudge()

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopping

    def running(self) -> list[str]:
        """`topic id` of every job whose handler runs now, hung handlers included."""
        return [f"{attempt.topic} {attempt.id}" for attempt in list(self._slots.running)]

    def busy(self) -> dict[str, int]:
        """How many slots each topic occupies, hung handlers included."""
        counts = dict.fromkeys(self._kinds, 0)
        for attempt in self._slots.running:
            counts[attempt.topic] += 1
        return counts

    def slots(self, limit: int) -> list[Running]:
        """What the slots do: those that have run longest, up to `limit`."""
        now = self._runtime.clock()
        return [
            Running(each.id, each.topic, each.claim.attempt, max(now - each.started_at, 0.0), each.hung)
            for each in islice(self._slots.running, limit)
        ]

    @property
    def all_hung(self) -> bool:
        """Whether every slot is taken by a handler that does not exit."""
        hung = sum(attempt.hung for attempt in self._slots.running)
        return hung >= self._config.workers

    @property
    def pulses(self) -> list[Pulse]:
        """How the lanes are."""
        return self._exchanger.pulses

    # --- attempts ---

    def _free(self) -> int:
        if self._stopping:
            return 0
        return self._config.workers + self._config.prefetch - len(self._slots.running) - len(self._slots.waiting)

    def _begin(self, taken: list[Taken], sent: float) -> None:
        lease = Lease(self.name, taken[0].until)  # one claim, one lease
        attempts = [Attempt(each, self._kinds[each.topic], lease, sent, self._hands) for each in taken]
        if self._stopping or self._runtime.clock() >= sent + self._config.lease_seconds:
            # Claimed, never started: straight back (U3). So is what came so late that the lease is over by now (L3).
            self._release(attempts)
            return
        for attempt in attempts:
            self._metrics.claimed[attempt.topic] += 1
        if self._listeners:
            for attempt in attempts:
                claim = attempt.claim
                event = JobClaimed(claim.id, claim.topic, claim.attempt, claim.token, attempt.waited)
                self._listeners.emit(event)
        if self._quarantines and any(each.expired_leases for each in taken):
            attempts = self._without_quarantined(taken, attempts)
            if not attempts:
                return
        slots = self._slots
        room = self._config.workers - len(slots.running) - len(slots.waiting)
        for attempt in attempts[max(room, 0) :]:
            attempt.ahead = True
        self.keeper.hold(attempts, sent)
        self._quiet.clear()
        self._slots.add(attempts)

    def _without_quarantined(self, taken: list[Taken], attempts: list[Attempt]) -> list[Attempt]:
        """Put away the jobs whose leases ran out too often for their kind, before another try (I7)."""
        left = []
        for each, attempt in zip(taken, attempts, strict=True):
            allowed = attempt.kind.options.quarantine_after
            if allowed is None or each.expired_leases < allowed:
                left.append(attempt)
                continue
            attempt.outcome = quarantined(attempt.id, attempt.token, each.expired_leases)
            self._exchanger.send([attempt])
            job, topic = str(attempt.id), attempt.topic
            message = text("engine.put_away", job=job, topic=topic, leases=each.expired_leases)
            log.error(message, extra={"job": job, "topic": topic})
        return left

    def _release(self, attempts: list[Attempt]) -> None:
        """Hand back what was claimed and never started."""
        for attempt in attempts:
            attempt.outcome = released(attempt.id, attempt.token)
        self._exchanger.send(attempts)

    def _started(self, attempts: list[Attempt]) -> None:
        histograms = self._metrics.pickup_seconds
        for attempt in attempts:
            histograms[attempt.topic].add(attempt.waited + attempt.started_at - attempt.claimed_at)
            if attempt.ahead:
                attempt.claimed_at = attempt.started_at

    def _arm(self, attempt: Attempt) -> None:
        """A handler that never waits needs no timers: this one does."""
        if not attempt.detached:
            attempt.arm(self._exceeded, self._interrupt)

    # --- endings ---

    def _ended(self, attempts: list[Attempt]) -> None:
        """The handlers have exited."""
        histograms = self._metrics.attempt_seconds
        decided, left = [], []
        for attempt in attempts:
            histograms[attempt.topic].add(attempt.ended_at - attempt.started_at)
            if attempt.detached:
                left.append(attempt)
                continue
            if attempt.error is not None:
                self._complaints.add(attempt)
            claim = attempt.claim
            outcome = attempt.outcome = self._decide(attempt)
            if outcome.state is State.DONE and (claim._callbacks or claim._chained):  # noqa: SLF001  the engine made it
                closing = Closing(self._store, self.name, attempt, outcome, self._runtime)
                attempt.closing = True
                attempt.task = asyncio.get_running_loop().create_task(self._close(attempt, closing))
            else:
                decided.append(attempt)
        if decided:
            self._exchanger.send(decided)
            left += decided
        self._leave(left)

    def _decide(self, attempt: Attempt) -> Outcome:
        claim = attempt.claim
        if attempt.error is None and claim.interruption is None:
            # What `decide` would say, without asking.
            if attempt.kind.options.keep_result:
                return Outcome(attempt.id, attempt.token, State.DONE, result=claim._result)  # noqa: SLF001  ours
            return Outcome(attempt.id, attempt.token, State.DONE)
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
        if outcome.error is not None:
            outcome.error = self._redact(outcome.error)
        return outcome

    def _record(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        self._exchanger.send([attempt])

    def _leave(self, attempts: list[Attempt]) -> None:
        """Their slots are free again."""
        self._slots.leave(attempts)
        self._exchanger.freed(attempts)
        if not self._slots.running and not self._slots.waiting:
            self._quiet.set()

    async def _close(self, attempt: Attempt, closing: Closing) -> None:
        """Close the job in a transaction of its own, with the handler's callbacks and chained jobs."""
        try:
            settled = await closing.run()
        except BaseException as error:  # noqa: BLE001  the consumer's callback may raise anything (C9, C10)
            if not attempt.detached:
                attempt.error = error
                self._complaints.add(attempt)
                self._record(attempt, self._decide(attempt))
        else:
            self._recorder.landed([attempt], recorded=settled)
        finally:
            self._leave([attempt])

    # --- interruptions ---

    def _interrupt(self, attempt: Attempt, cause: Interruption) -> None:
        attempt.interrupt(cause, self._config.watchdog_seconds, self._hung)

    def _exceeded(self, attempt: Attempt) -> None:
        """The ceiling of one attempt: the failure is recorded now, however the handler behaves (I2)."""
        if attempt.detached or attempt not in self._slots.running:
            return
        cause = attempt.exceeded()
        if attempt.claim.interruption is None:
            self._interrupt(attempt, cause)
        elif not isinstance(attempt.claim.interruption, MaxExecutionExceeded) and attempt.kill():
            # Its death is its end, and tells more than the ceiling alone.
            attempt.claim.interruption = cause
            attempt.look_again(EXIT_MARGIN, self._exceeded)
            return
        attempt.claim.interruption = cause
        attempt.ended_at = self._runtime.clock()
        self._record(attempt, self._decide(attempt))
        attempt.detached = True
        self.keeper.release(attempt)

    def _lose(self, attempts: list[Attempt]) -> None:
        """The keeper says: held no longer. Nothing may be written."""
        self.keeper.release(*attempts)
        for attempt in attempts:
            if attempt.outcome is not None or attempt.detached or attempt.closing:
                continue  # its outcome is on its way: the guard decides
            attempt.detached = True
            self._slots.remove(attempt)
            job, topic = attempt.id, attempt.topic
            self._metrics.lease_lost[topic] += 1
            log.info(text("engine.lease_lost", job=job, topic=topic), extra={"job": str(job), "topic": topic})
            self._interrupt(attempt, LeaseLost(text("engine.lease_lost", job=job, topic=topic)))

    def _hung(self, attempt: Attempt) -> None:
        """The watchdog: interrupted, and still not gone (I5)."""
        if attempt.hung or attempt not in self._slots.running:
            return
        attempt.hung = True
        topic = attempt.topic
        self._metrics.hung[topic] += 1
        seconds = self._runtime.clock() - attempt.started_at
        key = "engine.hung_killed" if attempt.kind.options.isolation else "engine.hung"
        log.error(
            text(key, job=attempt.id, topic=topic, seconds=seconds),
            extra={"job": str(attempt.id), "topic": topic},
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
        unstarted = list(self._slots.waiting)
        self._slots.waiting.clear()
        self._release(unstarted)
        if not self._slots.running:
            self._quiet.set()
        try:
            await self._until_quiet(grace, self._hasten)
            margin = min(EXIT_MARGIN, self._config.watchdog_seconds)
            for attempt in list(self._slots.running):
                if not attempt.detached and not attempt.closing:
                    cause = text("engine.shutting_down", job=attempt.id)
                    # What can be killed is, so early that its end is still seen.
                    soon = margin / 2 if attempt.kind.options.isolation else EXIT_MARGIN
                    attempt.interrupt(ShuttingDown(cause), soon, self._hung)
            await self._until_quiet(margin)
            self.abandoned = list(self._slots.running)
            for attempt in self.abandoned:
                self._abandon(attempt)
            await self._exchanger.flush(self._config.lease_seconds, lambda: self._hastened)
        finally:
            self._complaints.close()
            # All of them, even when whoever waits gives up: leases renewed for nobody would keep their jobs for ever.
            await end_all(self._exchanger.stop, self.keeper.stop, self._hands.close, self._grounds.close)

    def _abandon(self, attempt: Attempt) -> None:
        """The handler (or its callback) does not exit: its job must not wait for that."""
        self._hung(attempt)
        if attempt.detached:
            return
        if attempt.closing and attempt.task is not None:
            attempt.task.cancel()  # its transaction rolls back, and lets go of the row
        cause = attempt.claim.interruption
        spent = cause is not None and not isinstance(cause, ShuttingDown)
        self._record(attempt, self._decide(attempt) if spent else released(attempt.id, attempt.token))
        attempt.detached = True

    async def _until_quiet(self, seconds: float, hasten: asyncio.Event | None = None) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self._quiet, hasten) if event is not None]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
