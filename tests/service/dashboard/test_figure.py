"""Figures as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from brooq.service.dashboard.detail import pretty
from brooq.service.dashboard.figure import duration, exact, number, relative, short

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 ms"), (0.0021, "2 ms"), (0.9994, "999 ms"), (1, "1 s"), (1.44, "1.4 s"), (59.4, "59 s"), (59.6, "1 m"),
        (61, "1 m 01 s"), (3599, "59 m"), (3600, "1 h"), (3900, "1 h 05 m"), (86400, "1 d"), (93600, "1 d 2 h"),
        (3_000_000, "34 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert duration("en", seconds) == expected


def test_units_are_of_the_readers_language() -> None:
    assert duration("ru", 125) == "2 мин 05 с"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "just now"), (-0.4, "just now"), (5, "5 s ago"), (-5, "in 5 s"), (7200, "2 h ago"), (-90000, "in 1 d")],
)
def test_moments(seconds: float, expected: str) -> None:
    assert relative("en", NOW - timedelta(seconds=seconds), NOW) == expected
    assert exact(NOW) == "2026-11-30 12:00:00 UTC"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (3, "3"), (3.14, "3.1"), (99.96, "100"), (1234, "1\u202f234"), (1_000_000.4, "1\u202f000\u202f000")],
)
def test_numbers(value: float, expected: str) -> None:
    assert number(value) == expected
    assert number(value, exact=False) == f"~{expected}"


@pytest.mark.parametrize(("value", "expected"), [(999, "999"), (9_999, "9\u202f999"), (12_345, "12.3k"), (4e6, "4M")])
def test_short_numbers(value: float, expected: str) -> None:
    assert short(value) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("null", "null"),
        ('"a \\" , { [ "', '"a \\" , { [ "'),
        ("{}", "{}"),
        ("[[], {}]", "[\n  [],\n  {}\n]"),
        ('{"a": 12345678901234567890.10, "b": [true]}',
         '{\n  "a": 12345678901234567890.10,\n  "b": [\n    true\n  ]\n}'),
    ],
)  # fmt: skip
def test_json_is_laid_out_and_never_read(source: str, expected: str) -> None:
    assert pretty(source) == expected
