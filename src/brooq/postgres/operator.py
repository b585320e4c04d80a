"""What people do to jobs by hand: each action is written down with who did it and why (rule S23 of SECURITY.md)."""

from __future__ import annotations

from uuid import UUID

from brooq.postgres.link import Link
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import statements
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.job import Cancellation, State

_PATIENCE = 30.0


class Operator:
    """Acts over one connection of its own, made at the first action.

    Raises StoreUnavailable, OutcomeUnknown when the answer was lost, and SchemaError.
    """

    def __init__(self, store: PostgresStore, actor: str) -> None:
        """The place that the store works with; `actor` is the person, as the trail shall name them."""
        self._link = Link(store.driver, _PATIENCE)
        self._statements = statements(store.schema)
        self._actor = actor

    async def cancel(self, id: UUID, reason: str | None = None) -> Cancellation:
        """Cancel a job that is not terminal; answers what was found, as `Queue.cancel` does."""
        parameters = [id, self._actor, reason]

        async def work(session: Session) -> Rows:
            return await session.fetch(self._statements.operator_cancel, parameters)

        rows = await self._link.run(work, writing=True)
        if not rows:
            return Cancellation(False, None)
        ((state, topic, canceled),) = rows
        return Cancellation(canceled, State(state), topic)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()
