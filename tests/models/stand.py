"""What the machine works with: a database whose time stands still, claims that are kept for ever, the words for endings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from tests.models.clock import Clock
from tests.models.protocol import Ending, Hold, Row

from brooq import State
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold as Lease
from brooq.postgres import PostgresStore
from brooq.postgres.renewer import PostgresRenewer
from brooq.postgres.statement import Statements

T = TypeVar("T")
PATIENCE = 30.0
"""After how many seconds a step that should not wait for any lock is taken to hang."""
LEASE, AGE = 100, 200
"""In seconds of the standing clock; the store measures its patience with an answer in real ones of the same number."""
TOPICS = ("a", "b")
WORKERS = ("one", "two")
ENDINGS = {
    "done": Ending(State.DONE),
    "failed": Ending(State.FAILED, delay=40),
    "at once": Ending(State.FAILED, delay=0),
    "preserved": Ending(State.FAILED, delay=40, refund=1),
    "released": Ending(State.PENDING, delay=0, refund=1),
    "dead": Ending(State.DEAD),
    "canceled": Ending(State.CANCELED),
}
HASTEN = """
update job set available_at = clock.now(), updated_at = clock.now() where state in ('pending', 'failed') and id = %s
"""
RESET = """
update job set attempts = 0, available_at = clock.now(), updated_at = clock.now()
where state in ('pending', 'failed') and id = %s
"""
EMPTY = "truncate job, brooq_topic, brooq_schedule"
READ = """
select id, state, attempts, claim_seq, locked_by, locked_until, available_at, expired_leases, updated_at, topic, priority,
       coalesce(idempotency_key, '')
from job
"""


class Known(NamedTuple):
    """What never changes of a job."""

    id: UUID
    topic: str
    priority: int
    key: str


class Handler(NamedTuple):
    """A claim in somebody's hands, for ever."""

    id: UUID
    worker: str
    attempt: int
    token: int

    @property
    def hold(self) -> Hold:
        """As the rules see it."""
        return Hold(self.worker, self.attempt, self.token)

    @property
    def lease(self) -> Lease:
        """As the store sees it."""
        return Lease(self.id, self.token)


class Open(NamedTuple):
    """A transaction that is not over: rows as they will be after its commit, and the jobs among them that it made."""

    tx: Any
    rows: dict[UUID, Row]
    made: list[Known]


@dataclass
class Place:
    """The database under a machine: made once, emptied for every example."""

    connection: psycopg.Connection[Any]
    clock: Clock
    store: PostgresStore
    renewer: PostgresRenewer
    runner: asyncio.Runner
    steps: int = 0

    def weaken(self, texts: Statements) -> None:
        """Let the store use other statements."""
        self.store._statements = self.renewer._statements = texts

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do a verb of the store."""
        self.steps += 1
        return self.runner.run(asyncio.wait_for(work, PATIENCE))


def outcome(handler: Handler, name: str) -> Outcome:
    """An ending as the store takes it."""
    ending = ENDINGS[name]
    delay = None if ending.delay is None else float(ending.delay)
    error = "e" if ending.state in (State.FAILED, State.DEAD) else None
    return Outcome(handler.id, handler.token, ending.state, error, delay, ending.refund)
