"""Signals are found wherever a handler's error carries them (requirement C8)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from brooq import MustCancel, MustDelay, MustGiveUp, MustPreserveAttempt, delay_of
from brooq.vocabulary.signal import Signal, find_signal


def raised_from(signal: BaseException) -> BaseException:
    error = ValueError("wrapped")
    error.__cause__ = signal  # what `raise … from signal` does
    return error


async def raised_in_group(signal: BaseException) -> BaseException:
    async def child() -> None:
        raise signal

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "signal", [MustDelay(30), MustPreserveAttempt(), MustCancel("stale"), MustGiveUp("no such user")], ids=repr
)
@pytest.mark.fault(12)
async def test_a_signal_is_found_as_it_is_as_a_cause_and_in_a_group(signal: Signal) -> None:
    """Fault 12."""
    assert find_signal(signal) is signal
    assert find_signal(raised_from(signal)) is signal
    assert find_signal(await raised_in_group(signal)) is signal
    assert find_signal(raised_from(await raised_in_group(raised_from(signal)))) is signal


def test_an_error_without_a_signal_holds_none() -> None:
    assert find_signal(ValueError()) is None
    assert find_signal(TimeoutError()) is None
    assert find_signal(None) is None


def test_an_error_that_was_merely_being_handled_does_not_count() -> None:
    error = ValueError("a new error")
    error.__context__ = MustCancel()  # what `raise` inside an `except` block does
    assert find_signal(error) is None


def test_the_more_deliberate_signal_of_a_group_wins() -> None:
    group = ExceptionGroup("many", [MustDelay(1), ValueError(), MustPreserveAttempt(), MustCancel(), MustGiveUp()])
    assert isinstance(find_signal(group), MustCancel)
    assert isinstance(find_signal(ExceptionGroup("two", [MustPreserveAttempt(), MustGiveUp()])), MustGiveUp)


def test_a_circular_chain_of_causes_ends() -> None:
    first, second = ValueError(), TypeError()
    first.__cause__, second.__cause__ = second, first
    assert find_signal(first) is None


def test_delay_of_reads_the_delay_wherever_it_is() -> None:
    assert delay_of(MustDelay(timedelta(minutes=2))) == timedelta(minutes=2)
    assert delay_of(raised_from(MustDelay(1.5))) == timedelta(seconds=1.5)
    assert delay_of(ExceptionGroup("one", [MustDelay(3)])) == timedelta(seconds=3)
    assert delay_of(MustDelay(-5)) == timedelta(0)
    assert delay_of(MustCancel()) is None
    assert delay_of(None) is None
