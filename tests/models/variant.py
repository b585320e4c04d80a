"""Planted bugs: the rules with one thing wrong, each of which the search has to answer with a counterexample."""

from __future__ import annotations

from typing import NamedTuple

from tests.models.life import Bounds
from tests.models.protocol import WAITING, Ending, Hold, Protocol, Row

from brooq import State


class NoGuard(Protocol):
    """Whoever knows the id writes, while somebody works on the job."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """The state alone."""
        return row.state is State.PROCESSING


class OwnerGuard(Protocol):
    """The guard of many queues: the worker, not the claim."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """State and owner."""
        return row.state is State.PROCESSING and row.owner == hold.owner


class AttemptGuard(Protocol):
    """The number of the attempt as a fence."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """State, owner and attempts."""
        return row.state is State.PROCESSING and row.owner == hold.owner and row.attempts == hold.attempt


class NoState(Protocol):
    """The fence without the state."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """Owner and token, which terminal rows keep."""
        return row.owner == hold.owner and row.claim_seq == hold.token


class UnguardedRenewal(Protocol):
    """Outcomes are fenced, renewals are not."""

    def renew(self, row: Row, hold: Hold, now: int, lease: int) -> Row | None:
        """Whoever it is."""
        return row._replace(until=now + lease) if row.state is State.PROCESSING else None


class ShorteningRenewal(Protocol):
    """A renewal that takes lease away."""

    def renew(self, row: Row, hold: Hold, now: int, lease: int) -> Row | None:
        """It ends now."""
        return row._replace(until=now) if self.holds(row, hold) else None


class OnlyWithinTheLease(Protocol):
    """A guard that is too strong: nobody took the job, and yet its outcome is refused."""

    def holds(self, row: Row, hold: Hold) -> bool:
        """Not any more once the lease is over."""
        return super().holds(row, hold) and row.until is not None and row.until >= 0


class HastyReaper(Protocol):
    """Takes what is held."""

    def reap(self, row: Row, now: int) -> Row | None:
        """Without a look at the lease."""
        return super().reap(row, now + 10)


class CountingReaper(Protocol):
    """An expired lease counts as an attempt."""

    def reap(self, row: Row, now: int) -> Row | None:
        """One attempt more."""
        new = super().reap(row, now)
        return None if new is None else new._replace(attempts=new.attempts + 1)


class KillingReaper(Protocol):
    """An expired lease counts as a failure."""

    def reap(self, row: Row, now: int) -> Row | None:
        """Dead at the second one."""
        new = super().reap(row, now)
        return row._replace(state=State.DEAD) if new is not None and new.attempts > 1 else new


class SleepingReaper(Protocol):
    """Nobody looks at leases."""

    def reap(self, row: Row, now: int) -> Row | None:
        """Never."""
        return None


class ClaimOfTheHeld(Protocol):
    """A claim that judges by its snapshot: the job was taken meanwhile."""

    def claim(self, row: Row, owner: str, now: int, lease: int) -> Row | None:
        """Held jobs too."""
        waiting = row._replace(state=State.PENDING) if row.state is State.PROCESSING else row
        return super().claim(waiting, owner, now, lease)


class ClaimOfTheFuture(Protocol):
    """A claim that does not look at readiness."""

    def claim(self, row: Row, owner: str, now: int, lease: int) -> Row | None:
        """Whatever waits."""
        return super().claim(row, owner, now + 10, lease - 10)


class SameFence(Protocol):
    """All claims of a job share one fence."""

    def claim(self, row: Row, owner: str, now: int, lease: int) -> Row | None:
        """Without the count."""
        new = super().claim(row, owner, now, lease)
        return None if new is None else new._replace(claim_seq=max(row.claim_seq, 1))


class FreeClaim(Protocol):
    """The attempt is not spent at the claim."""

    def claim(self, row: Row, owner: str, now: int, lease: int) -> Row | None:
        """Attempts stay."""
        new = super().claim(row, owner, now, lease)
        return None if new is None else new._replace(attempts=row.attempts)


class ResetOfTheFence(Protocol):
    """An operator's reset takes the fence along."""

    def reset(self, row: Row, now: int) -> Row | None:
        """Everything from the beginning."""
        new = super().reset(row, now)
        return None if new is None else new._replace(claim_seq=0)


class CancelOfTheEnded(Protocol):
    """Cancel without the state in its guard."""

    def cancel(self, row: Row, now: int) -> Row | None:
        """Whatever it is."""
        return row._replace(state=State.CANCELED)


