"""What is set for a topic, for all workers at once: pauses by people, limits by code or by people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """How many jobs of a topic may be held at one time, and how fast they are claimed, over all workers. None: no limit.

    `max_running`: jobs of the topic; `max_running_per_key`: jobs of each `concurrency_key`. A job counts from its claim
    until its outcome is recorded; the job of a worker that died counts until the reaper has put it back.
    `ordered`: of each key one job at a time, in the order of enqueueing; one that waits for its retry holds up the rest.
    `rate` claims in every `rate_period` (a timedelta or seconds), evenly; what was not used is saved up to `rate`.

    Raises ConfigError listing every problem.
    """

    max_running: int | None = None
    max_running_per_key: int | None = None
    ordered: bool = False
    rate: int | None = None
    rate_period: Duration | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        problems = check_limits(self.max_running, self.max_running_per_key, self.ordered, self.rate, self.rate_period)
        if problems:
            raise ConfigError(problems)

    @property
    def set(self) -> bool:
        """Whether there is any limit."""
        return self != Limits()

    @property
    def period(self) -> float | None:
        """`rate_period` in seconds."""
        return None if self.rate_period is None else to_timedelta(self.rate_period).total_seconds()

    def as_object(self) -> dict[str, Any]:
        """What is limited, with the names of the fields; the period in seconds."""
        found = {
            "max_running": self.max_running,
            "max_running_per_key": self.max_running_per_key,
            "ordered": self.ordered or None,
            "rate": self.rate,
            "rate_period": self.period,
        }
        return {name: value for name, value in found.items() if value is not None}


def check_limits(
    max_running: object, max_running_per_key: object, ordered: object, rate: object, rate_period: object
) -> list[str]:
    """Every problem of a set of limits, as texts that name the field."""
    problems = []
    for name, value in (("max_running", max_running), ("max_running_per_key", max_running_per_key), ("rate", rate)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST):
            problems.append(text("config.at_least_one", name=name, value=repr(value)))
    if not isinstance(ordered, bool):
        problems.append(text("config.yes_or_no", name="ordered", value=repr(ordered)))
    if rate_period is not None:
        try:
            seconds = to_timedelta(rate_period).total_seconds()  # type: ignore[arg-type]  # that is what is checked
            if seconds <= 0:
                problems.append(text("config.positive", name="rate_period", value=seconds))
        except (TypeError, ValueError, OverflowError) as error:
            problems.append(text("config.duration", name="rate_period", value=repr(rate_period), reason=str(error)))
    if (rate is None) != (rate_period is None):
        problems.append(text("config.rate"))
    return problems


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What is set for a topic now. A topic that nobody has set anything for has no record.

    `paused_at`, `paused_by`, `pause_reason`: since when no worker claims from it, by whose word and why; None: it is
    not paused. `limits`: the limits that are valid now; `limits_by`: who set them by hand, None: the code of the workers.
    """

    topic: str
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    limits: Limits = Limits()
    limits_by: str | None = None

    @property
    def paused(self) -> bool:
        """Whether no worker claims from it."""
        return self.paused_at is not None
