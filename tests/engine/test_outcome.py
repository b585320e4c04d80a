"""What the ending of an attempt means for its row."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest
from tests.engine.parts import OPTIONS

from brooq.engine.outcome import Ending, Outcome, decide, released
from brooq.vocabulary.job import State
from brooq.vocabulary.signal import (
    AttemptTimeout,
    Interruption,
    LeaseLost,
    MaxExecutionExceeded,
    MustCancel,
    MustDelay,
    MustGiveUp,
    MustPreserveAttempt,
    ShuttingDown,
)

ID = UUID(int=7)
FIRST, LAST = 1, 3


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """`raise error from cause`."""
    error.__cause__ = cause
    return error


ERRORS: list[BaseException | None] = [
    None, ValueError("bad"), asyncio.CancelledError(), TimeoutError(), SystemExit(3), KeyboardInterrupt(),
    GeneratorExit(), MemoryError(), MustCancel("c"), MustGiveUp("g"), MustPreserveAttempt("p"), MustDelay(5),
]  # fmt: skip


def ended(error: BaseException | None, cause: Interruption | None = None, attempt: int = FIRST) -> Outcome | None:
    return decide(ID, 9, attempt, Ending(error, cause), OPTIONS, LAST, Random(1))


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("attempt", [FIRST, LAST, 100])
def test_a_lost_lease_writes_nothing(error: BaseException | None, attempt: int) -> None:
    assert ended(error, LeaseLost(), attempt) is None


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("attempt", [FIRST, LAST, 100])
def test_a_shutdown_gives_the_attempt_back(error: BaseException | None, attempt: int) -> None:
    assert ended(error, ShuttingDown(), attempt) == Outcome(ID, 9, State.PENDING, delay=0.0, refund=1)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("cause", [AttemptTimeout("too long"), MaxExecutionExceeded("much too long")], ids=repr)
def test_a_timeout_is_a_failure_whatever_the_handler_made_of_it(
    error: BaseException | None, cause: Interruption
) -> None:
    first, last = ended(error, cause, FIRST), ended(error, cause, LAST)
    assert first is not None
    assert last is not None
    assert (first.state, first.refund) == (State.FAILED, 0)
    assert (last.state, last.refund, last.delay) == (State.DEAD, 0, None)
    assert first.error == last.error == f"{type(cause).__name__}: {cause}"


@pytest.mark.parametrize(
    ("error", "attempt", "state", "refund", "reason", "least", "most"),
    [
        (None, FIRST, State.DONE, 0, None, None, None),
        (None, LAST, State.DONE, 0, None, None, None),
        (None, 100, State.DONE, 0, None, None, None),
        (ValueError("bad"), 1, State.FAILED, 0, "ValueError: bad", 0.5, 1.0),
        (ValueError("bad"), 2, State.FAILED, 0, "ValueError: bad", 1.0, 2.0),
        (ValueError("bad"), LAST, State.DEAD, 0, "ValueError: bad", None, None),
        (ValueError("bad"), 100, State.DEAD, 0, "ValueError: bad", None, None),
        (asyncio.CancelledError(), 1, State.FAILED, 0, "CancelledError", 0.5, 1.0),
        (SystemExit(3), 1, State.FAILED, 0, "SystemExit: 3", 0.5, 1.0),
        (TimeoutError(), 1, State.FAILED, 0, "TimeoutError", 0.5, 1.0),
        (MustCancel("c"), LAST, State.CANCELED, 0, None, None, None),
        (MustGiveUp("g"), 1, State.DEAD, 0, "MustGiveUp: g", None, None),
        (MustPreserveAttempt("p"), 1, State.FAILED, 1, "MustPreserveAttempt: p", 0.5, 1.0),
        (MustPreserveAttempt("p"), LAST, State.FAILED, 1, "MustPreserveAttempt: p", 2.0, 4.0),
        (MustDelay(5, "d"), 1, State.FAILED, 0, "MustDelay: d", 5.0, 5.0),
        (MustDelay(500, "d"), 1, State.FAILED, 0, "MustDelay: d", 60.0, 60.0),
        (MustDelay(-5, "d"), 1, State.FAILED, 0, "MustDelay: d", 0.0, 0.0),
        (MustDelay(5, "d"), LAST, State.DEAD, 0, "MustDelay: d", None, None),
    ],
)  # fmt: skip
def test_without_an_interruption_the_handler_decides(
    error: BaseException | None,
    attempt: int,
    state: State,
    refund: int,
    reason: str | None,
    least: float | None,
    most: float | None,
) -> None:
    outcome = ended(error, attempt=attempt)
    assert outcome is not None
    assert (outcome.id, outcome.token, outcome.state, outcome.refund, outcome.error) == (ID, 9, state, refund, reason)
    if least is None or most is None:
        assert outcome.delay is None
    else:
        assert outcome.delay is not None
        assert least <= outcome.delay <= most


@pytest.mark.fault(12)
@pytest.mark.parametrize(
    "error",
    [
        caused(ValueError("x"), MustCancel()),
        caused(ValueError("x"), caused(KeyError("y"), MustCancel())),
        ExceptionGroup("g", [ValueError("x"), MustCancel()]),
        caused(ValueError("x"), ExceptionGroup("g", [ExceptionGroup("h", [MustCancel()])])),
        ExceptionGroup("g", [MustDelay(1), MustGiveUp(), MustPreserveAttempt(), MustCancel()]),
    ],
    ids=repr,
)
def test_a_wrapped_signal_counts(error: BaseException) -> None:
    """Fault 12."""
    outcome = ended(error)
    assert outcome is not None
    assert outcome.state is State.CANCELED


def test_a_signal_that_was_only_being_handled_does_not_count() -> None:
    error = ValueError("x")
    error.__context__ = MustCancel()
    outcome = ended(error)
    assert outcome is not None
    assert outcome.state is State.FAILED


@pytest.mark.fault(43)
@pytest.mark.parametrize("attempt", [62, 1_100, 100_000, 2_147_483_646])
def test_a_huge_attempt_can_fail(attempt: int) -> None:
    """Fault 43."""
    outcome = decide(ID, 9, attempt, Ending(ValueError(), None), OPTIONS, 2**31 - 1, Random(1))
    assert outcome is not None
    assert outcome.delay is not None
    assert 30.0 <= outcome.delay <= 60.0


def test_a_release_is_at_once_and_refunds() -> None:
    assert released(ID, 4) == Outcome(ID, 4, State.PENDING, None, 0.0, 1)
