"""Why a job does not run, in words: the answer first, then what else there is to know."""

from __future__ import annotations

import difflib
from datetime import datetime, timedelta
from typing import Any

from brooq.postgres.facts import Deed, Facts, Seen
from brooq.service.explanation import Cause, Explanation, able
from brooq.service.line import shorten
from brooq.service.output import ago, moment, span
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import MustGiveUp

MOST_WORKERS = 10
_REASON = 300
_GIVEN_UP = MustGiveUp.__name__
"""How the text of such a failure begins."""


def headline(explanation: Explanation) -> str:
    """What stands before the cause."""
    if explanation.cause is Cause.RUNNING:
        return text("explain.headline_running")
    ended = explanation.cause in {Cause.DONE, Cause.DEAD, Cause.CANCELED}
    return text("explain.headline_ended" if ended else "explain.headline_waiting")


def sentence(cause: Cause, facts: Facts) -> str:
    """One cause in one sentence."""
    return text(_key(cause, facts), **_values(cause, facts))


def remarks(facts: Facts, explanation: Explanation, lease: timedelta) -> list[str]:
    """What else there is to know, a line each; lines that begin with blanks belong to the one before."""
    cause = explanation.cause
    lines = [f"{text('explain.also')} {sentence(each, facts)}" for each in explanation.also]
    if cause is Cause.RUNNING:
        lines += _renewal(facts, lease)
    elif cause is Cause.EXPIRED:
        if not any(each.there(facts.now) for each in facts.workers):
            lines.append(text("explain.no_reaper"))
    elif not facts.state.terminal:
        lines += _waiting(facts, explanation)
    if facts.expired_leases >= 3 and not facts.state.terminal:
        lines.append(text("explain.leases", count=facts.expired_leases))
    if Cause.NO_WORKER in (cause, *explanation.also):
        lines += _workers(facts)
    if facts.retry_of is not None:
        lines.append(text("explain.retry_of", id=facts.retry_of))
    if facts.failures and cause is not Cause.DONE:
        lines.append(text("explain.failures"))
        lines += [
            "  " + text("command.failure", attempt=each.attempt, at=moment(each.at), worker=each.worker)
            + f": {shorten(each.error, _REASON)}"
            for each in reversed(facts.failures)
        ]  # fmt: skip
    return lines + _remedies(facts, explanation)


def as_values(facts: Facts, explanation: Explanation, lease: timedelta) -> dict[str, Any]:
    """All of it for a program."""
    renewed = _renewed_at(facts, lease)
    cancellation = _deed(facts, "cancel")
    retry = _deed(facts, "retry")
    return {
        "id": facts.id,
        "topic": facts.topic,
        "state": facts.state,
        "cause": explanation.cause,
        "also": list(explanation.also),
        "text": f"{headline(explanation)} {sentence(explanation.cause, facts)}",
        "starts_at": explanation.starts_at,
        "available_at": facts.available_at,
        "before": facts.before,
        "before_exact": facts.before_exact,
        "attempts": facts.attempts,
        "max_attempts": facts.max_attempts,
        "expired_leases": facts.expired_leases,
        "locked_by": facts.locked_by,
        "locked_until": facts.locked_until,
        "claimed_at": facts.updated_at if facts.state == "processing" else None,
        "renewed_at": renewed if facts.state == "processing" else None,
        "paused_at": facts.paused_at,
        "paused_by": facts.paused_by,
        "pause_reason": facts.pause_reason,
        "held": facts.held,
        "max_running": facts.max_running,
        "concurrency_key": facts.concurrency_key,
        "held_of_key": facts.held_of_key,
        "max_running_per_key": facts.max_running_per_key,
        "behind": facts.behind,
        "rate": facts.rate,
        "rate_period_seconds": facts.rate_period,
        "canceled_by": cancellation and cancellation.actor,
        "cancel_reason": cancellation and cancellation.reason,
        "retried_as": retry and retry.made,
        "retry_of": facts.retry_of,
        "last_error": facts.last_error,
        "failures": [
            {"attempt": each.attempt, "at": each.at.isoformat(), "worker": each.worker, "error": each.error}
            for each in facts.failures
        ],
        "workers": [
            {
                "name": each.name, "there": each.there(facts.now), "stopping": each.stopping, "slots": each.slots,
                "busy": each.occupied, "topics": list(each.topics), "seen_at": each.seen_at.isoformat(),
            }
            for each in facts.workers
        ],
        "now": facts.now,
    }  # fmt: skip


def _key(cause: Cause, facts: Facts) -> str:
    if cause is Cause.PAUSED:
        return "explain.paused_why" if facts.pause_reason else "explain.paused"
    if cause is Cause.DEAD and (facts.last_error or "").startswith(_GIVEN_UP):
        return "explain.dead_given_up"
    if cause is Cause.DEAD:
        used_up = facts.max_attempts is not None and facts.attempts >= facts.max_attempts
        return "explain.dead_used_up" if used_up else "explain.dead"
    deed = _deed(facts, "cancel")
    if cause is Cause.CANCELED and deed is not None:
        return "explain.canceled_why" if deed.reason else "explain.canceled_by"
    return f"explain.{cause}"


