"""The verbs whose permutations are tried, each by the store's own code, inside a transaction that the test keeps open.

All of them want the same job. What they answer is put in words, the same words for the store and for the rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from tests.models.protocol import Ending, Hold, Protocol, Row

from brooq import Job, State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold as Lease
from brooq.postgres import PostgresStore, wrap_tx
from brooq.postgres.drivers.psycopg import PsycopgSession
from brooq.postgres.limited import LimitedClaims
from brooq.postgres.link import Link
from brooq.postgres.pool import make_pool
from brooq.postgres.renewer import PostgresRenewer
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import Statements
from brooq.vocabulary.schedule import Missed, ScheduleRecord

JOB = UUID(int=1)
OWNER, KEY, CHILD = "w", "k", "child"
HOUR = 3600
SPAN = timedelta(seconds=HOUR)
LATER = datetime(2999, 1, 1, tzinfo=UTC)
SCENES = {
    "ready": Row(available=-60, updated=-60),
    "held": Row(State.PROCESSING, 1, 1, OWNER, HOUR, -60, 0, -60),
    "expired": Row(State.PROCESSING, 1, 1, OWNER, -5, -60, 0, -60),
    "taken again": Row(State.PROCESSING, 2, 2, OWNER, HOUR, -60, 0, -60),
    "finished": Row(State.DONE, 1, 1, OWNER, -7200, -7200, 0, -7200),
}
"""The job before it begins; now is 0."""


class World(NamedTuple):
    """The job, and whether there are another one with its key, and a chained one; what is set for its topic, and whether the
    tick of the one schedule has fired."""

    job: Row | None
    another: bool = False
    child: bool = False
    limited: bool = False
    paused: bool = False
    fired: bool = False


class SessionStore(PostgresStore):
    """The store with every statement in one session, whose transaction somebody else begins and ends."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], texts: Statements) -> None:
        """The pool is never opened."""
        super().__init__(make_pool("", min_size=0))
        self._statements = texts
        self.connection = connection
        self.session = PsycopgSession(connection)
        self.renewing = PostgresRenewer(SessionLink(self), texts)

    async def _on_lane(
        self, work: Callable[[Session], Awaitable[Any]], within: float, *, together: bool = False
    ) -> Any:
        return await work(self.session)

    async def _on_upkeep(self, statement: str, *parameters: Any) -> Rows:
        return await self.session.fetch(statement, parameters)

    async def _through_pool(self, statement: str, *parameters: Any) -> Rows:
        return await self.session.fetch(statement, parameters)


class SessionLink(Link):
    """A link to the session, with its errors as they are."""

    def __init__(self, store: SessionStore) -> None:
        """Nothing to connect."""
        super().__init__(store.driver, HOUR)
        self._held = store.session

    async def run(
        self,
        work: Callable[[Session], Awaitable[Any]],
        *,
        writing: bool = False,
        within: float = 0,
        together: bool = False,
    ) -> Any:
        """In the session."""
        return await work(self._held)


Step = Callable[[SessionStore, int, list[str]], Awaitable[str]]
"""One statement or two in a session (its number, what its steps have answered so far)."""
Answer = tuple[str, World]


class Operation(NamedTuple):
    """A verb: its steps in a session, what the rules say of it, and whether it passes over rows that are locked."""

    steps: tuple[Step, ...]
    rule: Callable[[World, bool], Answer]
    skips: bool = False


async def _exchange(store: SessionStore, _: int, __: list[str]) -> str:
    ended = Outcome(JOB, 1, State.FAILED, "e", 0.0)
    answer = await store.exchange(OWNER, [ended], ["t"], 10, SPAN)
    return _exchanged(bool(answer.settled), [taken.token for taken in answer.taken])


def _exchanged(settled: bool, tokens: list[int]) -> str:
    return f"{'settled' if settled else 'refused'}, {'took ' + str(tokens[0]) if tokens else 'took nothing'}"