class GreedyRetention(Protocol):
    """Takes `failed` for an end."""

    def prune(self, row: Row, now: int, age: int) -> bool:
        """That waiting room too."""
        return super().prune(row, now, age) or row.state is State.FAILED


class LeaseLeftBehind(Protocol):
    """A job that waits again keeps its lease."""

    def ended(self, row: Row, ending: Ending, now: int) -> Row:
        """Owner and end stay."""
        new = super().ended(row, ending, now)
        return new._replace(owner=row.owner, until=row.until) if ending.state in WAITING else new


class ChainOutside(Protocol):
    """The chained job is enqueued outside of the transaction that closes its parent."""

    def chains(self, settled: bool) -> bool:
        """Always."""
        return True


class ChainForgotten(Protocol):
    """The chained job is enqueued later, by somebody who may die."""

    def chains(self, settled: bool) -> bool:
        """Not yet."""
        return False


class ClaimBesideAFence(Protocol):
    """A claim with a weaker lock than it needs."""

    def kept_out(self) -> bool:
        """By nothing."""
        return False


class FenceByState(Protocol):
    """A fenced transaction asks whether the job runs, not by whose claim."""

    def asserts(self, row: Row, hold: Hold) -> bool:
        """The state alone."""
        return row.state is State.PROCESSING


class LimitOfEachWorker(Protocol):
    """A limit of the fleet, counted by each worker for itself."""

    def counted(self, running: int, own: int) -> int:
        """What is its own."""
        return own


class Planted(NamedTuple):
    """A bug, the promise that it breaks, and of how many steps the shortest trace to it is."""

    rules: type[Protocol]
    violation: str
    steps: int
    bounds: Bounds = Bounds(claims=2)


UNHEARING = Bounds(claims=3)
HEARING = Bounds(claims=3, lost=False)
"""Every answer arrives."""
PAIR = Bounds(jobs=2, claims=2)
FENCED = Bounds(claims=2, resets=0, lost=False, fences=True)
LIMITED = Bounds(jobs=2, claims=1, resets=0, lost=False, limit=1)
STALE_OUTCOME = "the outcome of claim 1 is accepted while 2 holds the job"

PLANTED = [
    Planted(NoGuard, STALE_OUTCOME, 4, UNHEARING),
    Planted(NoGuard, STALE_OUTCOME, 5, HEARING),
    Planted(OwnerGuard, STALE_OUTCOME, 4, UNHEARING),
    Planted(OwnerGuard, STALE_OUTCOME, 5, HEARING),
    Planted(AttemptGuard, STALE_OUTCOME, 4, UNHEARING),
    Planted(AttemptGuard, STALE_OUTCOME, 4, UNHEARING._replace(resets=0)),
    Planted(AttemptGuard, STALE_OUTCOME, 6, HEARING),
    Planted(NoState, "the outcome of claim 1 is accepted while none holds the job", 3),
    Planted(UnguardedRenewal, "the renewal of claim 1 is accepted while 2 holds the job", 5),
    Planted(ShorteningRenewal, "a renewal shortens the lease", 2),
    Planted(OnlyWithinTheLease, "the claim that holds the job cannot write its outcome", 3),
    Planted(HastyReaper, "a lease is reaped before it is over", 2),
    Planted(CountingReaper, "attempts is 2 instead of 1", 3),
    Planted(KillingReaper, "a job is dead without a recorded failure", 6),
    Planted(SleepingReaper, "an expired lease cannot be reaped", 3),
    Planted(ClaimOfTheHeld, "two claims hold the job at one time", 2),
    Planted(ClaimOfTheFuture, "a job is taken before it is ready", 3),
    Planted(SameFence, "claim_seq is 1 after 2 claims", 3),
    Planted(FreeClaim, "attempts is 0 instead of 1", 1),
    Planted(ResetOfTheFence, "claim_seq is 0 after 1 claims", 3),
    Planted(CancelOfTheEnded, "a terminal row is overwritten", 3),
    Planted(GreedyRetention, "an active job is deleted", 3),
    Planted(LeaseLeftBehind, "a waiting job has a lease", 2),
    Planted(ChainOutside, "claim 1 chains a job though its outcome is refused", 3, PAIR),
    Planted(ClaimBesideAFence, "a transaction fenced by claim 1 commits after claim 2", 6, FENCED),
    Planted(FenceByState, "a transaction fenced by claim 1 commits after claim 2", 6, FENCED),
    Planted(LimitOfEachWorker, "more jobs run than the limit allows", 3, LIMITED),
    Planted(ChainForgotten, "a job is done without the job it chained", 2, PAIR),
]
