"""Periodic jobs in the database: one statement for each verb."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from brooq.engine.store import Schedules
from brooq.postgres.record import utc
from brooq.postgres.statement import Statements
from brooq.postgres.steering import Ask
from brooq.vocabulary.job import Job
from brooq.vocabulary.payload import encode
from brooq.vocabulary.schedule import Missed, Schedule, ScheduleRecord


async def schedules(ask: Ask, statements: Statements, *, due: bool) -> Schedules:
    """What is set, all of it or what is due."""
    rows = await ask(statements.schedules, due)
    now, next_at = rows[0][:2]
    found = [to_schedule(row[2:]) for row in rows if row[2] is not None]
    return Schedules(utc(now), None if next_at is None else utc(next_at), found)


def to_schedule(row: Sequence[Any]) -> ScheduleRecord:
    """A row as `schedules` reads it, from the name on."""
    (name, topic, cron, timezone, payload, priority, max_attempts, key, missed, missed_limit, declared, paused_at, paused_by,
     next_at, last_at, last_job) = row  # fmt: skip
    return ScheduleRecord(
        name, topic, cron, timezone, payload, priority, max_attempts, key, Missed(missed), missed_limit, declared,
        _utc(paused_at), paused_by, _utc(next_at), _utc(last_at), last_job,
    )  # fmt: skip


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else utc(moment)


async def schedule(
    ask: Ask,
    statements: Statements,
    wanted: Schedule,
    next_at: datetime | None,
    by: str | None,
    reason: str | None,
    *,
    max_payload: int,
) -> bool:
    """Set one; whether anything was written."""
    payload = None if wanted.payload is None else encode(wanted.payload, max_payload)
    rows = await ask(
        statements.schedule, wanted.name, str(wanted.topic), wanted.cron, wanted.timezone, payload, wanted.priority,
        wanted.max_attempts, wanted.concurrency_key or None, str(wanted.missed), wanted.missed_limit, next_at, by, reason,
    )  # fmt: skip
    return bool(rows)


async def fire(
    ask: Ask,
    statements: Statements,
    found: ScheduleRecord,
    next_at: datetime | None,
    last_at: datetime | None,
    jobs: Sequence[Job],
    *,
    max_payload: int,
    wake: bool,
) -> bool:
    """Make the jobs of ticks and move the schedule on; False: somebody else has done so."""
    payloads = [encode(job.payload, max_payload) for job in jobs]
    rows = await ask(
        statements.fire, found.name, found.next_at, next_at, last_at, [job.id for job in jobs],
        [job.idempotency_key for job in jobs], payloads, [job.available_at for job in jobs],
        [json.dumps(job.metadata) for job in jobs], found.topic, found.priority, found.max_attempts,
        found.concurrency_key or None, wake,
    )  # fmt: skip
    return bool(rows[0][0])
