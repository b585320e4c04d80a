"""One job with all its handlers, and every step that anybody could take next; each step is judged.

A state holds the row and, beside it, what no row knows: which claim rightfully holds the job, how often it was claimed,
how many attempts it must have. Time is abstract: it is always 0, a fresh lease ends at 1, an expired one ended at -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.protocol import TERMINAL, WAITING, Ending, Hold, Protocol, Row

from brooq import State

NOW, LEASE, OVER, ANY_AGE = 0, 1, -1, -1
ENDINGS = {
    "done": Ending(State.DONE),
    "failed": Ending(State.FAILED, delay=1),
    "preserved": Ending(State.FAILED, delay=1, refund=1),
    "released": Ending(State.PENDING, delay=0, refund=1),
    "dead": Ending(State.DEAD),
    "canceled": Ending(State.CANCELED),
}
CLAIM = "claim by "
CHAIN = "done with a chained job"


class Bounds(NamedTuple):
    """How far a search goes."""

    jobs: int = 1
    workers: int = 2
    claims: int = 3
    resets: int = 1
    lost: bool = True
    """Whether the answer to an outcome may be lost."""
    fences: bool = False
    """Whether handlers open transactions of their own that ask for their claim."""
    limit: int | None = None
    """How many of the jobs may run at one time."""


class Run(NamedTuple):
    """A handler at work, rightful or stale. `number` counts the claims of the job: what the token should be.

    `sent` is the outcome that it has sent without hearing of it: that one it sends again. `fenced`: it has a transaction
    open that was told its claim holds.
    """

    hold: Hold
    number: int
    sent: str | None = None
    fenced: bool = False


class Life(NamedTuple):
    """One job. `holder` is the number of the claim that holds it, 0: nobody."""

    row: Row | None = Row()
    runs: tuple[Run, ...] = ()
    holder: int = 0
    claims: int = 0
    attempts: int = 0
    resets: int = 0
    chained: bool = False


class Step(NamedTuple):
    """Something that happens to a job; `violation` says which promise it breaks."""

    label: str
    after: Life
    violation: str | None = None


def steps(life: Life, rules: Protocol, bounds: Bounds) -> Iterator[Step]:
    """Every step from here that changes anything."""
    row = life.row
    if row is None:
        return
    yield from _claims(life, row, rules, bounds)
    for run in life.runs:
        yield from _by_a_handler(life, row, run, rules, bounds)
    yield from _by_others(life, row, rules, bounds)


def forget(life: Life, owner: str) -> Life:
    """A worker dies, and all its handlers with it."""
    left = tuple(run for run in life.runs if run.hold.owner != owner)
    return life if len(left) == len(life.runs) else life._replace(runs=left)


def _claims(life: Life, row: Row, rules: Protocol, bounds: Bounds) -> Iterator[Step]:
    if life.claims >= bounds.claims:
        return
    if rules.kept_out() and any(run.fenced for run in life.runs):
        return
    for owner in "AB"[: bounds.workers]:
        new = rules.claim(row, owner, NOW, LEASE)
        if new is None:
            continue
        number = life.claims + 1
        run = Run(Hold(owner, new.attempts, new.claim_seq), number)
        after = life._replace(row=new, runs=(*life.runs, run), holder=number, claims=number, attempts=life.attempts + 1)
        wrong = None
        if life.holder:
            wrong = "two claims hold the job at one time"
        elif row.available > NOW:
            wrong = "a job is taken before it is ready"
        yield _judged(CLAIM + owner, life, after, wrong)


def _by_a_handler(life: Life, row: Row, run: Run, rules: Protocol, bounds: Bounds) -> Iterator[Step]:
    who = f"{run.hold.owner}, claim {run.number}"
    rest = tuple(each for each in life.runs if each is not run)
    new = rules.renew(row, run.hold, NOW, LEASE)
    if new is not None and new != row:
        shorter = new.until is None or (row.until is not None and new.until < row.until)
        wrong = _stale(life, run, "renewal") or ("a renewal shortens the lease" if shorter else None)
        yield _judged(f"renewal by {who}", life, life._replace(row=new), wrong)
    for name in ENDINGS if run.sent is None else (run.sent,):
        ending = ENDINGS[name]
        new = rules.settle(row, run.hold, ending, NOW)
        if new is None:
            continue
        wrong = _stale(life, run, "outcome")
        after = life._replace(row=new, runs=rest, holder=0, attempts=max(life.attempts - ending.refund, 0))
        yield _judged(f"{name} by {who}", life, after, wrong)
        if run.sent is None and bounds.lost:
            unheard = tuple(each._replace(sent=name) if each is run else each for each in life.runs)
            yield _judged(f"{name} by {who}, who does not hear of it", life, after._replace(runs=unheard), wrong)
        if name == "done" and run.sent is None:
            yield _judged(f"{CHAIN} by {who}", life, after._replace(chained=True), wrong)
    if rules.chains(False) and rules.settle(row, run.hold, ENDINGS["done"], NOW) is None:
        yield Step(f"chain by {who}", life, f"claim {run.number} chains a job though its outcome is refused")
    if run.fenced:
        wrong = f"a transaction fenced by claim {run.number} commits after claim {life.claims}"
        after = life._replace(runs=tuple(each._replace(fenced=False) if each is run else each for each in life.runs))
        yield Step(f"commit of a fenced transaction by {who}", after, wrong if life.claims > run.number else None)
    elif bounds.fences and rules.asserts(row, run.hold):
        fenced = tuple(each._replace(fenced=True) if each is run else each for each in life.runs)
        yield Step(f"a fenced transaction by {who}", life._replace(runs=fenced))
    yield Step(f"{who}, gives up", life._replace(runs=rest))


def _by_others(life: Life, row: Row, rules: Protocol, bounds: Bounds) -> Iterator[Step]:
    if row.until == LEASE and row.state is State.PROCESSING:
        yield Step("the lease expires", life._replace(row=row._replace(until=OVER)))
    if row.available > NOW:
        yield Step("the delay is over", life._replace(row=row._replace(available=NOW)))
    if (new := rules.reap(row, NOW)) is not None:
        wrong = "a lease is reaped before it is over" if row.until is None or row.until >= NOW else None
        yield _judged("reap", life, life._replace(row=new, holder=0), wrong)
    if (new := rules.cancel(row, NOW)) is not None:
        yield _judged("cancel", life, life._replace(row=new, holder=0))
    if rules.prune(row, NOW, ANY_AGE):
        wrong = None if row.state in TERMINAL else "an active job is deleted"
        yield Step("prune", life._replace(row=None, holder=0), wrong)
    if (new := rules.hasten(row, NOW)) is not None and new != row:
        yield _judged("an operator lets it run now", life, life._replace(row=new))
    if life.resets < bounds.resets and (new := rules.reset(row, NOW)) is not None:
        yield _judged(
            "an operator resets its attempts", life, life._replace(row=new, attempts=0, resets=life.resets + 1)
        )


def _stale(life: Life, run: Run, what: str) -> str | None:
    if run.number == life.holder:
        return None
    return f"the {what} of claim {run.number} is accepted while {life.holder or 'none'} holds the job"


def _judged(label: str, before: Life, after: Life, wrong: str | None = None) -> Step:
    old, new = before.row, after.row
    assert old is not None
    assert new is not None
    if old.state in TERMINAL and new != old:
        wrong = "a terminal row is overwritten"
    elif new.state is State.DEAD and old.state is not State.DEAD and not label.startswith("dead"):
        wrong = "a job is dead without a recorded failure"
    return Step(label, after, wrong or fault(after))


def fault(life: Life) -> str | None:
    """What is wrong with a state, whichever step led there."""
    row = life.row
    if row is None:
        return None
    if (row.owner is None) != (row.until is None):
        return "half a lease"
    if row.state is State.PROCESSING and row.owner is None:
        return "a job is processing without a lease"
    if row.state in WAITING and row.owner is not None:
        return "a waiting job has a lease"
    if (row.state is State.PROCESSING) != bool(life.holder):
        return "the row and the claim that holds the job disagree"
    if row.claim_seq != life.claims:
        return f"claim_seq is {row.claim_seq} after {life.claims} claims"
    if row.attempts != life.attempts:
        return f"attempts is {row.attempts} instead of {life.attempts}"
    return None


def stuck(life: Life, rules: Protocol) -> str | None:
    """What cannot go on though it should: guards may not be too strong either."""
    row = life.row
    if row is None or row.state in TERMINAL:
        return None
    if row.state in WAITING:
        ready = row.available <= NOW
        return "a ready job cannot be taken" if ready and rules.claim(row, "A", NOW, LEASE) is None else None
    if row.until == OVER and rules.reap(row, NOW) is None:
        return "an expired lease cannot be reaped"
    for run in life.runs:
        if run.number == life.holder and run.sent is None and rules.settle(row, run.hold, ENDINGS["done"], NOW) is None:
            return "the claim that holds the job cannot write its outcome"
    return None
