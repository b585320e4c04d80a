"""Durations in the public interface: a timedelta, or a number of seconds."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from brooq.vocabulary.message import text

Duration: TypeAlias = timedelta | float


def to_timedelta(value: Duration) -> timedelta:
    """A duration as a timedelta.

    Raises TypeError for anything but a timedelta or a number, ValueError for NaN and infinity, and OverflowError
    where a timedelta cannot hold it.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(text("config.duration_type", type=type(value).__name__))
    if not math.isfinite(value):
        raise ValueError(text("config.duration_finite"))
    return timedelta(seconds=value)
