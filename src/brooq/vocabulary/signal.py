"""What a handler raises to steer its job (signals), and why a handler was interrupted (causes)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import BrooqError


class Signal(BrooqError):
    """A handler's word about its job. It works raised as it is, as the cause of another error
    (`raise X from signal`), and inside exception groups (requirement C8)."""


class MustDelay(Signal):
    """Retry after `delay`, clamped to the kind's `backoff_max`.

    The attempt stays spent: on the last one the job is `dead` all the same (requirement C4).
    """

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay = max(to_timedelta(delay), timedelta(0))
        super().__init__(reason or f"asked to be retried in {self.delay.total_seconds():g} s")


class MustPreserveAttempt(Signal):
    """The failure is nobody's fault: back to `failed` with the attempt given back; never `dead` (requirement C5)."""


class MustCancel(Signal):
    """The job has become pointless: `canceled`, whatever attempts remain (requirement C6)."""


class MustGiveUp(Signal):
    """No further attempt can help: `dead` at once, as a recorded failure (requirement C7)."""


class Interruption(BrooqError):
    """Why the engine interrupted a handler. The handler itself sees `asyncio.CancelledError`."""


class AttemptTimeout(Interruption):
    """The attempt ran longer than the kind's `attempt_timeout`: a failure of the attempt (requirement I2)."""


class MaxExecutionExceeded(Interruption):
    """The attempt had not ended `max_execution_timeout` after its claim: a recorded failure (requirement I2)."""


class LeaseLost(Interruption):
    """The job is no longer held by this claim (expired, or canceled from outside): nothing is written (I3)."""


class ShuttingDown(Interruption):
    """The worker stops: the job goes back into circulation, its attempt given back (requirement U3)."""


def find_signal(error: BaseException | None) -> Signal | None:
    """The strongest signal in an error, its explicit causes and its groups; None when there is none.

    Where several are found (a group of handlers' errors) cancel wins over give up, over preserve, over delay:
    the rarer and more deliberate word first.
    """
    rank = (MustCancel, MustGiveUp, MustPreserveAttempt, MustDelay)
    found = [signal for signal in _walk(error) if isinstance(signal, Signal)]
    return min(
        found, key=lambda signal: next((i for i, kind in enumerate(rank) if isinstance(signal, kind)), 9), default=None
    )


def delay_of(error: BaseException | None) -> timedelta | None:
    """The delay that a `MustDelay` in the error asks for; None when it holds none (requirement C8)."""
    return next((each.delay for each in _walk(error) if isinstance(each, MustDelay)), None)


def _walk(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its chain of explicit causes and the members of its groups, each once (chains can be circular)."""
    queue, seen = [error], set[int]()
    while queue:
        each = queue.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        queue.append(each.__cause__)
        if isinstance(each, BaseExceptionGroup):
            queue.extend(each.exceptions)