def _exchange_rule(world: World, skip: bool) -> Answer:
    if world.job is None:
        return _exchanged(False, []), world
    settled = RULES.settle(world.job, HOLD, Ending(State.FAILED, 0), 0)
    taken = None if skip or world.limited or world.paused else RULES.claim(world.job, OWNER, 0, HOUR)
    answer = _exchanged(settled is not None, [taken.claim_seq] if taken else [])
    return answer, world._replace(job=settled or taken or world.job)


async def _renew(store: SessionStore, _: int, __: list[str]) -> str:
    answer = await store.renewing.renew(OWNER, [Lease(JOB, 1)], SPAN)
    return "renewed" if answer.renewed else "lost" if answer.lost else "not known"


def _renew_rule(world: World, skip: bool) -> Answer:
    new = None if world.job is None else RULES.renew(world.job, HOLD, 0, HOUR)
    if new is None:
        return "lost", world
    return ("not known", world) if skip else ("renewed", world._replace(job=new))


async def _settle(store: SessionStore, _: int, __: list[str]) -> str:
    answer = await store.settle(wrap_tx(store.connection), OWNER, Outcome(JOB, 1, State.DONE))
    return "settled" if answer else "refused"


def _settle_rule(world: World, _: bool) -> Answer:
    new = None if world.job is None else RULES.settle(world.job, HOLD, Ending(State.DONE), 0)
    return ("settled", world._replace(job=new)) if new else ("refused", world)


async def _chain(store: SessionStore, _: int, answers: list[str]) -> str:
    if answers[-1] == "refused":
        return "nothing"
    (answer,) = await store.enqueue(wrap_tx(store.connection), [Job("t2", None, CHILD)])
    return "created" if answer.created else "found"


def _chain_rule(world: World, skip: bool) -> Answer:
    answer, after = _settle_rule(world, skip)
    if answer == "refused":
        return "refused, nothing", after
    return f"settled, {'found' if after.child else 'created'}", after._replace(child=True)


async def _reap(store: SessionStore, _: int, __: list[str]) -> str:
    return f"reaped {len(await store.reap(10))}"


def _reap_rule(world: World, skip: bool) -> Answer:
    new = None if world.job is None or skip else RULES.reap(world.job, 0)
    return ("reaped 1", world._replace(job=new)) if new else ("reaped 0", world)


async def _cancel(store: SessionStore, _: int, __: list[str]) -> str:
    answer = await store.cancel(JOB)
    return f"{'canceled' if answer.canceled else 'found'} {answer.state or 'nothing'}"


def _cancel_rule(world: World, _: bool) -> Answer:
    if world.job is None:
        return "found nothing", world
    new = RULES.cancel(world.job, 0)
    return f"{'canceled' if new else 'found'} {world.job.state}", world._replace(job=new or world.job)


async def _prune(store: SessionStore, _: int, __: list[str]) -> str:
    return f"pruned {len(await store.prune(SPAN, 10))}"


def _prune_rule(world: World, skip: bool) -> Answer:
    if world.job is None or skip or not RULES.prune(world.job, 0, HOUR):
        return "pruned 0", world
    return "pruned 1", world._replace(job=None)


async def _enqueue(store: SessionStore, _: int, __: list[str]) -> str:
    # Far in the future, so that nobody claims it: the permutations are about the other job.
    (answer,) = await store.enqueue(wrap_tx(store.connection), [Job("t", None, KEY, LATER)])
    return "created" if answer.created else "found"


def _enqueue_rule(world: World, _: bool) -> Answer:
    if world.job is not None or world.another:
        return "found", world
    return "created", world._replace(another=True)


async def _lock(store: SessionStore, _: int, __: list[str]) -> str:
    return "locked" if await store.session.fetch(store._statements.lock_topic, ["t"]) else "not set"


async def _claim_limited(store: SessionStore, _: int, answers: list[str]) -> str:
    if answers[-1] != "locked":
        return "nothing"
    claims = LimitedClaims()
    rows = await store.session.fetch(store._statements.claim_limited, claims._parameters(OWNER, "t", 10, SPAN))
    taken = claims.claimed(rows, "t", 10, SPAN).taken
    return f"took {taken[0].token}" if taken else "took nothing"


