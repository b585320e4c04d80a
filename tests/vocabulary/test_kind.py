"""Options of a kind, and durations: every problem at once, each by its name (requirements K1, K2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from brooq import ConfigError, KindOptions
from brooq.engine.config import Config
from brooq.vocabulary.duration import to_timedelta
from brooq.vocabulary.kind import ResolvedOptions, resolve

DEFAULTS = Config().kind_defaults


def test_what_an_option_leaves_open_comes_from_the_settings() -> None:
    resolved = resolve(KindOptions(max_attempts=3, backoff_max=timedelta(minutes=5)), DEFAULTS, "email")
    assert resolved == ResolvedOptions(3, 60.0, 300.0, 1.0, 300.0)


def test_every_problem_is_told_at_once_with_its_topic() -> None:
    options = KindOptions(max_attempts=0, attempt_timeout=-1, backoff_base=float("nan"), backoff_max="1m")  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        resolve(options, DEFAULTS, "email.send")
    told = str(caught.value)
    assert len(caught.value.problems) == 4
    assert all(name in told for name in ("max_attempts", "attempt_timeout", "backoff_base", "backoff_max"))
    assert all("email.send" in problem for problem in caught.value.problems)


def test_an_attempt_may_not_be_allowed_longer_than_its_ceiling() -> None:
    with pytest.raises(ConfigError, match=r"attempt_timeout .* longer than max_execution_timeout"):
        resolve(KindOptions(attempt_timeout=301), DEFAULTS, "a")
    assert resolve(KindOptions(attempt_timeout=300), DEFAULTS, "a").attempt_timeout == 300


@pytest.mark.parametrize("value", [True, 1.5, "3", None])
def test_attempts_are_a_whole_number(value: Any) -> None:
    options = KindOptions(max_attempts=value)
    if value is None:
        assert resolve(options, DEFAULTS, "a").max_attempts == 5
    else:
        with pytest.raises(ConfigError):
            resolve(options, DEFAULTS, "a")


@pytest.mark.parametrize(("value", "seconds"), [(1, 1), (0.25, 0.25), (timedelta(minutes=1), 60), (0, 0)])
def test_a_duration_is_a_timedelta_or_seconds(value: Any, seconds: float) -> None:
    assert to_timedelta(value).total_seconds() == seconds


@pytest.mark.parametrize("value", ["1s", True, None, float("inf"), float("nan"), 1e300], ids=repr)
def test_nothing_else_is_a_duration(value: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        to_timedelta(value)
