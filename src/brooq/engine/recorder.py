"""Tells what became of outcomes that were sent: recorded, refused by their guard, or to be sent once more."""

from __future__ import annotations

import logging
from collections.abc import Sequence

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


class Recorder:
    """Counts, tells listeners, and lets go of leases, once the fate of an outcome is known."""

    def __init__(self, store: Store, worker: str, keeper: LeaseKeeper, metrics: Metrics, listeners: Listeners) -> None:
        """`worker` is the owner that the outcomes are fenced with."""
        self._store = store
        self._worker = worker
        self._keeper = keeper
        self._metrics = metrics
        self._listeners = listeners

    async def confirm(self, attempts: Sequence[Attempt], settled: Sequence[Hold]) -> list[Attempt]:
        """Sort out what an exchange answered; answers what has to be written once more, alone.

        Zero rows are an answer, not an error (C11): the lease was lost or the job canceled. But an outcome whose first
        answer was lost may be recorded already: the row tells.
        """
        if len(settled) == len(attempts):
            self.landed(attempts, recorded=True)
            return []
        done = set(settled)
        self.landed([attempt for attempt in attempts if attempt.hold in done], recorded=True)
        missing = [attempt for attempt in attempts if attempt.hold not in done]
        try:
            fates = await self._store.fates([attempt.id for attempt in missing])
        except StoreError:
            for attempt in missing:
                attempt.uncertain = True
            return missing
        again = []
        for attempt in missing:
            fate = fates.get(attempt.id)
            if fate == Fate(State.PROCESSING, attempt.token, self._worker):
                again.append(attempt)
            else:
                recorded = attempt.uncertain and fate is not None and recorded_as(fate, outcome_of(attempt))
                self.landed([attempt], recorded=recorded)
        return again

    async def separate(self, attempts: Sequence[Attempt], error: BaseException) -> list[Attempt]:
        """Write the outcomes of an exchange that one of them spoiled, one by one: neither data that the database
        refuses nor a row that somebody keeps locked costs the neighbours their outcome. Answers what is left to do."""
        if len(attempts) == 1 and isinstance(error, StoreRefused):
            return self._mend(attempts[0], error)
        return [left for attempt in attempts for left in await self.alone(attempt)]

    async def alone(self, attempt: Attempt) -> list[Attempt]:
        """Write one outcome; answers it when it has to be tried again."""
        try:
            exchange = await self._store.exchange(self._worker, [outcome_of(attempt)], [], 0, self._keeper.lease)
            return await self.confirm([attempt], exchange.settled)
        except StoreRefused as error:
            return self._mend(attempt, error)
        except StoreBusy:
            return [attempt]
        except Exception as error:  # noqa: BLE001  whatever it is, the lanes meet it too and report it
            log.debug(text("engine.alone", job=attempt.id, reason=type(error).__name__))
            attempt.uncertain = True
            return [attempt]

    def _mend(self, attempt: Attempt, error: BaseException) -> list[Attempt]:
        outcome = outcome_of(attempt)
        if outcome.error not in (None, UNRECORDABLE):
            outcome.error = UNRECORDABLE
            return [attempt]
        log.error(
            text("engine.unrecordable", job=attempt.id, topic=attempt.topic, reason=error),
            extra={"job": str(attempt.id), "topic": attempt.topic},
        )
        self._keeper.release(attempt)
        return []

    def landed(self, attempts: Sequence[Attempt], *, recorded: bool) -> None:
        """The fate of these is known: recorded, or refused by the guard for good."""
        self._keeper.release(*attempts)
        settled = self._metrics.settled
        for attempt in attempts:
            state = outcome_of(attempt).state
            if not recorded:
                settled[attempt.topic, REFUSED] += 1
                log.info(
                    text("engine.outcome_refused", job=attempt.id, topic=attempt.topic, state=state),
                    extra={"job": str(attempt.id), "topic": attempt.topic},
                )
                continue
            settled[attempt.topic, REQUEUED if state is State.PENDING else state._value_] += 1
            if self._listeners:
                self._listeners.emit(_event(attempt))


def outcome_of(attempt: Attempt) -> Outcome:
    """What is to be written of an attempt whose outcome is decided."""
    assert attempt.outcome is not None
    return attempt.outcome


def recorded_as(fate: Fate, outcome: Outcome) -> bool:
    """Whether the row says what the outcome wanted it to say, in the words of this claim."""
    return fate.token == outcome.token and fate.state == outcome.state


def _event(attempt: Attempt) -> Event:
    outcome, topic = outcome_of(attempt), attempt.topic
    if outcome.state is State.PENDING:
        return JobRequeued(outcome.id, topic)
    if outcome.state is State.CANCELED:
        return JobCanceled(outcome.id, topic)
    number, seconds = attempt.claim.attempt, attempt.ended_at - attempt.started_at
    if outcome.state is State.DONE:
        return JobDone(outcome.id, topic, number, outcome.token, seconds)
    kind = JobDead if outcome.state is State.DEAD else JobFailed
    return kind(outcome.id, topic, number, outcome.token, seconds, outcome.error or "")
