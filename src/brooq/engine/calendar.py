"""When a cron expression ticks. The one module of the engine that knows a package: cronsim, of the extra `cron`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text
from brooq.vocabulary.schedule import Missed, ScheduleRecord

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

LATE = timedelta(minutes=1)
"""A tick that is noticed later than this was missed."""


class Plan(NamedTuple):
    """What a schedule comes to at one moment: the ticks that get a job, oldest first, and the next one after it."""

    ticks: list[datetime]
    next_at: datetime | None


def available() -> bool:
    """Whether expressions can be read here."""
    try:
        import cronsim  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def ticks(cron: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """The ticks after a moment, in UTC. Raises ConfigError for an expression that is none, or without the package."""
    return _walk(cron, timezone, after, back=False)


def ticks_back(cron: str, timezone: str, before: datetime) -> Iterator[datetime]:
    """The ticks before a moment, the latest first. Errors as `ticks`."""
    return _walk(cron, timezone, before, back=True)


def first(cron: str, timezone: str, after: datetime) -> datetime | None:
    """The next tick; None when there is none within the years that are searched. Errors as `ticks`."""
    return next(ticks(cron, timezone, after), None)


def plan(schedule: ScheduleRecord, now: datetime) -> Plan:
    """Which ticks get a job now, by the schedule's way with those that were missed. Errors as `ticks`.

    Only as many ticks are looked at as get one: a year of downtime costs no more than a minute.
    """
    following = first(schedule.cron, schedule.timezone, now)
    since = schedule.next_at
    if since is None or since > now:
        return Plan([], following)
    back = takewhile(
        lambda tick: tick >= since, ticks_back(schedule.cron, schedule.timezone, now + timedelta(microseconds=1))
    )
    found = list(islice(back, schedule.missed_limit if schedule.missed is Missed.ALL else 1))
    if schedule.missed is Missed.SKIP:
        found = [tick for tick in found if now - tick <= LATE]
    return Plan(found[::-1], following)


def _walk(cron: str, timezone: str, start: datetime, *, back: bool) -> Iterator[datetime]:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415
    except ImportError:
        raise ConfigError([text("schedule.no_cronsim")]) from None
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):  # known where it was set, and not to the time zone database of this host
        raise ConfigError([text("schedule.timezone", timezone=repr(timezone)[:200])]) from None
    try:
        found = CronSim(ALIASES.get(cron.strip().lower(), cron), start.astimezone(zone), reverse=back)
    except CronSimError as error:
        raise ConfigError([text("schedule.cron", cron=repr(cron)[:200], reason=error)]) from None
    return (tick.astimezone(UTC) for tick in found)
