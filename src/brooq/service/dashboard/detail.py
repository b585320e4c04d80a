"""One job: everything its row tells, in the order in which it happened."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from starlette.responses import Response

from brooq.postgres.board import Board
from brooq.postgres.facts import Deed
from brooq.service.dashboard.visit import Refused, Visit
from brooq.vocabulary.job import JobRecord, State

_PART = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
SHOWN = 64 * 1024
"""Up to how many characters of a payload are shown."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something in the life of a job. `word` is the last part of a key of the catalogue, `tone` a colour."""

    word: str
    at: datetime | None
    tone: str
    values: dict[str, Any]
    text: str | None = None
    job: UUID | None = None


async def detail(visit: Visit, board: Board) -> Response:
    """A job's page."""
    try:
        id = UUID(visit.request.path_params["id"])
    except ValueError:
        raise Refused(404, "board.refused_id") from None
    record = await board.find(id)
    if record is None:
        raise Refused(404, "board.refused_job")
    operations = await board.deeds(id)
    return visit.page(
        "job.html",
        job=record,
        life=life(record, operations),
        payload=pretty(record.payload) if visit.payloads else None,
        result=pretty(record.result) if visit.payloads and record.result is not None else None,
        metadata=pretty(json.dumps(record.metadata, ensure_ascii=False)) if record.metadata else None,
        retried=[each for each in operations if each.made is not None],
    )


def life(record: JobRecord, operations: list[Deed]) -> list[Happening]:
    """Everything that is known, oldest first; what is still to come stands at the end."""
    found = [Happening("enqueued", record.created_at, "pending", {})]
    if record.retry_of is not None:
        found[0] = Happening("enqueued_again", record.created_at, "pending", {}, job=record.retry_of)
    for failure in record.failures:
        values = {"attempt": failure.attempt, "worker": failure.worker}
        found.append(Happening("failed", failure.at, "failed", values, failure.error))
    for each in operations:
        word = each.action if each.done else "tried"
        values = {"actor": each.actor, "action": each.action}
        found.append(Happening(f"by_{word}", each.at, "operator", values, each.reason, each.made))
    match record.state:
        case State.DONE:
            values = {"attempt": record.attempts, "worker": record.locked_by or "–"}
            found.append(Happening("done", record.updated_at, "done", values))
        case State.DEAD:
            found.append(Happening("dead", record.updated_at, "dead", {"attempt": record.attempts}))
        case State.CANCELED:
            if not any(each.action == "cancel" and each.done for each in operations):
                found.append(Happening("canceled", record.updated_at, "canceled", {}))
        case State.PENDING if record.expired_leases:
            found.append(Happening("requeued", record.updated_at, "pending", {"count": record.expired_leases}))
    # In a second in which a job failed for the last time it died, too: the order in which they were written stays.
    found.sort(key=lambda each: each.at.timestamp() if each.at is not None else 0.0)
    if record.state is State.PROCESSING:
        values = {"attempt": record.attempts, "worker": record.locked_by or "–"}
        found.append(Happening("held", None, "processing", values))
    elif record.state in {State.PENDING, State.FAILED}:
        found.append(Happening("next", record.available_at, "pending", {"attempt": record.attempts + 1}))
    return found


def pretty(source: str) -> str:
    """JSON with line breaks. It is not read, only laid out: numbers stay as they are written, however large."""
    if len(source) > SHOWN:
        return source[:SHOWN] + "…"
    parts, depth, last = [], 0, ""
    for part in _PART.findall(source):
        if part in {"}", "]"}:
            depth -= 1
            parts.append("" if last in {"{", "["} else "\n" + "  " * depth)
        elif last in {"{", "[", ","}:
            parts.append("\n" + "  " * depth)
        depth += part in {"{", "["}
        parts.append(": " if part == ":" else part)
        last = part
    return "".join(parts)
