"""Why a job does not run: one cause out of what is known of its row, its topic and the workers. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from brooq.postgres.facts import Facts, Seen
from brooq.vocabulary.job import State


class Cause(StrEnum):
    """What a job waits for, or what has become of it."""

    NOT_DUE = "not_due"
    """Its time has not come."""
    RETRY = "retry"
    """An attempt failed; the time of the next one has not come."""
    PAUSED = "paused"
    """Somebody has paused its topic."""
    NO_WORKER = "no_worker"
    """No worker that is there has a kind for its topic."""
    LIMITED = "limited"
    """As many jobs of its topic run as may run at once."""
    KEY_LIMITED = "key_limited"
    """As many jobs of its concurrency key run as may run at once."""
    BEHIND = "behind"
    """Its topic goes in order, and another job with its key waits before it."""
    RATE_LIMITED = "rate_limited"
    """As many jobs of its topic were begun lately as may be begun in a period."""
    BUSY = "busy"
    """All slots that could take it are occupied."""
    NEXT = "next"
    """Nothing is in its way."""
    RUNNING = "running"
    """A worker holds it."""
    EXPIRED = "expired"
    """The worker that held it let its lease run out; a reaper puts it back."""
    DONE = "done"
    DEAD = "dead"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One cause, and what would keep the job waiting once that is over."""

    cause: Cause
    also: tuple[Cause, ...] = ()
    starts_at: datetime | None = None
    """About when it starts; None when nothing is known to say so, or when somebody has to do something first."""


_ENDS: Mapping[State, Cause] = {State.DONE: Cause.DONE, State.DEAD: Cause.DEAD, State.CANCELED: Cause.CANCELED}


def explain(facts: Facts) -> Explanation:
    """Why the job does not run, or that it does."""
    if facts.state in _ENDS:
        return Explanation(_ENDS[facts.state])
    if facts.state is State.PROCESSING:
        alive = facts.locked_until is not None and facts.locked_until >= facts.now
        return Explanation(Cause.RUNNING if alive else Cause.EXPIRED)
    hindrances = _hindrances(facts)
    cause, *also = hindrances or [Cause.NEXT]
    return Explanation(cause, tuple(also), _start(facts, hindrances))


def able(facts: Facts) -> list[Seen]:
    """The workers that could take the job: there, not about to stop, with a kind for its topic."""
    return [
        each for each in facts.workers if each.there(facts.now) and not each.stopping and facts.topic in each.topics
    ]


def _hindrances(facts: Facts) -> list[Cause]:
    """Everything that keeps a waiting job waiting: time first, then what needs a person, then what passes by itself."""
    found = []
    if facts.available_at > facts.now:
        found.append(Cause.RETRY if facts.state is State.FAILED else Cause.NOT_DUE)
    if facts.paused_at is not None:
        found.append(Cause.PAUSED)
    workers = able(facts)
    if not workers:
        found.append(Cause.NO_WORKER)
    if facts.max_running is not None and facts.held >= facts.max_running:
        found.append(Cause.LIMITED)
    key_full = facts.max_running_per_key is not None and facts.held_of_key >= facts.max_running_per_key
    if facts.concurrency_key and key_full:
        found.append(Cause.KEY_LIMITED)
    if facts.behind is not None:
        found.append(Cause.BEHIND)
    if facts.rate is not None and facts.tokens is not None and facts.tokens < 1:
        found.append(Cause.RATE_LIMITED)
    if workers and all(each.occupied >= each.slots for each in workers):
        found.append(Cause.BUSY)
    return found


def _start(facts: Facts, hindrances: list[Cause]) -> datetime | None:
    if Cause.PAUSED in hindrances or Cause.NO_WORKER in hindrances:
        return None
    if Cause.NOT_DUE in hindrances or Cause.RETRY in hindrances:
        return facts.available_at if len(hindrances) == 1 else None
    if facts.ended_per_second > 0:
        pace = facts.ended_per_second
        if facts.rate is not None and facts.rate_period:
            pace = min(pace, facts.rate / facts.rate_period)
        try:
            return facts.now + timedelta(seconds=(facts.before + 1) / pace)
        except OverflowError:
            return None
    return facts.now if not hindrances and not facts.before else None
