"""Tells what became of outcomes that were sent: recorded, refused by their guard, or to be sent once more."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from brooq.engine.attempt import Attempt
from brooq.engine.keeper import LeaseKeeper
from brooq.engine.listeners import Listeners
from brooq.engine.metrics import Metrics
from brooq.engine.outcome import Outcome
from brooq.engine.store import Fate, Hold, Store
from brooq.vocabulary.error import StoreBusy, StoreError, StoreRefused
from brooq.vocabulary.event import Event, JobCanceled, JobDead, JobDone, JobFailed, JobRequeued
from brooq.vocabulary.job import State
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

UNRECORDABLE = "the reason of this failure was refused by the database"
REFUSED = "refused"
REQUEUED = "requeued"


@dataclass(slots=True)
class Entry:
    """An outcome on its way. `attempt` is None for a job that was claimed and never started."""

    attempt: Attempt | None
    topic: str
    outcome: Outcome
    uncertain: bool = False
    """It was sent before, and the answer was lost: it may be recorded already."""

    @property
    def hold(self) -> Hold:
        """The claim that it is about."""
        return Hold(self.outcome.id, self.outcome.token)


class Recorder:
    """Counts, tells listeners, and lets go of leases, once the fate of an outcome is known."""

    def __init__(self, store: Store, worker: str, keeper: LeaseKeeper, metrics: Metrics, listeners: Listeners) -> None:
        """`worker` is the owner that the outcomes are fenced with."""
        self._store = store
        self._worker = worker
        self._keeper = keeper
        self._metrics = metrics
        self._listeners = listeners

    async def confirm(self, entries: Sequence[Entry], settled: Sequence[Hold]) -> list[Entry]:
        """Sort out what an exchange answered; answers what has to be written once more, alone.

        Zero rows are an answer, not an error (C11): the lease was lost or the job canceled. But an outcome whose first
        answer was lost may be recorded already: the row tells.
        """
        if len(settled) == len(entries):
            self.landed(entries, recorded=True)
            return []
        done = set(settled)
        self.landed([entry for entry in entries if entry.hold in done], recorded=True)
        missing = [entry for entry in entries if entry.hold not in done]
        try:
            fates = await self._store.fates([entry.outcome.id for entry in missing])
        except StoreError:
            for entry in missing:
                entry.uncertain = True
            return missing
        again = []
        for entry in missing:
            fate = fates.get(entry.outcome.id)
            if fate == Fate(State.PROCESSING, entry.outcome.token, self._worker):
                again.append(entry)
            else:
                self.landed([entry], recorded=entry.uncertain and fate is not None and recorded_as(fate, entry.outcome))
        return again

    async def separate(self, entries: Sequence[Entry], error: BaseException) -> list[Entry]:
        """Write the outcomes of an exchange that one of them spoiled, one by one: neither data that the database
        refuses nor a row that somebody keeps locked costs the neighbours their outcome. Answers what is left to do."""
        if len(entries) == 1 and isinstance(error, StoreRefused):
            return self._mend(entries[0], error)
        return [left for entry in entries for left in await self.alone(entry)]

    async def alone(self, entry: Entry) -> list[Entry]:
        """Write one outcome; answers it when it has to be tried again."""
        try:
            exchange = await self._store.exchange(self._worker, [entry.outcome], [], 0, self._keeper.lease)
            return await self.confirm([entry], exchange.settled)
        except StoreRefused as error:
            return self._mend(entry, error)
        except StoreBusy:
            return [entry]
        except Exception as error:  # noqa: BLE001  whatever it is, the lanes meet it too and report it
            log.debug("writing the outcome of %s alone: %r", entry.outcome.id, error)
            entry.uncertain = True
            return [entry]

    def _mend(self, entry: Entry, error: BaseException) -> list[Entry]:
        if entry.outcome.error not in (None, UNRECORDABLE):
            entry.outcome.error = UNRECORDABLE
            return [entry]
        log.error(
            text("engine.unrecordable", job=entry.outcome.id, topic=entry.topic, reason=error),
            extra={"job": str(entry.outcome.id), "topic": entry.topic},
        )
        self._keeper.release(entry.hold)
        return []

    def landed(self, entries: Sequence[Entry], *, recorded: bool) -> None:
        """The fate of these is known: recorded, or refused by the guard for good."""
        for entry in entries:
            self._keeper.release(entry.hold)
            outcome = entry.outcome
            if not recorded:
                self._metrics.settled[entry.topic, REFUSED] += 1
                log.info(
                    text("engine.outcome_refused", job=outcome.id, topic=entry.topic, state=outcome.state),
                    extra={"job": str(outcome.id), "topic": entry.topic},
                )
                continue
            name = REQUEUED if outcome.state is State.PENDING else outcome.state.value
            self._metrics.settled[entry.topic, name] += 1
            if self._listeners:
                self._listeners.emit(_event(entry))


def recorded_as(fate: Fate, outcome: Outcome) -> bool:
    """Whether the row says what the outcome wanted it to say, in the words of this claim."""
    return fate.token == outcome.token and fate.state == outcome.state


def _event(entry: Entry) -> Event:
    outcome, attempt = entry.outcome, entry.attempt
    if outcome.state is State.PENDING or attempt is None:
        return JobRequeued(outcome.id, entry.topic)
    if outcome.state is State.CANCELED:
        return JobCanceled(outcome.id, entry.topic)
    number, seconds = attempt.claim.attempt, attempt.ended_at - attempt.started_at
    if outcome.state is State.DONE:
        return JobDone(outcome.id, entry.topic, number, outcome.token, seconds)
    kind = JobDead if outcome.state is State.DEAD else JobFailed
    return kind(outcome.id, entry.topic, number, outcome.token, seconds, outcome.error or "")
