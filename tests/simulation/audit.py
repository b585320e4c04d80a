"""A store in memory that writes down every change of every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from brooq.engine.outcome import Outcome
from brooq.engine.store import Exchange, Hold, LimitedClaim, Renewal, Requeued
from brooq.testing import MemoryStore, MemoryTx
from brooq.vocabulary.error import StoreRefused
from brooq.vocabulary.job import Cancellation, JobRecord
from brooq.vocabulary.tx import Tx

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
POISON = "poison"
"""An outcome whose error holds this word is refused as data, as text with NUL would be."""


class Change(NamedTuple):
    """One change of one row. `token` is the claim in whose name it was written; None: nobody's."""

    at: float
    verb: str
    actor: str
    token: int | None
    id: UUID
    old: JobRecord | None
    new: JobRecord | None


@dataclass(eq=False)
class AuditedTx(MemoryTx):
    """A transaction with effects of the consumer's own, in the same database."""

    effects: list[tuple[UUID, int]] = field(default_factory=list)
    tokens: dict[UUID, tuple[str, int]] = field(default_factory=dict)


class AuditedStore(MemoryStore):
    """MemoryStore with an audit, a table of effects, and data that it refuses."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """`seconds` is virtual time."""
        super().__init__(lambda: EPOCH + timedelta(seconds=seconds()))
        self.seconds = seconds
        self.changes: list[Change] = []
        self.effects: list[tuple[UUID, int]] = []
        self.witness: Callable[[Change], None] = lambda _: None
        self._seen: dict[UUID, JobRecord] = {}

    async def begin(self) -> AuditedTx:
        """A transaction with effects."""
        tx = AuditedTx(self)
        self._transactions.add(tx)
        return tx

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes and claims, audited."""
        if any(POISON in (outcome.error or "") for outcome in outcomes):
            raise StoreRefused("the text cannot be stored")
        answer = await super().exchange(worker, outcomes, topics, limit, lease)
        # A worker that took its lost job again may send the outcomes of both claims at once: what counts is which of
        # them the store says that it has accepted.
        sent = {outcome.id: outcome.token for outcome in outcomes}
        self.note("exchange", worker, sent | {hold.id: hold.token for hold in answer.settled})
        return answer

    async def claim_limited(self, worker: str, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """Claims within limits, audited."""
        answer = await super().claim_limited(worker, topic, limit, lease)
        self.note("claim_limited", worker)
        return answer

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """Remember in whose name the transaction writes."""
        settled = await super().settle(tx, worker, outcome)
        if settled and isinstance(tx, AuditedTx):
            tx.tokens[outcome.id] = (worker, outcome.token)
        return settled

    async def cancel(self, id: UUID) -> Cancellation:
        """From outside."""
        answer = await super().cancel(id)
        self.note("cancel")
        return answer

    async def reap(self, limit: int) -> list[Requeued]:
        """Expired leases."""
        answer = await super().reap(limit)
        self.note("reap")
        return answer

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        """Deleted rows."""
        answer = await super().prune(age, limit)
        self.note("prune")
        return answer

    def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Renewed leases."""
        answer = super().renew(worker, holds, lease)
        self.note("renew", worker, {hold.id: hold.token for hold in holds})
        return answer

    def apply(self, tx: MemoryTx) -> None:
        """A commit."""
        super().apply(tx)
        assert isinstance(tx, AuditedTx)
        actor = next((worker for worker, _ in tx.tokens.values()), "")
        self.effects.extend(tx.effects)
        self.note("commit", actor, {id: token for id, (_, token) in tx.tokens.items()})

    def note(self, verb: str, actor: str = "", tokens: dict[UUID, int] | None = None) -> None:
        """Compare the rows with what they were."""
        for id, row in self._rows.items():
            if (old := self._seen.get(id)) is not row.record:
                self._add(verb, actor, (tokens or {}).get(id), id, old, row.record)
        if len(self._seen) > len(self._rows):
            for id in self._seen.keys() - self._rows.keys():
                self._add(verb, actor, None, id, self._seen[id], None)

    def _add(
        self, verb: str, actor: str, token: int | None, id: UUID, old: JobRecord | None, new: JobRecord | None
    ) -> None:
        if new is None:
            del self._seen[id]
        else:
            self._seen[id] = new
        change = Change(self.seconds(), verb, actor, token, id, old, new)
        self.changes.append(change)
        self.witness(change)
