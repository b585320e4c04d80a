"""The scheduler: makes the jobs of ticks that have come. It runs in every process; one tick has one job all the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from brooq.engine.calendar import plan
from brooq.engine.loop import Pulse
from brooq.engine.runtime import Runtime
from brooq.engine.store import Store
from brooq.vocabulary.error import ConfigError, JobError
from brooq.vocabulary.job import Job
from brooq.vocabulary.message import text
from brooq.vocabulary.schedule import ScheduleRecord

log = logging.getLogger("brooq")

LOOK = 5.0
"""After how many seconds schedules are read again at the latest: what was added elsewhere is found then."""

SHORTEST = 0.01
"""Looks lie at least so many seconds apart."""


class Scheduler:
    """Looks when the next tick comes by the database's clock."""

    def __init__(self, store: Store, nudge: Callable[[], None], runtime: Runtime) -> None:
        """`nudge` makes the worker of this process look for what was enqueued."""
        self.pulse = Pulse("scheduler", runtime)
        self._store = store
        self._nudge = nudge
        self._task: asyncio.Task[None] | None = None
        self._told: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Start in the running event loop."""
        self.pulse.alive = True
        self._task = asyncio.get_running_loop().create_task(self._run(), name="brooq scheduler")

    async def stop(self) -> None:
        """Stop; a tick on its way is done whole or not at all."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def tick(self) -> float:
        """Make the jobs of all ticks that have come; answers after how many seconds to look again."""
        found = await self._store.schedules(due=True)
        for schedule in found.schedules:
            await self._fire(schedule, found.now)
        if found.schedules:
            return SHORTEST  # there may be a tick after those, and whoever was faster has moved it on
        left = LOOK if found.next_at is None else (found.next_at - found.now).total_seconds()
        return min(max(left, SHORTEST), LOOK)

    async def _fire(self, schedule: ScheduleRecord, now: datetime) -> None:
        try:
            planned = plan(schedule, now)
            jobs = [job_of(schedule, tick) for tick in planned.ticks]
        except (ConfigError, JobError) as error:
            self._complain(schedule, error)
            # Not again at once: whoever mends it sets its next tick too.
            await self._store.fire(schedule, now + timedelta(minutes=1), min(schedule.last_at or now, now), [])
            return
        last = planned.ticks[-1] if planned.ticks else min(schedule.last_at or now, now)
        if await self._store.fire(schedule, planned.next_at, last, jobs):
            if jobs:
                self._nudge()
            if len(jobs) > 1:
                log.info(text("schedule.caught_up", name=schedule.name, count=len(jobs)))

    def _complain(self, schedule: ScheduleRecord, error: Exception) -> None:
        told = (schedule.name, schedule.cron)
        if told not in self._told:
            self._told.add(told)
            log.error(text("schedule.broken", name=schedule.name, reason=error))

    async def _run(self) -> None:
        try:
            while True:
                try:
                    wait = await self.tick()
                except Exception as error:  # noqa: BLE001  a loop must survive whatever its tick meets
                    wait = self.pulse.stumble(error)
                else:
                    self.pulse.beat()
                await asyncio.sleep(wait)
        finally:
            self.pulse.alive = False


def job_of(schedule: ScheduleRecord, tick: datetime | None) -> Job:
    """The job of a tick, whose key it carries; None: one beside the ticks, asked for by hand."""
    told = {"schedule": schedule.name} | ({} if tick is None else {"tick": tick.isoformat()})
    return Job(
        schedule.topic,
        told if schedule.payload is None else schedule.payload.encode(),
        idempotency_key="" if tick is None else f"brooq cron {schedule.name} {tick.isoformat()}",
        available_at=tick,
        priority=schedule.priority,
        max_attempts=schedule.max_attempts,
        concurrency_key=schedule.concurrency_key,
        metadata=told,
    )
