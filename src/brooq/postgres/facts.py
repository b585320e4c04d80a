"""What is known of why a job does not run. What it means is for others to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from brooq.postgres.record import to_failures, utc
from brooq.postgres.session import Rows
from brooq.vocabulary.job import Failure, State

FRESH = timedelta(seconds=30)
"""How long after its last word a worker counts as there: several of its periods, so that one late word is none missed."""

BOUND = 10_000
"""Up to how many jobs before it, and how many that ended lately, are counted."""

LATELY = timedelta(minutes=1)
"""What the pace of a topic is taken from."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot of a worker did when it was seen last."""

    id: UUID
    topic: str
    attempt: int
    seconds: float
    """For how long by then."""
    hung: bool
    """Its handler was interrupted and does not exit."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker as it said of itself last."""

    name: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    stopping: bool
    slots: int
    topics: tuple[str, ...]
    busy: Mapping[str, int]
    """How many of its slots each topic occupies."""
    running: tuple[Slot, ...] = ()
    """What its slots do: those that have run longest, when there are very many."""

    def there(self, now: datetime) -> bool:
        """Whether it has said something lately."""
        return now - self.seen_at <= FRESH

    @property
    def occupied(self) -> int:
        """How many of its slots are occupied."""
        return sum(self.busy.values())


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did to a job by hand."""

    at: datetime
    actor: str
    action: str
    done: bool
    reason: str | None
    made: UUID | None
    """The job that a retry has made."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at one moment. Times are the store's."""

    id: UUID
    topic: str
    state: State
    priority: int
    attempts: int
    max_attempts: int | None
    expired_leases: int
    concurrency_key: str
    available_at: datetime
    locked_by: str | None
    locked_until: datetime | None
    last_error: str | None
    failures: tuple[Failure, ...]
    retry_of: UUID | None
    created_at: datetime
    updated_at: datetime
    """Of a held job: when it was claimed, since renewals leave it alone."""
    now: datetime
    before: int = 0
    """Jobs of its topic that come before it."""
    before_exact: bool = True
    held: int = 0
    """Jobs of its topic that workers hold."""
    held_of_key: int = 0
    """Of these, those with its concurrency key."""
    ended_per_second: float = 0.0
    """How fast jobs of its topic have ended lately."""
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    max_running_per_key: int | None = None
    behind: UUID | None = None
    """In an ordered topic the first job with its key, which waits before it."""
    rate: int | None = None
    rate_period: float | None = None
    """In seconds."""
    tokens: float | None = None
    """How full the bucket is by now."""
    workers: tuple[Seen, ...] = ()
    deeds: tuple[Deed, ...] | None = ()
    """Newest first. None: the role may not read them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many jobs a second were enqueued, and ended, by topic; and when that was found, by the database's clock."""

    now: datetime
    made: Mapping[str, float]
    done: Mapping[str, float]
    dead: Mapping[str, float]


def to_pace(rows: Rows, lately: timedelta) -> Pace:
    """The rows of `pace.sql`."""
    rates: dict[str, dict[str, float]] = {"made": {}, "done": {}, "dead": {}, "canceled": {}}
    for topic, state, jobs, bounded, reach, _ in rows:
        # Where the bound ended the look, it reached less far back.
        span = reach if bounded else lately.total_seconds()
        if state is not None and jobs and span > 0:
            rates[state][topic] = jobs / span
    return Pace(utc(rows[0][-1]), rates["made"], rates["done"], rates["dead"])


def to_facts(row: Sequence[Any], workers: Sequence[Seen], deeds: Sequence[Deed] | None) -> Facts:
    """The row of `explain.sql`."""
    (id, topic, state, priority, attempts, max_attempts, expired_leases, key, available_at, locked_by, locked_until,
     last_error, failures, retry_of, created_at, updated_at, now, before, held, held_of_key, ended, looked_at, reach,
     paused_at, paused_by, pause_reason, max_running, per_key, behind, rate, rate_period, tokens, _) = row  # fmt: skip
    # Where the bound ended the look, it reached less far back.
    span = reach if looked_at >= BOUND else LATELY.total_seconds()
    return Facts(
        id=id,
        topic=topic,
        state=State(state),
        priority=priority,
        attempts=attempts,
        max_attempts=max_attempts,
        expired_leases=expired_leases,
        concurrency_key=key,
        available_at=utc(available_at),
        locked_by=locked_by,
        locked_until=_utc(locked_until),
        last_error=last_error,
        failures=to_failures(failures),
        retry_of=retry_of,
        created_at=utc(created_at),
        updated_at=utc(updated_at),
        now=utc(now),
        before=before,
        before_exact=before < BOUND,
        held=held,
        held_of_key=held_of_key,
        ended_per_second=ended / span if span > 0 else 0.0,
        paused_at=_utc(paused_at),
        paused_by=paused_by,
        pause_reason=pause_reason,
        max_running=max_running,
        max_running_per_key=per_key,
        behind=behind,
        rate=rate,
        rate_period=rate_period,
        tokens=tokens,
        workers=tuple(workers),
        deeds=None if deeds is None else tuple(deeds),
    )


def may_read_deeds(row: Sequence[Any]) -> bool:
    """What the last column of `explain.sql` says."""
    return bool(row[-1])


def to_deeds(rows: Rows) -> list[Deed]:
    """The rows of `trail.sql`."""
    return [Deed(utc(at), actor, action, done, reason, made) for at, actor, action, done, reason, made in rows]


def to_workers(rows: Rows) -> list[Seen]:
    """The rows of `workers.sql`."""
    return [
        Seen(
            name,
            host,
            pid,
            version,
            utc(started_at),
            utc(seen_at),
            stopping,
            slots,
            tuple(topics),
            json.loads(busy),
            tuple(Slot(**{**each, "id": UUID(each["id"])}) for each in json.loads(running)),
        )
        for name, host, pid, version, started_at, seen_at, stopping, slots, topics, busy, running, _ in rows
    ]


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else utc(moment)
