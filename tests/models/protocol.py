"""What each verb may do to a job's row: the promises of the queue as pure functions, without any SQL.

The search explores them, the state machine takes them as its oracle, the permutations as the outcomes of the serial
orders, and histories are replayed through them. Moments and durations are whole numbers of any one unit.
"""

from __future__ import annotations

from typing import NamedTuple

from brooq import State

WAITING = (State.PENDING, State.FAILED)
TERMINAL = (State.DONE, State.DEAD, State.CANCELED)


class Row(NamedTuple):
    """The columns of a job that the protocol is about. `until` is the end of the lease."""

    state: State = State.PENDING
    attempts: int = 0
    claim_seq: int = 0
    owner: str | None = None
    until: int | None = None
    available: int = 0
    expired: int = 0
    updated: int = 0


class Hold(NamedTuple):
    """What a handler knows of its claim. `attempt` is no part of the fence; weaker guards look at it."""

    owner: str
    attempt: int
    token: int


class Ending(NamedTuple):
    """What a handler wants to be written. `delay` from now on; None leaves the moment of readiness alone."""

    state: State
    delay: int | None = None
    refund: int = 0


class Protocol:
    """The rules. Every verb answers the row as it is afterwards, or None: it touches nothing."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """The fence: whether this very claim holds the job."""
        return row.state is State.PROCESSING and row.owner == hold.owner and row.claim_seq == hold.token

    def claim(self, row: Row, owner: str, now: int, lease: int) -> Row | None:
        """Take a job that is ready."""
        if row.state not in WAITING or row.available > now:
            return None
        return row._replace(
            state=State.PROCESSING,
            attempts=row.attempts + 1,
            claim_seq=row.claim_seq + 1,
            owner=owner,
            until=now + lease,
            updated=now,
        )

    def asserts(self, row: Row, hold: Hold) -> bool:
        """Whether a consumer's transaction is told that the claim holds: whose it is says the number of the claim."""
        return row.state is State.PROCESSING and row.claim_seq == hold.token

    def kept_out(self) -> bool:
        """Whether an open transaction that was told so keeps the next claim out."""
        return True

    def counted(self, running: int, own: int) -> int:
        """How many jobs count for a limit, of those that run and those of them that the claiming worker has."""
        return running

    def room(self, running: int, limit: int | None, asked: int) -> int:
        """How many jobs a claim within limits takes at most, of a topic of which so many run."""
        return asked if limit is None else max(min(asked, limit - running), 0)

    def renew(self, row: Row, hold: Hold, now: int, lease: int) -> Row | None:
        """Move the end of the lease, never back."""
        return row._replace(until=max(row.until or now, now + lease)) if self.holds(row, hold) else None

    def settle(self, row: Row, hold: Hold, ending: Ending, now: int) -> Row | None:
        """Write an outcome."""
        if not self.holds(row, hold):
            return None
        return self.ended(row, ending, now)

    def ended(self, row: Row, ending: Ending, now: int) -> Row:
        """The row with an outcome. A terminal one keeps its last lease."""
        waits = ending.state in WAITING
        return row._replace(
            state=ending.state,
            attempts=max(row.attempts - ending.refund, 0),
            owner=None if waits else row.owner,
            until=None if waits else row.until,
            available=row.available if ending.delay is None else now + ending.delay,
            updated=now,
        )

    def chains(self, settled: bool) -> bool:
        """Whether a chained job is written, given whether the outcome was."""
        return settled

    def reap(self, row: Row, now: int) -> Row | None:
        """Put a job whose lease has expired back into circulation."""
        if row.state is not State.PROCESSING or row.until is None or row.until >= now:
            return None
        return row._replace(
            state=State.PENDING, owner=None, until=None, available=now, expired=row.expired + 1, updated=now
        )

    def cancel(self, row: Row, now: int) -> Row | None:
        """End a job from outside."""
        return None if row.state in TERMINAL else row._replace(state=State.CANCELED, updated=now)

    def prune(self, row: Row, now: int, age: int) -> bool:
        """Whether retention deletes the row."""
        return row.state in TERMINAL and row.updated < now - age

    def hasten(self, row: Row, now: int) -> Row | None:
        """An operator lets a waiting job run now."""
        return row._replace(available=now, updated=now) if row.state in WAITING else None

    def reset(self, row: Row, now: int) -> Row | None:
        """An operator gives a waiting job its attempts back. The fence is not touched."""
        return row._replace(attempts=0, available=now, updated=now) if row.state in WAITING else None