def _values(cause: Cause, facts: Facts) -> dict[str, object]:
    now = facts.now
    deed = _deed(facts, "cancel")
    workers = able(facts)
    at = {
        Cause.NOT_DUE: facts.available_at,
        Cause.RETRY: facts.available_at,
        Cause.PAUSED: facts.paused_at,
    }.get(cause, facts.updated_at)
    return {
        "at": moment(at),
        "span": ago(now, facts.locked_until or now) if cause is Cause.EXPIRED else ago(now, at or now),
        "attempts": facts.attempts,
        "failed": moment(facts.updated_at),
        "by": shorten((deed.actor if deed else facts.paused_by) or "-", 120),
        "reason": shorten((deed.reason if deed else facts.pause_reason) or "-", _REASON),
        "topic": facts.topic,
        "held": facts.held_of_key if cause is Cause.KEY_LIMITED else facts.held,
        "limit": facts.max_running_per_key if cause is Cause.KEY_LIMITED else facts.max_running,
        "key": shorten(facts.concurrency_key, 80),
        "id": facts.behind,
        "rate": facts.rate,
        "period": span(facts.rate_period or 0.0),
        "slots": sum(each.slots for each in workers),
        "worker": shorten(facts.locked_by or "-", 120),
        "since": moment(facts.updated_at),
        "until": moment(facts.locked_until),
    }


def _renewed_at(facts: Facts, lease: timedelta) -> datetime | None:
    """A renewal moves the end of the lease to its length from then; the row says no more of it. None: the length that is
    known here is not that worker's."""
    if facts.locked_until is None:
        return None
    renewed = facts.locked_until - lease
    slack = timedelta(seconds=1)
    return renewed if facts.updated_at - slack <= renewed <= facts.now + slack else None


def _renewal(facts: Facts, lease: timedelta) -> list[str]:
    renewed = _renewed_at(facts, lease)
    if renewed is None:
        return []
    values = {"at": moment(renewed), "span": ago(facts.now, renewed), "lease": span(lease.total_seconds())}
    return [text("explain.renewal", **values)]


def _waiting(facts: Facts, explanation: Explanation) -> list[str]:
    if facts.available_at > facts.now:
        return []
    needs_somebody = {Cause.PAUSED, Cause.NO_WORKER} & {explanation.cause, *explanation.also}
    lines = []
    if facts.before:
        lines.append(text("explain.before" if facts.before_exact else "explain.before_many", count=facts.before))
    elif not needs_somebody:
        lines.append(text("explain.before_none"))
    if explanation.starts_at is not None:
        at = explanation.starts_at
        lines.append(text("explain.starts", at=moment(at), span=ago(facts.now, at)))
    elif not needs_somebody:
        lines.append(text("explain.starts_unknown"))
    return lines


def _workers(facts: Facts) -> list[str]:
    if not facts.workers:
        return [text("explain.workers_none")]
    lines = [text("explain.workers")]
    for each in facts.workers[:MOST_WORKERS]:
        topics = shorten(", ".join(each.topics) or "-", 200)
        lines.append("  " + text("explain.worker", name=shorten(each.name, 80), seen=_seen(each, facts), topics=topics))
    if len(facts.workers) > MOST_WORKERS:
        lines.append("  " + text("explain.more_workers", count=len(facts.workers) - MOST_WORKERS))
    known = {topic for each in facts.workers for topic in each.topics}
    close = difflib.get_close_matches(facts.topic, known - {facts.topic}, 1, 0.7)
    return lines + [text("explain.meant", topic=topic) for topic in close]


def _seen(each: Seen, facts: Facts) -> str:
    if not each.there(facts.now):
        return text("explain.worker_gone", span=ago(facts.now, each.seen_at))
    return text("explain.worker_stopping" if each.stopping else "explain.worker_there")


def _deed(facts: Facts, action: str) -> Deed | None:
    return next((each for each in facts.deeds or () if each.action == action and each.done), None)


def _remedies(facts: Facts, explanation: Explanation) -> list[str]:
    retry = _deed(facts, "retry")
    if retry is not None and retry.made is not None:
        values = {"id": retry.made, "by": shorten(retry.actor, 120), "at": moment(retry.at)}
        return [text("explain.retried", **values)]
    if explanation.cause in {Cause.DEAD, Cause.CANCELED}:
        return [text("explain.remedy_retry", id=facts.id)]
    if Cause.PAUSED in (explanation.cause, *explanation.also):
        return [text("explain.remedy_resume", topic=facts.topic)]
    return []
