"""Claims within limits: a transaction of two statements, the lock of the topic and the claim that counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from brooq.engine.store import LimitedClaim
from brooq.postgres.record import to_taken, utc
from brooq.postgres.session import Rows, Session
from brooq.postgres.statement import Statements

WALK = 200
"""How many ready jobs a claim walks in their order, beyond those it may take, before it skips from key to key."""

KEYS = 100
"""How many keys a claim skips through; more than are busy at one time, or it would have to go on often."""

LINE = 50
"""How many jobs of one key it looks at, in the order of enqueueing, to find the ready ones."""

Mark: TypeAlias = tuple[int, datetime, UUID]

BEGINNING: Mark = (-1, datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))


class LimitedClaims:
    """Remembers where each topic's last claim ended, so that the next one goes on there."""

    def __init__(self) -> None:
        """Every topic from its beginning."""
        self._keys: dict[str, str] = {}
        self._marks: dict[str, Mark] = {}

    async def ask(
        self, session: Session, statements: Statements, worker: str, topic: str, limit: int, lease: timedelta
    ) -> Rows:
        """Claim, in a transaction that somebody else opens and ends. Raises the driver's errors."""
        if not await session.fetch(statements.lock_topic, [topic]):
            return ()
        return await session.fetch(statements.claim_limited, self._parameters(worker, topic, limit, lease))

    def claimed(self, rows: Rows, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """What `ask` has claimed, once that is committed."""
        if not rows:
            return LimitedClaim([], False, None)  # the limits are gone: the next exchange claims as usual
        *taken, last = rows
        now, wait, key, priority, at, id = last[7:13]
        if key is None:
            self._keys.pop(topic, None)
        else:
            self._keys[topic] = key
        if id is None:
            self._marks.pop(topic, None)
        else:
            self._marks[topic] = (priority, utc(at), id)
        found = to_taken([(*row[:8], *row[-2:]) for row in taken], now, lease)
        return LimitedClaim(found, key is not None or len(found) >= limit, wait)

    def _parameters(self, worker: str, topic: str, limit: int, lease: timedelta) -> list[object]:
        key, mark = self._keys.get(topic, ""), self._marks.get(topic, BEGINNING)
        return [worker, topic, limit, lease, WALK + limit, KEYS, LINE, key, *mark]
