"""Periodic jobs in the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from brooq.engine.store import Schedules
from brooq.vocabulary.job import Job
from brooq.vocabulary.schedule import Missed, Schedule, ScheduleRecord


class Periodic:
    """The schedules, by name."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """None."""
        self._clock = clock
        self._schedules: dict[str, ScheduleRecord] = {}

    def read(self, *, due: bool) -> Schedules:
        """All of them, or those that are due."""
        now = self._clock()
        every = [self._schedules[name] for name in sorted(self._schedules)]
        going = [each for each in every if not each.paused]
        ahead = min((each.next_at for each in going if each.next_at is not None), default=None)
        if due:
            every = [
                each
                for each in going
                if (each.next_at is not None and each.next_at <= now)
                or (each.last_at is not None and each.last_at > now)
            ]
        return Schedules(now, ahead, every)

    def set(self, wanted: Schedule, payload: str | None, next_at: datetime | None, by: str | None) -> bool:
        """Set one."""
        held = self._schedules.get(wanted.name)
        if held is not None and by is None and not held.declared:
            return False
        if (
            held is not None
            and (held.cron, held.timezone) == (wanted.cron, wanted.timezone)
            and held.next_at is not None
        ):
            next_at = held.next_at
        made = ScheduleRecord(
            wanted.name, str(wanted.topic), wanted.cron, wanted.timezone, payload, wanted.priority, wanted.max_attempts,
            wanted.concurrency_key, Missed(wanted.missed), wanted.missed_limit, by is None, None, None, next_at, None, None,
        )  # fmt: skip
        if held is not None:
            made = replace(
                made,
                paused_at=held.paused_at,
                paused_by=held.paused_by,
                last_at=held.last_at,
                last_job=held.last_job,
            )
        if by is None and made == held:
            return False
        self._schedules[wanted.name] = made
        return True

    def remove(self, name: str) -> bool:
        """Take one away."""
        return self._schedules.pop(name, None) is not None

    def hold(self, name: str, by: str, next_at: datetime | None, *, paused: bool) -> bool:
        """Pause one, or let it go on."""
        held = self._schedules.get(name)
        if held is None or held.paused is paused:
            return False
        if paused:
            self._schedules[name] = replace(held, paused_at=self._clock(), paused_by=by)
        else:
            self._schedules[name] = replace(held, paused_at=None, paused_by=None, next_at=next_at)
        return True

    def retire(self, topics: Sequence[str], names: Sequence[str]) -> list[str]:
        """Take away what code has given up."""
        gone = [
            each.name
            for each in self._schedules.values()
            if each.declared and each.topic in topics and each.name not in names
        ]
        for name in gone:
            del self._schedules[name]
        return gone

    def advance(
        self, found: ScheduleRecord, next_at: datetime | None, last_at: datetime | None, jobs: Sequence[Job]
    ) -> bool:
        """Move one on, if it stands where it was found."""
        held = self._schedules.get(found.name)
        if held is None or held.paused or held.next_at != found.next_at:
            return False
        last_job = jobs[-1].id if jobs else held.last_job
        self._schedules[found.name] = replace(held, next_at=next_at, last_at=last_at, last_job=last_job)
        return True
