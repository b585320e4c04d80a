"""How long to wait before the next attempt (requirement C2). Pure: no clock, chance is a parameter."""

from __future__ import annotations

from random import Random


def ceiling(attempt: int, base: float, maximum: float) -> float:
    """`min(base * 2^(attempt-1), maximum)` in seconds, for attempts from 1."""
    # The guard stands before the power: 2.0**1100 overflows. Doubling 64 times outgrows every maximum that a
    # timedelta can hold from any base that it can express (a microsecond).
    if attempt > 64:
        return maximum
    return min(base * 2.0 ** (max(attempt, 1) - 1), maximum)


def delay(attempt: int, base: float, maximum: float, random: Random) -> float:
    """The delay after an attempt in seconds: uniform in the upper half of its ceiling, so that retries spread."""
    top = ceiling(attempt, base, maximum)
    return random.uniform(top / 2, top)
