"""What people do to jobs by hand: each action is written down with who did it and why (rule S23 of SECURITY.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from brooq.postgres import steering
from brooq.postgres.link import Link
from brooq.postgres.record import to_cancellation, utc
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import statements
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.identifier import uuid7
from brooq.vocabulary.job import Cancellation, State
from brooq.vocabulary.steering import Limits

_PATIENCE = 30.0


class Retried(NamedTuple):
    """What a retry found. `id` is the new job's, None when none was made: since there is no such job (`state` None), since
    it has not ended yet, or since an earlier retry of it, `standing`, is still under way."""

    id: UUID | None
    state: State | None
    topic: str | None = None
    standing: UUID | None = None


class Operator:
    """Acts over one connection of its own, made at the first action.

    Raises StoreUnavailable, OutcomeUnknown when the answer was lost, and SchemaError.
    """

    def __init__(self, store: PostgresStore, actor: str, link: Link | None = None) -> None:
        """The place that the store works with; `actor` is the person, as the trail shall name them. `link`: a connection
        that several operators share, one after the other, instead of one of its own."""
        self._link = link or Link(store.driver, _PATIENCE)
        self._statements = statements(store.schema)
        self._wakeups = store.wakeups
        self._actor = actor

    async def cancel(self, id: UUID, reason: str | None = None) -> Cancellation:
        """Cancel a job that is not terminal; answers what was found, as `Queue.cancel` does."""
        return to_cancellation(await self._ask(self._statements.operator_cancel, id, self._actor, reason))

    async def retry(self, id: UUID, reason: str | None = None) -> Retried:
        """Do a finished job once more, as a new job without an idempotency key; the old row stays as it is."""
        parameters = [id, uuid7(), self._actor, reason, self._wakeups]

        async def work(session: Session) -> Rows:
            await session.fetch(self._statements.operator_hold, [id])
            return await session.fetch(self._statements.operator_retry, parameters)

        return to_retried(await self._link.run(work, writing=True, together=True))

    async def pause(self, topic: str, reason: str | None = None) -> bool:
        """Let nobody claim from a topic; False: it is paused already. As `Queue.pause`."""
        return await steering.pause(self._ask, self._statements, topic, self._actor, reason)

    async def resume(self, topic: str, reason: str | None = None) -> bool:
        """End a pause; False: there is none. As `Queue.resume`."""
        return await steering.resume(self._ask, self._statements, topic, self._actor, reason, wake=self._wakeups)

    async def limit(self, topic: str, limits: Limits | None, reason: str | None = None) -> bool:
        """Set the limits of a topic; None hands it back to what code declares. As `Queue.limit`."""
        return await steering.limit(self._ask, self._statements, topic, limits, self._actor, reason)

    async def pause_schedule(self, name: str, reason: str | None = None) -> bool:
        """Let the ticks of a periodic job pass without a job. As `Queue.pause_schedule`."""
        return bool(await self._ask(self._statements.hold_schedule, name, True, self._actor, reason, None))

    async def ticking(self, name: str) -> tuple[datetime, str, str] | None:
        """When a periodic job ticks: the database's time, the expression, its time zone. None: there is no such schedule."""
        rows = await self._ask(self._statements.operator_schedule, name)
        return (utc(rows[0][0]), rows[0][1], rows[0][2]) if rows else None

    async def resume_schedule(self, name: str, next_at: datetime | None, reason: str | None = None) -> bool:
        """Let a periodic job go on from its next tick; False: there is none, or it is not paused."""
        return bool(await self._ask(self._statements.hold_schedule, name, False, self._actor, reason, next_at))

    async def run_schedule(self, name: str, reason: str | None = None) -> UUID | None:
        """Enqueue a job of a periodic one now, beside its ticks; None: there is no such schedule. Unlike
        `Queue.run_schedule` it is written down."""
        rows = await self._ask(self._statements.operator_run, name, uuid7(), self._actor, reason, self._wakeups)
        return UUID(str(rows[0][0])) if rows else None

    async def _ask(self, statement: str, *parameters: Any) -> Rows:
        return await self._link.run(lambda session: session.fetch(statement, parameters), writing=True)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


def to_retried(rows: Rows) -> Retried:
    """What `operator_retry` answers; no row: there is no such job."""
    if not rows:
        return Retried(None, None)
    ((state, topic, made, standing, _),) = rows
    return Retried(made, State(state), topic, standing)
