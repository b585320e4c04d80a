"""What comes by the clock: every periodic job, with its last tick and the next ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from starlette.responses import Response

from brooq.engine import calendar
from brooq.postgres.board import Board
from brooq.service.dashboard.visit import Visit
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.schedule import ScheduleRecord

PAGE = 50
AHEAD = 3
"""How many of the next ticks are shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """A periodic job as the table shows it."""

    record: ScheduleRecord
    ahead: list[datetime]
    """The next ticks; none while it is paused."""
    broken: str | None
    """Why this process cannot say when it ticks."""
    late: bool
    """Its tick has come, and no worker has made the job."""


async def schedules(visit: Visit, board: Board) -> Response:
    """A page of them, by name: all, or those of a topic."""
    topic, after = visit.ask("topic", 128), visit.ask("after", 128)
    now, records = await board.schedules(topic, after, PAGE + 1)
    lines = [line(record, now or datetime.now(UTC)) for record in records[:PAGE]]
    more = lines[-1].record.name if len(records) > PAGE else None
    return visit.page("schedules.html", lines=lines, topic=topic, after=after, more=more)


def line(record: ScheduleRecord, now: datetime) -> Line:
    """What there is to say of one at a moment."""
    late = not record.paused and record.next_at is not None and now - record.next_at > calendar.LATE
    try:
        # Also of one that is paused: what cannot be read cannot be resumed.
        ahead = list(islice(calendar.ticks(record.cron, record.timezone, now), AHEAD))
    except ConfigError as error:
        return Line(record, [], str(error), late)
    return Line(record, [] if record.paused else ahead, None, late)
