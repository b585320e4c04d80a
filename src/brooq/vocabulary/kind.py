"""How the jobs of a topic are run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text
from brooq.vocabulary.steering import Limits, check_limits

LIMITS = tuple(each.name for each in fields(Limits))
"""The options that are limits: of the whole fleet, kept in the store."""


@dataclass(frozen=True, slots=True)
class KindOptions:
    """How the jobs of one topic are run (requirement K2). None takes the default from the settings.

    `attempt_timeout`: how long one attempt may run before it is interrupted and has failed.
    `max_execution_timeout`: the ceiling of one attempt from its claim, however the handler behaves.
    `backoff_base`, `backoff_max`: the delay after attempt n is `min(base * 2^(n-1), max)`, jittered down to its half.
    `max_running`, `max_running_per_key`, `ordered`, `rate`, `rate_period`: limits over all workers, see `Limits`; they
    are valid from the start of a worker on, unless somebody has set others by hand.
    Durations are timedeltas or seconds.
    """

    max_attempts: int | None = None
    attempt_timeout: Duration | None = None
    max_execution_timeout: Duration | None = None
    backoff_base: Duration | None = None
    backoff_max: Duration | None = None
    max_running: int | None = None
    max_running_per_key: int | None = None
    ordered: bool = False
    rate: int | None = None
    rate_period: Duration | None = None

    @property
    def limits(self) -> Limits | None:
        """The limits among them; None when there are none. Raises ConfigError."""
        limits = Limits(**{name: getattr(self, name) for name in LIMITS})
        return limits if limits.set else None


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """The options of a kind with every default filled in; durations in seconds."""

    max_attempts: int
    attempt_timeout: float
    max_execution_timeout: float
    backoff_base: float
    backoff_max: float


def resolve(options: KindOptions, defaults: KindOptions, topic: str) -> ResolvedOptions:
    """Fill in the defaults and check the result.

    Raises ConfigError with every problem at once, each naming its option (requirement K1).
    """
    values: dict[str, Any] = {}
    for each in fields(KindOptions):
        if each.name in LIMITS:
            continue
        own = getattr(options, each.name)
        values[each.name] = getattr(defaults, each.name) if own is None else own
    problems = check_options(values) + check_limits(*(getattr(options, name) for name in LIMITS))
    if problems:
        raise ConfigError([text("config.kind", topic=topic, problem=problem) for problem in problems])
    seconds: dict[str, Any] = {
        name: value if name == "max_attempts" else to_timedelta(value).total_seconds() for name, value in values.items()
    }
    return ResolvedOptions(**seconds)


def check_options(values: dict[str, Any]) -> list[str]:
    """Every problem of a full set of options, as texts (requirement S3)."""
    problems: list[str] = []
    attempts = values["max_attempts"]
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= 2**31 - 1:
        problems.append(text("config.at_least_one", name="max_attempts", value=repr(attempts)))
    durations: dict[str, timedelta] = {}
    for name in ("attempt_timeout", "max_execution_timeout", "backoff_base", "backoff_max"):
        problem, duration = check_duration(name, values[name])
        problems.extend(problem)
        if duration is not None:
            durations[name] = duration
    if {"attempt_timeout", "max_execution_timeout"} <= durations.keys() and (
        durations["attempt_timeout"] > durations["max_execution_timeout"]
    ):
        problems.append(
            text(
                "config.timeout_order",
                attempt=durations["attempt_timeout"].total_seconds(),
                maximum=durations["max_execution_timeout"].total_seconds(),
            )
        )
    return problems


def check_duration(name: str, value: object, *, zero: bool = False) -> tuple[list[str], timedelta | None]:
    """The problems of one duration, and its value when it has none. `zero` allows 0."""
    try:
        duration = to_timedelta(value)  # type: ignore[arg-type]  # that is what is checked
    except (TypeError, ValueError, OverflowError) as error:
        return [text("config.duration", name=name, value=repr(value), reason=str(error))], None
    if duration < timedelta(0) or (duration == timedelta(0) and not zero):
        key = "config.not_negative" if zero else "config.positive"
        return [text(key, name=name, value=duration.total_seconds())], None
    return [], duration
