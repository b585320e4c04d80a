"""Zombie writes: what a worker tries to write about a claim whose job another claim holds by now, and what it was answered.

Every write of a worker that is fenced by a claim is written down with the moment of its sending and its answer. The
audit tells which of them were sent after a later claim of the job: those must have been refused, each of them.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from brooq.engine.outcome import Outcome
from brooq.engine.store import Exchange, Hold, Renewal, Renewer
from brooq.postgres import PostgresStore
from brooq.postgres.audit.history import Change, History, moment
from brooq.service.journal import Lines
from brooq.vocabulary.tx import Tx

OUTCOME, CLOSING, RENEWAL, FENCE = "outcome", "closing transaction", "renewal", "fenced transaction"
WRITES = (OUTCOME, CLOSING, RENEWAL, FENCE)
"""What a claim lets a worker do."""


class Tries(Lines):
    """The log of one process's writes. What was never answered is not in it: nobody knows of that."""

    def note(self, write: str, hold: Hold, sent: float, *, accepted: bool) -> None:
        """One write and its answer."""
        self.write(write, {"job": hold.id, "token": hold.token, "sent": sent, "accepted": accepted})


class WatchedStore(PostgresStore):
    """The store of a worker, each of whose fenced writes is written down."""

    def __init__(self, pool: Any, tries: Tries) -> None:
        """On the consumer's pool, as always."""
        super().__init__(pool)
        self._tries = tries

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes and the next claim."""
        sent = time.time()
        answer = await super().exchange(worker, outcomes, topics, limit, lease)
        settled = set(answer.settled)
        for outcome in outcomes:
            hold = Hold(outcome.id, outcome.token)
            self._tries.note(OUTCOME, hold, sent, accepted=hold in settled)
        return answer

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """The outcome of a transaction that closes a job."""
        sent = time.time()
        accepted = await super().settle(tx, worker, outcome)
        self._tries.note(CLOSING, Hold(outcome.id, outcome.token), sent, accepted=accepted)
        return accepted

    async def assert_held(self, tx: Tx, hold: Hold) -> bool:
        """What a consumer's transaction asks before it commits."""
        sent = time.time()
        accepted = await super().assert_held(tx, hold)
        self._tries.note(FENCE, hold, sent, accepted=accepted)
        return accepted

    async def renewer(self) -> Renewer:
        """A renewer that is watched too."""
        return WatchedRenewer(await super().renewer(), self._tries)


class WatchedRenewer(Renewer):
    """The renewer of a worker, each of whose renewals is written down."""

    def __init__(self, renewer: Renewer, tries: Tries) -> None:
        """`renewer` is the one that the store makes."""
        self._renewer = renewer
        self._tries = tries

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Renew. What is locked is neither renewed nor lost: that is no answer."""
        sent = time.time()
        answer = await self._renewer.renew(worker, holds, lease)
        for accepted, those in ((True, answer.renewed), (False, answer.lost)):
            for hold in those:
                self._tries.note(RENEWAL, hold, sent, accepted=accepted)
        return answer

    async def close(self) -> None:
        """Close it."""
        await self._renewer.close()


@dataclass
class Zombies:
    """The writes of one run that came after a later claim of their job."""

    tried: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    """Those that were not refused, in words."""

    @property
    def count(self) -> int:
        """How many there were."""
        return self.tried.total()

    def __str__(self) -> str:
        """In a line."""
        each = ", ".join(f"{self.tried[write]} {write}" for write in WRITES)
        return f"{self.count} zombie writes ({each}), {len(self.accepted)} accepted"


def zombies(dsn: str, path: Path) -> Zombies:
    """Count them: the log of the writes beside the audit."""
    tries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            tries[found["job"]].append(found)
    counted = Zombies()
    with History.open(dsn) as history:
        for job, changes in history.jobs():
            claims = [(int(each.claim_seq or 0), moment(each.at).timestamp()) for each in changes if _claims(each)]
            for each in tries.get(job or "", ()):
                if any(token > each["token"] and at < each["sent"] for token, at in claims):
                    counted.tried[each["kind"]] += 1
                    if each["accepted"]:
                        counted.accepted.append(f"{each['kind']} of claim {each['token']} of job {job}")
    return counted


def _claims(change: Change) -> bool:
    return change.op == "UPDATE" and change.state == "processing" and change.old_state != "processing"
