"""Rows as the words of the vocabulary and of the store port."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from brooq.engine.store import Taken
from brooq.postgres.session import Rows
from brooq.vocabulary.job import Cancellation, Failure, JobRecord, Progress, State
from brooq.vocabulary.payload import decode


def utc(moment: datetime) -> datetime:
    """The moment in UTC, whatever the session's zone: in a repeated hour Python finds no two zones' moments equal."""
    return moment.astimezone(UTC)


def to_taken(rows: Rows, now: datetime, lease: timedelta) -> list[Taken]:
    """What a claim took at the time `now`: the first ten columns of `exchange.sql`."""
    until = utc(now) + lease
    taken = [
        (id, topic, payload, attempts, token, until, limit, max((now - ready).total_seconds(), 0.0), lost, metadata)
        for id, token, topic, payload, attempts, limit, _, ready, lost, metadata in rows
    ]
    return list(map(Taken._make, taken))  # half of what Taken(…) takes


def to_cancellation(rows: Rows) -> Cancellation:
    """What `cancel.sql` and `operator_cancel.sql` answer; no row: there is no such job."""
    if not rows:
        return Cancellation(False, None)
    ((state, topic, canceled, _),) = rows
    return Cancellation(canceled, State(state), topic)


def to_record(row: Sequence[Any]) -> JobRecord:
    """The row of `find.sql` and `list.sql`, whose columns stand in the order of JobRecord."""
    (id, topic, payload, state, priority, attempts, max_attempts, claim_seq, expired_leases, key, available_at,
     locked_by, locked_until, last_error, failures, tags, metadata, created_at, updated_at,
     retry_of, concurrency_key, result, progress) = row  # fmt: skip
    return JobRecord(
        id=id,
        topic=topic,
        payload=decode(payload),
        state=State(state),
        priority=priority,
        attempts=attempts,
        max_attempts=max_attempts,
        claim_seq=claim_seq,
        expired_leases=expired_leases,
        idempotency_key=key,
        available_at=utc(available_at),
        locked_by=locked_by,
        locked_until=None if locked_until is None else utc(locked_until),
        last_error=last_error,
        failures=to_failures(failures),
        tags=tuple(tags or ()),
        metadata=json.loads(metadata) if metadata else None,
        created_at=utc(created_at),
        updated_at=utc(updated_at),
        retry_of=retry_of,
        concurrency_key=concurrency_key,
        result=None if result is None else decode(result),
        progress=_to_progress(progress),
    )


def to_failures(column: str | None) -> tuple[Failure, ...]:
    """The JSON text of the column `failures`, oldest first."""
    return tuple(
        Failure(each["attempt"], utc(datetime.fromisoformat(each["at"])), each["worker"], each["error"])
        for each in json.loads(column or "[]")
    )


def _to_progress(column: str | None) -> Progress | None:
    if column is None:
        return None
    told = json.loads(column)
    return Progress(told["done"], told.get("note", ""), utc(datetime.fromisoformat(told["at"])))