def _claim_limited_rule(world: World, skip: bool) -> Answer:
    if not (world.limited or world.paused):
        return "not set, nothing", world
    running = int(world.job is not None and world.job.state is State.PROCESSING)
    room = 0 if world.paused or skip else RULES.room(running, 1 if world.limited else None, 10)
    new = RULES.claim(world.job, OWNER, 0, HOUR) if room and world.job is not None else None
    return (f"locked, took {new.claim_seq}", world._replace(job=new)) if new else ("locked, took nothing", world)


async def _pause(store: SessionStore, _: int, __: list[str]) -> str:
    ((done,),) = await store.session.fetch(store._statements.pause, ["t", "ann", None])
    return "paused" if done else "paused before"


def _pause_rule(world: World, _: bool) -> Answer:
    return ("paused before", world) if world.paused else ("paused", world._replace(paused=True))


async def _fire(store: SessionStore, _: int, __: list[str]) -> str:
    # Its job has the key of the one job here, as when the clock was set back: then the tick has its job already.
    tick = ScheduleRecord(
        "s", "t", "* * * * *", "UTC", None, 0, None, "", Missed.ONCE, 100, False, None, None, TICK, None, None
    )
    return "fired" if await store.fire(tick, LATER, TICK, [Job("t", None, KEY, LATER)]) else "too late"


def _fire_rule(world: World, _: bool) -> Answer:
    if world.fired:
        return "too late", world
    return "fired", _enqueue_rule(world, False)[1]._replace(fired=True)


async def _assert_held(store: SessionStore, _: int, __: list[str]) -> str:
    return "held" if await store.assert_held(wrap_tx(store.connection), Lease(JOB, 1)) else "over"


def _assert_held_rule(world: World, _: bool) -> Answer:
    return "held" if world.job is not None and RULES.asserts(world.job, HOLD) else "over", world


async def _retake(store: SessionStore, _: int, __: list[str]) -> str:
    answer = await store.exchange("v", [], ["t"], 10, SPAN)
    return f"took {answer.taken[0].token}" if answer.taken else "took nothing"


def _retake_rule(world: World, skip: bool) -> Answer:
    """The lease has run out, and another worker has the job next, unless a fenced transaction keeps it out."""
    told, after = _reap_rule(world, False)
    free = after.job is not None and not (skip or after.limited or after.paused)
    new = RULES.claim(after.job, "v", 0, HOUR) if free and after.job is not None else None
    return (f"{told}, took {new.claim_seq}", after._replace(job=new)) if new else (f"{told}, took nothing", after)


TICK = datetime(2000, 1, 1, tzinfo=UTC)
RULES = Protocol()
HOLD = Hold(OWNER, 1, 1)
OPERATIONS = {
    "exchange": Operation((_exchange,), _exchange_rule, skips=True),
    "renew": Operation((_renew,), _renew_rule, skips=True),
    "settle": Operation((_settle,), _settle_rule),
    "reap": Operation((_reap,), _reap_rule, skips=True),
    "cancel": Operation((_cancel,), _cancel_rule),
    "prune": Operation((_prune,), _prune_rule, skips=True),
    "enqueue": Operation((_enqueue,), _enqueue_rule),
    "chain": Operation((_settle, _chain), _chain_rule),
    "claim_limited": Operation((_lock, _claim_limited), _claim_limited_rule, skips=True),
    "pause": Operation((_pause,), _pause_rule),
    "fire": Operation((_fire,), _fire_rule),
    "assert_held": Operation((_assert_held,), _assert_held_rule),
    "retake": Operation((_reap, _retake), _retake_rule, skips=True),
}
JOB_VERBS = ("exchange", "renew", "settle", "reap", "cancel", "prune", "enqueue", "chain")
"""Each of these may meet each of them in one row."""
MEETINGS = {
    "claim_limited": ("exchange", "settle", "reap", "cancel", "claim_limited", "pause"),
    "pause": ("exchange", "pause"),
    "fire": ("prune", "enqueue", "fire"),
    "assert_held": ("exchange", "renew", "settle", "reap", "cancel", "retake"),
}
"""Whom the others meet: where they share a row, or one decides what the other may do."""
