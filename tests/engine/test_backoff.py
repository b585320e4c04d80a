"""Delays before the next attempt."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brooq.engine.backoff import ceiling, delay

SECONDS = st.floats(min_value=1e-6, max_value=1e9)


@pytest.mark.parametrize(
    ("attempt", "expected"), [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (8, 60.0)]
)
def test_the_ceiling_doubles_up_to_the_maximum(attempt: int, expected: float) -> None:
    assert ceiling(attempt, 1.0, 60.0) == expected


@pytest.mark.fault(43)
@pytest.mark.parametrize("attempt", [62, 64, 65, 1_100, 100_000, 2_147_483_646, 10**30])
def test_a_huge_attempt_waits_for_the_maximum(attempt: int) -> None:
    """Fault 43: 2.0**1100 would overflow."""
    assert ceiling(attempt, 1.0, 60.0) == 60.0
    assert 30.0 <= delay(attempt, 1.0, 60.0, Random(attempt)) <= 60.0


@given(attempt=st.integers(1, 2**31), base=SECONDS, maximum=SECONDS, seed=st.integers())
def test_a_delay_lies_in_the_upper_half_of_its_ceiling(attempt: int, base: float, maximum: float, seed: int) -> None:
    top = ceiling(attempt, base, maximum)
    assert 0 < top <= maximum
    assert top / 2 <= delay(attempt, base, maximum, Random(seed)) <= top


@given(attempt=st.integers(1, 2**31), base=SECONDS, maximum=SECONDS)
def test_a_ceiling_never_falls(attempt: int, base: float, maximum: float) -> None:
    assert ceiling(attempt, base, maximum) <= ceiling(attempt + 1, base, maximum)


def test_delays_spread_evenly() -> None:
    random = Random(7)
    quarters = [0] * 4
    for _ in range(4000):
        quarters[min(int(delay(4, 1.0, 60.0, random) - 4.0), 3)] += 1
    assert all(880 <= count <= 1120 for count in quarters)
