"""Whether a handler may run twice: the two windows that no queue can close, replayed at each of its awaits.

A job is done at least once (requirement G2). Its effect may have happened and its outcome be lost, because the process
died; or its lease may have been lost while it ran, so that two copies are at work at one time. A handler that leaves the
same state behind as one undisturbed run does, whatever happens, is idempotent.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from brooq.engine.kind import is_async
from brooq.engine.queue import Queue
from brooq.engine.reading import reading_of
from brooq.testing.memory import MemoryStore
from brooq.testing.step import Stepped
from brooq.vocabulary.claim import CURRENT, Claim, Lease
from brooq.vocabulary.job import Job
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode
from brooq.vocabulary.signal import LeaseLost
from brooq.vocabulary.tx import Tx

Hook: TypeAlias = Callable[[], Any]
"""Without parameters, blocking or asynchronous."""

WINDOWS = ("outcome_lost", "left", "overlap", "interrupted")


async def assert_idempotent(
    handler: Callable[[Claim], Any],
    job: Job,
    *,
    state: Hook,
    reset: Hook,
    queue: Queue | None = None,
    patience: float = 2.0,
) -> list[str]:
    """Run a handler on a job undisturbed; then, for each of its awaits, disturbed and once more; and compare the state.

    `state` answers what counts: rows, files, calls to others. Whatever it answers is compared by `==`. `reset` puts the
    world back to where a run begins. Both are called often; they may be coroutine functions.
    Callbacks of `on_succeeded` and chained jobs happen once, with the run that counts, as with a real queue: in a
    transaction of `queue`, or of a store in memory when none is given. `claim.assert_held` raises in a copy whose lease is
    lost, once another one has begun.
    `patience` is for how many seconds a copy may wait for another that stands still (for a lock, say): then that one goes
    on.

    Answers the awaits that were tried, as `file:line`. An await that never hands control to the event loop is none: let
    fakes of slow things `await asyncio.sleep(0)`.
    Raises AssertionError naming the window, the await and both states.
    """
    return await _Trial(handler, job, state, reset, queue, patience).run()


class _Trial:
    def __init__(
        self,
        handler: Callable[[Claim], Any],
        job: Job,
        state: Hook,
        reset: Hook,
        queue: Queue | None,
        patience: float,
    ) -> None:
        self._handler, self._job, self._patience = handler, job, patience
        self._state, self._reset = state, reset
        self._store = MemoryStore() if queue is None else queue.store
        self._runs = 0
        self._expected: Any = None
        self._waits = is_async(handler)
        self._reading = reading_of(handler, str(job.topic))

    async def run(self) -> list[str]:
        await self._begin()
        undisturbed = Stepped(self._attempt())
        await self._close(await undisturbed.task)
        self._expected = await _call(self._state)
        places = undisturbed.places if self._waits else []
        await self._disturb(0, "", "outcome_lost")
        for number, place in enumerate(places, 1):
            for window in WINDOWS[1:]:
                await self._disturb(number, place, window)
        await _call(self._reset)
        return places

    async def _begin(self) -> None:
        await _call(self._reset)
        self._runs = 0

    async def _disturb(self, number: int, place: str, window: str) -> None:
        """One run that is disturbed at an await (0: it ends), and beside or behind it the run that counts."""
        await self._begin()
        first = Stepped(self._attempt(), stop_at=number)
        try:
            if await first.until_standing() and window == "left":
                await first.leave()
            second = asyncio.ensure_future(self._counted())
            await asyncio.wait([second], timeout=self._patience)
            await self._go_on(first, window, waiting=not second.done())
            await asyncio.wait([second, first.task])
            error = second.exception()
            if error is not None:
                raise AssertionError(self._said("testing.run_failed", window, place, error=repr(error))) from error
            found = await _call(self._state)
            if found != self._expected:
                states = {"expected": repr(self._expected), "found": repr(found)}
                raise AssertionError(self._said("testing.not_idempotent", window, place, **states))
        finally:
            await first.bury()
            if not first.task.cancelled():
                first.task.exception()  # a copy that has lost its job may fail as it likes

    async def _go_on(self, first: Stepped, window: str, *, waiting: bool) -> None:
        """`waiting`: the second copy waits for what the first one holds, as a database makes it."""
        if window == "left":
            if waiting:
                await first.bury()  # the server notices that the process is gone
        elif window == "interrupted" and not waiting:
            first.interrupt()
        else:
            first.resume()

    def _said(self, key: str, window: str, place: str, **words: str) -> str:
        name = getattr(self._handler, "__qualname__", repr(self._handler))
        return text(key, handler=name, window=text(f"testing.window_{window}", place=place), **words)

    async def _counted(self) -> None:
        """The run whose outcome is recorded, and with it what belongs to the closing transaction."""
        await self._close(await self._attempt())

    async def _attempt(self) -> Claim:
        self._runs += 1
        claim = Claim(
            id=self._job.id,
            topic=str(self._job.topic),
            payload=encode(self._job.payload),
            attempt=self._runs,
            max_attempts=max(self._job.max_attempts or 5, self._runs),
            token=self._runs,
            lease=Lease(f"idempotence-{self._runs}", datetime.now(UTC) + timedelta(minutes=2)),
            hands=self,
        )
        self._reading.open(claim)
        CURRENT.set(claim)
        if self._waits:
            await self._handler(claim)
        else:
            await asyncio.to_thread(self._handler, claim)
        return claim

    def progress(self, claim: Claim, done: float, note: str) -> None:
        """Nobody looks."""

    async def assert_held(self, claim: Claim, tx: Tx) -> None:
        """The last run holds the job, and those before it are zombies."""
        if claim.token != self._runs:
            raise LeaseLost(text("engine.not_held", job=claim.id, token=claim.token))

    async def _close(self, claim: Claim) -> None:
        callbacks, chained = claim._callbacks, claim._chained  # noqa: SLF001  as the engine does
        if not callbacks and not chained:
            return
        tx = await self._store.begin()
        try:
            for callback in callbacks or ():
                result = callback(tx)
                if inspect.isawaitable(result):
                    await result
            if chained:
                await self._store.enqueue(tx, chained)
            await tx.commit()
        except BaseException:
            await tx.rollback()
            raise


async def _call(hook: Hook) -> Any:
    answer = hook()
    return await answer if isinstance(answer, Awaitable) else answer
