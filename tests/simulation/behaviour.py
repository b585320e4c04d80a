"""What handlers do in the simulation, by name. A job's payload says which."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.audit import POISON, AuditedTx
from tests.simulation.faulty import FaultyTx
from tests.simulation.virtual import Lane

from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Job
from brooq.vocabulary.signal import MustCancel, MustDelay, MustGiveUp, MustPreserveAttempt
from brooq.vocabulary.tx import Tx

LEASE = 2.0


@dataclass(eq=False)
class Run:
    """The journal's line on one run of one handler."""

    claim: Claim
    process: int
    main: Lane
    started: float
    clock: Callable[[], float]
    random: Random
    new_job: Callable[..., Job]
    over: Callable[[], bool]
    told: float | None = None
    """When the handler first saw its cancellation."""
    ended: float | None = None
    error: BaseException | None = None
    callback_failed: bool = False

    async def nap(self, seconds: float) -> None:
        """Work for a while."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if self.told is None:
                self.told = self.clock()
            raise


Behaviour = Callable[[Run], Awaitable[Any]]


async def instant(_: Run) -> None:
    """Ends in its first step."""


async def quick(run: Run) -> None:
    """Succeeds soon."""
    await run.nap(run.random.uniform(0.0, 0.5))


async def fails_once(run: Run) -> None:
    """Fails at the first attempt."""
    await run.nap(run.random.uniform(0.0, 0.1))
    if run.claim.attempt == 1:
        raise ValueError("the first attempt")


async def fails(run: Run) -> None:
    """Never succeeds."""
    await run.nap(0.0)
    raise ValueError("as always")


async def delays(run: Run) -> None:
    """Asks for time, once."""
    if run.claim.attempt == 1:
        raise MustDelay(0.7)


async def preserves(run: Run) -> None:
    """Nobody's fault, twice."""
    await run.nap(0.05)
    if run.claim.token < 3:
        raise MustPreserveAttempt("not mine")


async def cancels(run: Run) -> None:
    """Has become pointless; says so from inside another error."""
    await run.nap(0.05)
    raise RuntimeError("wrapped") from MustCancel("pointless")


async def gives_up(_: Run) -> None:
    """Knows that nothing helps."""
    raise MustGiveUp("never")


async def chains(run: Run) -> None:
    """Leaves a child."""
    await run.nap(run.random.uniform(0.0, 0.3))
    run.claim.chain(run.new_job("fast", "quick", parent=str(run.claim.id)))


async def has_effect(run: Run) -> None:
    """Writes in the closing transaction, and leaves a child too."""
    await run.nap(run.random.uniform(0.0, 0.3))
    run.claim.on_succeeded(lambda tx: _effect(run, tx))
    run.claim.chain(run.new_job("fast", "instant", parent=str(run.claim.id)))


async def has_slow_effect(run: Run) -> None:
    """Its callback takes time and fails at the first attempt, after it has written."""

    @run.claim.on_succeeded
    async def callback(tx: Tx) -> None:
        _effect(run, tx)
        await asyncio.sleep(run.random.uniform(0.0, 0.4))
        if run.claim.attempt == 1:
            run.callback_failed = True
            raise KeyError("the callback")


async def swallows(run: Run) -> None:
    """Takes its cancellation for the end of its work."""
    try:
        await run.nap(5.0)
    except asyncio.CancelledError:
        return


async def exits(run: Run) -> None:
    """Would end the process."""
    await run.nap(0.01)
    raise SystemExit(3)


async def is_poison(_: Run) -> None:
    """Its error cannot be stored."""
    raise ValueError(POISON)


async def blocks(run: Run) -> None:
    """Keeps the event loop for itself."""
    if run.claim.token < 3:
        run.main.hold(run.random.uniform(0.3, 2.5) * LEASE)
    await asyncio.sleep(0)


async def long(run: Run) -> None:
    """Works for 2.5 leases."""
    await run.nap(2.5 * LEASE)


async def stubborn(run: Run) -> None:
    """Does not hear of its cancellation for 3 leases."""
    end = run.clock() + run.random.uniform(2.5, 4.0) * LEASE
    deaf = None
    while run.clock() < (end if deaf is None else deaf) and not run.over():
        try:
            await run.nap((end if deaf is None else deaf) - run.clock())
        except asyncio.CancelledError:
            deaf = deaf or run.clock() + 3 * LEASE


def _effect(run: Run, tx: Tx) -> None:
    assert isinstance(tx, FaultyTx)
    inner: AuditedTx = tx.inner
    inner.effects.append((run.claim.id, run.claim.token))


FAST: dict[str, Behaviour] = {
    each.__name__: each
    for each in (
        instant, quick, fails_once, fails, delays, preserves, cancels, gives_up, chains, has_effect, has_slow_effect,
        swallows, exits, is_poison, blocks,
    )
}  # fmt: skip
SLOW: dict[str, Behaviour] = {each.__name__: each for each in (quick, long, has_effect, stubborn)}
ALL = FAST | SLOW
WITH_EFFECT = ("has_effect", "has_slow_effect")
WITH_CHILD = ("has_effect", "chains")
