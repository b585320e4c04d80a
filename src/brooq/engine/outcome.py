"""What the ending of an attempt means for its row. Pure: no await, no clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from brooq.engine.backoff import delay as backoff_delay
from brooq.engine.reason import reason, sanitize
from brooq.vocabulary.error import ProcessDied, Quarantined
from brooq.vocabulary.job import State
from brooq.vocabulary.kind import ResolvedOptions
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import (
    Interruption,
    LeaseLost,
    MustCancel,
    MustDelay,
    MustGiveUp,
    MustPreserveAttempt,
    ShuttingDown,
    find_signal,
)


@dataclass(slots=True)
class Outcome:
    """What is to be written into a job's row, fenced by the claim (`id`, `token`).

    `error` None leaves `last_error` as it is. `delay` in seconds sets `available_at` from now; None leaves it.
    `refund` is how many attempts are given back: 0 or 1. `result` is JSON text, kept on the row; None leaves it.
    """

    id: UUID
    token: int
    state: State
    error: str | None = None
    delay: float | None = None
    refund: int = 0
    result: str | None = None

    @property
    def plain(self) -> bool:
        """A success with nothing more to say."""
        said = self.error is not None or self.delay is not None or self.result is not None
        return self.state is State.DONE and not said and not self.refund


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended: the handler's error, if any, and why the engine interrupted it, if it did."""

    error: BaseException | None
    cause: Interruption | None


def decide(
    id: UUID, token: int, attempt: int, ending: Ending, options: ResolvedOptions, max_attempts: int, random: Random
) -> Outcome | None:
    """The outcome of an attempt; None when nothing may be written (the lease is lost).

    The cause of an interruption decides before anything the handler made of it (requirement I1): a handler that
    swallows its cancellation and returns has not done its work.
    """
    cause = ending.cause
    if isinstance(cause, LeaseLost):
        return None
    if isinstance(cause, ShuttingDown):
        return released(id, token)
    if cause is not None:
        return _failed(id, token, attempt, cause, options, max_attempts, random, ending.error)
    error = ending.error
    if error is None:
        return Outcome(id, token, State.DONE)
    signal = find_signal(error)
    if isinstance(signal, MustCancel):
        return Outcome(id, token, State.CANCELED)
    if isinstance(signal, MustGiveUp):
        return Outcome(id, token, State.DEAD, reason(error))
    if isinstance(signal, MustPreserveAttempt):
        wait = backoff_delay(attempt, options.backoff_base, options.backoff_max, random)
        return Outcome(id, token, State.FAILED, reason(error), wait, refund=1)
    if isinstance(signal, MustDelay) and attempt < max_attempts:
        wait = min(signal.delay.total_seconds(), options.backoff_max)
        return Outcome(id, token, State.FAILED, reason(error), wait)
    return _failed(id, token, attempt, error, options, max_attempts, random)


def released(id: UUID, token: int) -> Outcome:
    """Straight back into circulation, its attempt given back (requirement U3)."""
    return Outcome(id, token, State.PENDING, delay=0.0, refund=1)


def quarantined(id: UUID, token: int, leases: int) -> Outcome:
    """No further try for a job whose leases ran out so often: a recorded failure, since its kind asks for it (I7)."""
    return Outcome(id, token, State.DEAD, reason(Quarantined(text("engine.quarantined", leases=leases))))


def _failed(
    id: UUID,
    token: int,
    attempt: int,
    error: BaseException,
    options: ResolvedOptions,
    max_attempts: int,
    random: Random,
    end: BaseException | None = None,
) -> Outcome:
    """`end` is what came of an interruption: how a child process died belongs to the reason."""
    why = reason(error) if not isinstance(end, ProcessDied) else sanitize(f"{reason(error)}; {end}")
    if attempt >= max_attempts:
        return Outcome(id, token, State.DEAD, why)
    wait = backoff_delay(attempt, options.backoff_base, options.backoff_max, random)
    return Outcome(id, token, State.FAILED, why, wait)
