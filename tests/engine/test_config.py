"""Settings report all their faults at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from brooq.engine.config import Config
from brooq.vocabulary.error import ConfigError


def test_defaults() -> None:
    config = Config()
    assert (config.workers, config.lease_seconds, config.reaper_seconds, config.watchdog_seconds) == (2, 120, 30, 120)
    assert config.retention_seconds == 3600


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config(workers=0, lease=-1, poll_interval=0, retention_batch=True, retention_ttl=-1, max_attempts=0,
               attempt_timeout=9, max_execution_timeout=8, backoff_base=float("nan"))  # fmt: skip
    problems = caught.value.problems
    names = ["workers", "lease", "poll_interval", "retention_batch", "retention_ttl", "max_attempts",
             "max_execution_timeout", "backoff_base"]  # fmt: skip
    assert len(problems) == len(names)
    for name in names:
        assert any(name in problem for problem in problems), name
    assert str(caught.value) == "\n".join(problems)


@pytest.mark.parametrize(
    "name", ["poll_interval", "lease", "reaper_period", "watchdog_grace", "shutdown_grace", "census_period",
             "attempt_timeout", "backoff_base", "backoff_max"],
)  # fmt: skip
@pytest.mark.parametrize("value", [0, -1, float("inf"), 1e300, "3s", True, timedelta(0)], ids=repr)
def test_a_duration_is_longer_than_zero_and_a_number(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**{name: value})
    assert [name in problem for problem in caught.value.problems] == [True]


def test_zero_is_allowed_where_it_means_something() -> None:
    assert Config(retention_ttl=0, retention_period=0).retention_seconds == 60


def test_an_attempt_may_be_longer_than_the_lease() -> None:
    assert Config(lease=1, attempt_timeout=100).lease_seconds == 1


@pytest.mark.parametrize(("lease", "period"), [(3, 5), (20, 5), (24, 6), (120, 30)])
def test_the_reaper_period_follows_the_lease(lease: int, period: int) -> None:
    assert Config(lease=lease).reaper_seconds == period
    assert Config(lease=lease, reaper_period=1).reaper_seconds == 1


@pytest.mark.parametrize(("ttl", "period"), [(60, 60), (86_400, 864), (30 * 86_400, 3600)])
def test_the_retention_period_follows_the_ttl(ttl: int, period: int) -> None:
    assert Config(retention_ttl=ttl).retention_seconds == period
    assert Config(retention_ttl=ttl, retention_period=5).retention_seconds == 5
