"""What people do to jobs by hand: each action is written down with who did it and why (rule S23 of SECURITY.md)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brooq.postgres import steering
from brooq.postgres.link import Link
from brooq.postgres.session import Rows
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
        rows = await self._ask(self._statements.operator_cancel, id, self._actor, reason)
        if not rows:
            return Cancellation(False, None)
        ((state, topic, canceled),) = rows
        return Cancellation(canceled, State(state), topic)

    async def pause(self, topic: str, reason: str | None = None) -> bool:
        """Let nobody claim from a topic; False: it is paused already. As `Queue.pause`."""
        return await steering.pause(self._ask, self._statements, topic, self._actor, reason)

    async def resume(self, topic: str, reason: str | None = None) -> bool:
        """End a pause; False: there is none. As `Queue.resume`."""
        return await steering.resume(self._ask, self._statements, topic, self._actor, reason, wake=True)

    async def _ask(self, statement: str, *parameters: Any) -> Rows:
        return await self._link.run(lambda session: session.fetch(statement, parameters), writing=True)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()
