"""What people do from a page: each is written down by the operator with who did it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias
from urllib.parse import urlencode
from uuid import UUID

from starlette.responses import Response

from brooq.engine import calendar
from brooq.postgres.operator import Operator
from brooq.service.dashboard.listing import as_id
from brooq.service.dashboard.visit import Refused, Visit, go, place
from brooq.vocabulary.error import ConfigError, StoreBusy, TopicError

Form: TypeAlias = dict[str, list[str]]
MOST = 500
"""How many jobs one action takes."""
MAX_REASON = 500


def actor_of(visit: Visit) -> str:
    """How the trail of operations calls whoever did it."""
    return f"{visit.session.name} (dashboard)" if visit.session.name else "dashboard"


@asynccontextmanager
async def _operator(visit: Visit) -> AsyncIterator[Operator]:
    operator = visit.desk.operator(actor_of(visit))
    try:
        yield operator
    finally:
        await operator.close()


async def on_jobs(visit: Visit, form: Form) -> Response:
    """Cancel or retry the jobs that are marked."""
    ids = [id for value in form.get("id", [])[:MOST] if (id := as_id(value))]
    if not ids:
        return _back(form, "nothing")
    reason = _reason(form)
    async with _operator(visit) as operator:
        match _one(form, "action"):
            case "cancel":
                done = [(await operator.cancel(id, reason)).canceled for id in ids]
                return _back(form, "canceled", sum(done), len(ids) - sum(done))
            case "retry":
                return await _retry(operator, ids, form, reason)
            case _:
                raise Refused(400, "board.refused_form")


async def on_topic(visit: Visit, form: Form) -> Response:
    """Pause a topic, or end its pause."""
    topic, reason = _one(form, "topic"), _reason(form)
    async with _operator(visit) as operator:
        try:
            match _one(form, "action"):
                case "pause":
                    return _back(form, "paused", int(await operator.pause(topic, reason)))
                case "resume":
                    return _back(form, "resumed", int(await operator.resume(topic, reason)))
                case _:
                    raise Refused(400, "board.refused_form")
        except TopicError:
            raise Refused(400, "board.refused_form") from None
        except StoreBusy:
            # It is paused; a claim that began before had not ended in time.
            return _back(form, "busy")


async def on_schedule(visit: Visit, form: Form) -> Response:
    """Pause a periodic job, end its pause, or run it now: that leads to the new job."""
    name, reason = _one(form, "schedule"), _reason(form)
    async with _operator(visit) as operator:
        try:
            match _one(form, "action"):
                case "pause":
                    done = await operator.pause_schedule(name, reason)
                    return _back(form, "held" if done else "unscheduled")
                case "resume":
                    return _back(form, "continued" if await _resume(operator, name, reason) else "unscheduled")
                case "run":
                    made = await operator.run_schedule(name, reason)
                    return go(f"/jobs/{made}?said=ran") if made else _back(form, "unscheduled")
                case _:
                    raise Refused(400, "board.refused_form")
        except ConfigError:
            return _back(form, "unreadable")


async def _resume(operator: Operator, name: str, reason: str | None) -> bool:
    found = await operator.ticking(name)
    if found is None:
        return False
    now, cron, timezone = found
    return await operator.resume_schedule(name, calendar.first(cron, timezone, now), reason)


async def on_group(visit: Visit, form: Form) -> Response:
    """Retry the dead of one topic that died of the same."""
    board = visit.desk.board
    assert board is not None
    ids = await board.group(_one(form, "topic"), _one(form, "error"), MOST)
    if not ids:
        return _back(form, "nothing")
    async with _operator(visit) as operator:
        return await _retry(operator, ids, form, _reason(form))


async def _retry(operator: Operator, ids: list[UUID], form: Form, reason: str | None) -> Response:
    made = [await operator.retry(id, reason) for id in ids]
    new = [each.id for each in made if each.id is not None]
    # To the new job; to the one that is under way already, when there is one.
    follow = made[0].id or made[0].standing
    if len(ids) == 1 and follow and _one(form, "follow"):
        return go(f"/jobs/{follow}?{urlencode({'said': 'retried', 'n': len(new), 'm': 1 - len(new)})}")
    return _back(form, "retried", len(new), len(ids) - len(new))


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[0].replace("\0", "")


def _reason(form: Form) -> str | None:
    return _one(form, "reason").strip()[:MAX_REASON] or None


def _back(form: Form, word: str, count: int = 0, rest: int = 0) -> Response:
    """To the page that it came from, which then says what was done."""
    path, _, asked = place(_one(form, "next")).partition("?")
    kept = [each for each in asked.split("&") if each and each.partition("=")[0] not in {"said", "n", "m"}]
    return go(f"{path}?{'&'.join([*kept, urlencode({'said': word, 'n': count, 'm': rest})])}")
