"""How the jobs of a topic are run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text
from brooq.vocabulary.steering import Limits, check_limits

LIMITS = tuple(each.name for each in fields(Limits))
"""The options that are limits: of the whole fleet, kept in the store."""

Isolation: TypeAlias = Literal["process"]

RECYCLE_JOBS = 1000
"""After how many jobs a child process is replaced, unless it is set."""

LEAST_MEMORY = 32 * 1024 * 1024
"""The smallest ceiling of memory, in bytes: an interpreter with nothing in it takes half of it."""


@dataclass(frozen=True, slots=True)
class KindOptions:
    """How the jobs of one topic are run (requirement K2). None takes the default from the settings.

    `attempt_timeout`: how long one attempt may run before it is interrupted and has failed.
    `max_execution_timeout`: the ceiling of one attempt from its claim, however the handler behaves.
    `backoff_base`, `backoff_max`: the delay after attempt n is `min(base * 2^(n-1), max)`, jittered down to its half.
    `max_running`, `max_running_per_key`, `ordered`, `rate`, `rate_period`: limits over all workers, see `Limits`; they
    are valid from the start of a worker on, unless somebody has set others by hand.
    Durations are timedeltas or seconds.

    `isolation="process"`: run the handler in a child process, which can be killed. Else `async def` runs in the event
    loop, `def` in a thread. For processes only: `max_memory`, the resident bytes at which it is killed and the attempt
    has failed; `recycle_jobs`, `recycle_memory`: after how many jobs, above how many bytes it is replaced between jobs.
    `keep_result`: what the handler returns is kept on the row: anything JSON, up to 1 MiB.
    `quarantine_after`: a job whose lease has run out so often, without a word from its workers, is `dead` at its next
    claim and not tried again. None, the default, never: an expired lease is no failure (G4.7).
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
    isolation: Isolation | None = None
    max_memory: int | None = None
    recycle_jobs: int | None = None
    recycle_memory: int | None = None
    keep_result: bool = False
    quarantine_after: int | None = None

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
    isolation: Isolation | None = None
    max_memory: int | None = None
    recycle_jobs: int = RECYCLE_JOBS
    recycle_memory: int | None = None
    keep_result: bool = False
    quarantine_after: int | None = None


_DURATIONS = ("attempt_timeout", "max_execution_timeout", "backoff_base", "backoff_max")


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
    for name in _DURATIONS:
        values[name] = to_timedelta(values[name]).total_seconds()
    if values["recycle_jobs"] is None:
        values["recycle_jobs"] = RECYCLE_JOBS
    return ResolvedOptions(**values)


def check_options(values: dict[str, Any]) -> list[str]:
    """Every problem of a full set of options, as texts (requirement S3)."""
    problems: list[str] = []
    attempts = values["max_attempts"]
    if not _whole(attempts, 1) or attempts > 2**31 - 1:
        problems.append(text("config.at_least_one", name="max_attempts", value=repr(attempts)))
    durations: dict[str, timedelta] = {}
    for name in _DURATIONS:
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
    return problems + _check_isolation(values)


def _check_isolation(values: dict[str, Any]) -> list[str]:
    """The problems of how a handler is run."""
    problems = []
    if values["isolation"] not in (None, "process"):
        problems.append(text("config.isolation", value=repr(values["isolation"])))
    for name, key, least in (
        ("recycle_jobs", "config.at_least_one", 1),
        ("quarantine_after", "config.at_least_one", 1),
        ("max_memory", "config.memory", LEAST_MEMORY),
        ("recycle_memory", "config.memory", LEAST_MEMORY),
    ):
        value = values[name]
        if value is not None and not _whole(value, least):
            problems.append(text(key, name=name, value=repr(value), least=least))
    if values["isolation"] is None:
        alone = [name for name in ("max_memory", "recycle_jobs", "recycle_memory") if values[name] is not None]
        if alone:
            problems.append(text("config.process_only", names=", ".join(alone)))
    if not isinstance(values["keep_result"], bool):
        problems.append(text("config.boolean", name="keep_result", value=repr(values["keep_result"])))
    return problems


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


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
