"""Durations of the public interface: a timedelta or a number of seconds, nothing else."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from brooq.vocabulary.duration import to_timedelta


@pytest.mark.parametrize(
    ("value", "seconds"), [(timedelta(minutes=1), 60.0), (5, 5.0), (0.25, 0.25), (0, 0.0), (-1, -1.0), (1e-6, 1e-6)]
)
def test_a_timedelta_or_a_number_of_seconds(value: Any, seconds: float) -> None:
    assert to_timedelta(value).total_seconds() == seconds


@pytest.mark.parametrize("value", ["60", "1m", None, True, b"1", [1], 1j])
def test_nothing_else_is_a_duration(value: Any) -> None:
    with pytest.raises(TypeError, match="seconds"):
        to_timedelta(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_duration_is_finite(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        to_timedelta(value)


def test_what_a_timedelta_cannot_hold_overflows() -> None:
    with pytest.raises(OverflowError):
        to_timedelta(1e300)
