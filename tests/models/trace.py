"""A real history replayed through the rules: every version of every row has to be a step that they allow.

The history is what an audit trigger writes, one `Version` for each INSERT, UPDATE or DELETE of a row, in the order of
`seq`; that order is right within a job, because the trigger runs while the row is locked, and means nothing between
jobs. Which claim wrote an outcome is on no row: a stale outcome that was let through looks like a rightful one here, and
is found by comparing the audit with the journals of the handlers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from tests.models.protocol import WAITING, Ending, Hold, Protocol, Row

from brooq import State

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
LAST = 10
"""How many versions of a job are shown with a fault."""


class Version(NamedTuple):
    """One row of an audit. For a DELETE the columns are those of the row that is gone, and `new_state` is None."""

    seq: int
    at: datetime
    xid: int
    op: str
    job_id: UUID
    old_state: str | None
    new_state: str | None
    claim_seq: int
    attempts: int
    locked_by: str | None
    locked_until: datetime | None
    available_at: datetime
    actor: str = ""

    @property
    def row(self) -> Row:
        """The columns that the rules are about; moments in microseconds."""
        return Row(
            state=State(self.new_state or self.old_state or ""),
            attempts=self.attempts,
            claim_seq=self.claim_seq,
            owner=self.locked_by,
            until=None if self.locked_until is None else micros(self.locked_until),
            available=micros(self.available_at),
        )


@dataclass(slots=True)
class Fault:
    """A version that no rule leads to, with what came before it."""

    version: Version
    reason: str
    before: list[Version]

    def __str__(self) -> str:
        """The history of the job, the faulty version last."""
        lines = [
            f"{each.seq:6} {each.at:%H:%M:%S.%f} {each.op:6} {each.old_state or '-':10} -> {each.new_state or '-':10} "
            f"claim {each.claim_seq} attempts {each.attempts} {each.locked_by or ''} {each.actor}"
            for each in (*self.before[-LAST:], self.version)
        ]
        return "\n".join([f"job {self.version.job_id}: {self.reason}", *lines])


@dataclass(slots=True)
class Replay:
    """What a history came to: how often each rule was at work, and every version that none of them allows."""

    verbs: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)


def replay(
    history: Iterable[Version],
    *,
    from_the_start: bool = True,
    lease: timedelta | None = None,
    rules: Protocol | None = None,
) -> Replay:
    """Replay a history. One pass; it remembers one row and the versions of a job, for as long as the job lives.

    `from_the_start`: the audit is as old as the jobs, so that each begins with an INSERT. `lease`: the longest one that
    a worker may take; None does not look at its length.
    """
    found, rows, told = Replay(), dict[UUID, Row](), dict[UUID, list[Version]]()
    limit = None if lease is None else micros(EPOCH + lease)
    for version in history:
        id = version.job_id
        before = told.setdefault(id, [])
        verbs = list(_verbs(rows.get(id), version, rules or Protocol(), limit))
        if id not in rows and version.op != "INSERT" and not (before or from_the_start):
            verbs = ["known before"]
        if verbs:
            found.verbs[verbs[0]] += 1
        else:
            found.faults.append(Fault(version, _reason(rows.get(id), version), list(before)))
        if version.op == "DELETE":
            rows.pop(id, None)
        else:
            rows[id] = version.row
        before.append(version)
    return found


def micros(moment: datetime) -> int:
    """Microseconds since the year 2000."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _verbs(old: Row | None, version: Version, rules: Protocol, limit: int | None) -> Iterator[str]:
    """The rules that lead from the row to this version. What the audit does not tell (when the transaction began, how
    long a delay was) is taken from the version itself."""
    new, at = version.row, micros(version.at)
    if version.op == "INSERT":
        if old is None and version.old_state is None and new == Row(available=new.available):
            yield "enqueue"
        return
    if old is None or version.old_state != old.state:
        return
    if version.op == "DELETE":
        if new == old and rules.prune(old, at, 0):
            yield "prune"
        return
    if new == old:
        yield "untouched"
    for verb, after in _outcomes(old, new, at, rules, limit):
        if after is not None and after._replace(expired=0, updated=0) == new:
            yield verb


def _outcomes(old: Row, new: Row, at: int, rules: Protocol, limit: int | None) -> Iterator[tuple[str, Row | None]]:
    if new.until is not None and (limit is None or new.until <= at + limit):
        if new.owner is not None:
            yield "claim", rules.claim(old, new.owner, at, new.until - at)
        if old.owner is not None and old.until is not None and new.until >= old.until:
            hold = Hold(old.owner, old.attempts, old.claim_seq)
            yield "renew", rules.renew(old, hold, at, new.until - at)
    if old.owner is not None:
        hold = Hold(old.owner, old.attempts, old.claim_seq)
        for ending in _endings(new, at):
            yield str(ending.state), rules.settle(old, hold, ending, at)
    if new.available <= at:
        # The reaper makes a job ready from the very moment at which it judged the lease.
        yield "reap", rules.reap(old, new.available)
        yield "hasten", rules.hasten(old, new.available)
        yield "reset", rules.reset(old, new.available)
    yield "cancel", rules.cancel(old, at)


def _endings(new: Row, at: int) -> Iterator[Ending]:
    """What a handler may have wanted: only a job handed back or preserved gets its attempt back."""
    if new.state is State.PENDING:
        yield Ending(State.PENDING, new.available - at, refund=1)
    elif new.state is State.FAILED:
        yield Ending(State.FAILED, new.available - at)
        yield Ending(State.FAILED, new.available - at, refund=1)
    elif new.state is not State.PROCESSING:
        yield Ending(new.state)


def _reason(old: Row | None, version: Version) -> str:
    """In a few words; the history beside it tells the rest."""
    new = version.row
    if version.op == "INSERT":
        return "made anew while it is there" if old is not None else "made in a state that no job begins in"
    if old is None:
        return "nobody made it"
    if version.old_state != old.state:
        return f"the row was {old.state} before: somebody wrote round the audit"
    if version.op == "DELETE":
        return f"deleted while {old.state}"
    changed = [name for name, one, two in zip(Row._fields, old, new, strict=True) if one != two]
    seen = ", ".join(f"{name} {getattr(old, name)} -> {getattr(new, name)}" for name in changed)
    waits = " of a waiting job" if old.state in WAITING else ""
    return f"no rule allows this change{waits}: {seen}"
