"""The settings of a queue: one frozen value that reports all its faults at once (requirement S3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.kind import KindOptions, check_duration, check_options
from brooq.vocabulary.message import text

_PERIODS = ("poll_interval", "lease", "reaper_period", "watchdog_grace", "shutdown_grace", "census_period")


@dataclass(frozen=True, slots=True)
class Config:
    """How a queue works. Durations are timedeltas or seconds.

    `workers`: how many jobs run at once in this process (slots).
    `prefetch`: how many jobs are claimed ahead of the slots: held, leased, handed back when the worker stops.
    `poll_interval`: how often an idle worker looks for jobs.
    `lease`: how long a claim lasts without renewal: the speed of recovery after a crash, no limit on work (L5).
    `reaper_period`: how often expired leases are looked for; None means `max(5 s, lease / 4)` (L4).
    `watchdog_grace`: how long an interrupted handler may take to exit before it counts as hung; None means the lease (I5).
    `shutdown_grace`: how long running handlers may go on after `stop`.
    `retention_ttl`: age at which terminal jobs are deleted; 0 never deletes (R2). `retention_batch`: rows a transaction.
    `retention_period`: how often; 0 means derived from the TTL.
    `census_period`: how often the table's depths are read for the gauges.
    The rest are the kinds' defaults, see KindOptions.

    Raises ConfigError listing every problem.
    """

    workers: int = 2
    prefetch: int = 0
    poll_interval: Duration = 1
    lease: Duration = 120
    reaper_period: Duration | None = None
    watchdog_grace: Duration | None = None
    shutdown_grace: Duration = 30
    retention_ttl: Duration = timedelta(days=30)
    retention_batch: int = 1000
    retention_period: Duration = 0
    census_period: Duration = 15
    max_attempts: int = 5
    attempt_timeout: Duration = 60
    max_execution_timeout: Duration = 300
    backoff_base: Duration = 1
    backoff_max: Duration = 60

    def __post_init__(self) -> None:
        """Check every field, then all of them together."""
        problems: list[str] = []
        for name in ("workers", "retention_batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                problems.append(text("config.at_least_one", name=name, value=repr(value)))
        if isinstance(self.prefetch, bool) or not isinstance(self.prefetch, int) or self.prefetch < 0:
            problems.append(text("config.not_below_zero", name="prefetch", value=repr(self.prefetch)))
        for name in _PERIODS:
            value = getattr(self, name)
            if value is not None:
                problems.extend(check_duration(name, value)[0])
        for name in ("retention_ttl", "retention_period"):
            problems.extend(check_duration(name, getattr(self, name), zero=True)[0])
        defaults = self.kind_defaults
        problems.extend(check_options({name: getattr(defaults, name) for name in KindOptions.__slots__}))
        if problems:
            raise ConfigError(problems)

    @property
    def kind_defaults(self) -> KindOptions:
        """What a kind takes where its own options say nothing."""
        return KindOptions(
            max_attempts=self.max_attempts,
            attempt_timeout=self.attempt_timeout,
            max_execution_timeout=self.max_execution_timeout,
            backoff_base=self.backoff_base,
            backoff_max=self.backoff_max,
        )

    @property
    def lease_time(self) -> timedelta:
        """The lease as a timedelta."""
        return to_timedelta(self.lease)

    @property
    def lease_seconds(self) -> float:
        """The lease in seconds."""
        return self.lease_time.total_seconds()

    @property
    def reaper_seconds(self) -> float:
        """The reaper's period in seconds (L4)."""
        if self.reaper_period is None:
            return max(5.0, self.lease_seconds / 4)
        return to_timedelta(self.reaper_period).total_seconds()

    @property
    def watchdog_seconds(self) -> float:
        """The watchdog's grace in seconds (I5)."""
        return self.lease_seconds if self.watchdog_grace is None else to_timedelta(self.watchdog_grace).total_seconds()

    @property
    def retention_seconds(self) -> float:
        """How often retention runs, in seconds: a hundredth of the TTL, between a minute and an hour, unless it is set."""
        period = to_timedelta(self.retention_period).total_seconds()
        return period or min(3600.0, max(60.0, to_timedelta(self.retention_ttl).total_seconds() / 100))
