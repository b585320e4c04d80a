"""Closing a job in a transaction of its own: the outcome, the handler's callbacks and the jobs it chained (C9).

This is the exactly-once path for effects in the same database: all of it commits, or nothing does.
"""

from __future__ import annotations

import asyncio
import inspect

from brooq.engine.attempt import Attempt
from brooq.engine.loop import Pulse
from brooq.engine.outcome import Outcome
from brooq.engine.recorder import recorded_as
from brooq.engine.runtime import Runtime
from brooq.engine.store import OwnTx, Store
from brooq.vocabulary.error import OutcomeUnknown, StoreUnavailable


class Closing:
    """One job's closing, tried until its fate is known."""

    def __init__(self, store: Store, worker: str, attempt: Attempt, outcome: Outcome, runtime: Runtime) -> None:
        """`outcome` is `done`: callbacks and chained jobs are for success only."""
        self.outcome = outcome
        self._store = store
        self._worker = worker
        self._attempt = attempt
        self._runtime = runtime
        self._pulse = Pulse(f"closing of {outcome.id}", runtime)
        self._uncertain = False

    async def run(self) -> bool:
        """True when the job is closed, False when this claim no longer holds it.

        Raises what the consumer's callback raised, MaxExecutionExceeded when callbacks outlive the attempt's ceiling,
        and the store's refusal of a chained job: then nothing is closed, and the attempt has failed. A passing fault of
        the database is retried, callbacks included, for as long as the lease lasts (C12).
        """
        while True:
            try:
                return await self._once()
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._uncertain = self._uncertain or isinstance(error, OutcomeUnknown)
                if self._attempt.detached:
                    return False
                await asyncio.sleep(self._pulse.stumble(error))

    async def _once(self) -> bool:
        tx = await self._store.begin()
        try:
            if not await self._store.settle(tx, self._worker, self.outcome):
                await tx.rollback()
                return self._uncertain and await self._recorded_before()
            await self._call_back(tx)
            if self._attempt.claim._chained:  # noqa: SLF001  the engine made the claim
                await self._store.enqueue(tx, self._attempt.claim._chained)  # noqa: SLF001
            await tx.commit()
        except BaseException as error:
            broken = tx.broken
            await tx.rollback()
            if broken and isinstance(error, Exception) and not isinstance(error, (StoreUnavailable, OutcomeUnknown)):
                # The callback met a connection that died under it: that is the database's fault, not the job's.
                raise StoreUnavailable(str(error)) from error
            raise
        return True

    async def _call_back(self, tx: OwnTx) -> None:
        """The row is locked from here on, so the time is bounded."""
        callbacks = self._attempt.claim._callbacks  # noqa: SLF001  the engine made the claim
        if not callbacks:
            return
        ceiling = self._attempt.claimed_at + self._attempt.kind.options.max_execution_timeout
        try:
            async with asyncio.timeout(max(ceiling - self._runtime.clock(), 0.0)) as limit:
                for callback in callbacks:
                    result = callback(tx)
                    if inspect.isawaitable(result):
                        await result
        except TimeoutError:
            if limit.expired():
                raise self._attempt.exceeded() from None
            raise

    async def _recorded_before(self) -> bool:
        fate = (await self._store.fates([self.outcome.id])).get(self.outcome.id)
        return fate is not None and recorded_as(fate, self.outcome)
