"""Periodic jobs: what is enqueued at which ticks, and what becomes of ticks that nobody was there for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from brooq.vocabulary.error import ConfigError, JobError, TopicError
from brooq.vocabulary.job import Job, Topic
from brooq.vocabulary.message import text

MOST_MISSED = 10_000


class Missed(StrEnum):
    """What becomes of ticks that came while no worker ran, or that were noticed more than a minute late."""

    SKIP = "skip"
    """They are left out."""
    ONCE = "once"
    """One job for all of them, that of the last one."""
    ALL = "all"
    """A job for each, at most `missed_limit`: the last ones."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A periodic job: at every tick of `cron` in the time zone one job of the topic is enqueued, by whichever worker.

    `name`: lowercase words joined by `-` or `.`, as topics. `cron`: five fields (`*/5 * * * *`), with seconds six, or
    `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. `timezone`: a name of the time zone database; a tick that a
    change to summer time leaves out comes right after it, and one that comes twice counts once, save for intervals.
    `payload`: of every job; None tells it `{"schedule": name, "tick": ISO time}`. The others are as in Job.

    Raises ConfigError listing every problem.
    """

    name: str
    cron: str
    topic: str
    payload: Any = None
    timezone: str = "UTC"
    missed: str = Missed.ONCE
    missed_limit: int = 100
    priority: int = 0
    max_attempts: int | None = None
    concurrency_key: str = ""

    def __post_init__(self) -> None:
        """Check every field but the expression, which needs a package: see `brooq.engine.calendar`."""
        problems: list[str] = []
        try:
            object.__setattr__(self, "name", str(Topic(self.name)))
        except TopicError:
            problems.append(text("schedule.name", name=repr(self.name)[:200]))
        try:
            job = Job(self.topic, None, priority=self.priority, max_attempts=self.max_attempts,
                      concurrency_key=self.concurrency_key)  # fmt: skip
            object.__setattr__(self, "topic", job.topic)
        except JobError as error:
            problems.append(str(error))
        if not isinstance(self.cron, str):
            problems.append(text("schedule.cron", cron=repr(self.cron)[:200], reason=type(self.cron).__name__))
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, TypeError, OSError):  # what zoneinfo raises for names that are none
            problems.append(text("schedule.timezone", timezone=repr(self.timezone)[:200]))
        try:
            object.__setattr__(self, "missed", Missed(self.missed))
        except ValueError:
            problems.append(text("schedule.missed", missed=repr(self.missed)[:200]))
        limit = self.missed_limit
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_MISSED:
            problems.append(text("schedule.missed_limit", value=repr(limit)[:200], most=MOST_MISSED))
        if problems:
            raise ConfigError(problems)


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A periodic job as it stands. `payload` is JSON text, None where the tick is told instead.

    `next_at`: the first tick without a job; None: there will be none. `last_at`, `last_job`: the last tick that was run,
    and its job. `declared`: code asks for it, nobody has set it by hand.
    """

    name: str
    topic: str
    cron: str
    timezone: str
    payload: str | None
    priority: int
    max_attempts: int | None
    concurrency_key: str
    missed: Missed
    missed_limit: int
    declared: bool
    paused_at: datetime | None
    paused_by: str | None
    next_at: datetime | None
    last_at: datetime | None
    last_job: UUID | None

    @property
    def paused(self) -> bool:
        """Whether its ticks pass without a job."""
        return self.paused_at is not None
