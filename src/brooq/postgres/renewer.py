"""Renewing leases: one statement, over a connection that nothing else uses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from brooq.engine.store import Hold, Renewal
from brooq.postgres.link import Link
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import Statements


class PostgresRenewer:
    """Renews leases over its own connection."""

    def __init__(self, link: Link, queries: Statements) -> None:
        """`link` belongs to the running loop."""
        self._link = link
        self._statements = queries

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """One statement for all leases."""
        parameters = [worker, [hold.id for hold in holds], [hold.token for hold in holds], lease]

        async def work(session: Session) -> Rows:
            return await session.fetch(self._statements.renew, parameters)

        # A third of the lease: on a dead link the next renewal has to find a new one while there is lease left.
        rows = await self._link.run(work, within=max(lease.total_seconds() / 3, 1.0))
        return Renewal(
            [Hold(row[0], row[1]) for row in rows if row[2]],
            [Hold(row[0], row[1]) for row in rows if row[3]],
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()
