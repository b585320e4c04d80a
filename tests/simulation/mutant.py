"""Planted bugs: each breaks one promise of the engine or of its store, and the simulation has to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.simulation.audit import AuditedStore

from brooq.engine import outcome as outcomes
from brooq.engine import worker as workers
from brooq.engine.attempt import Attempt
from brooq.engine.closing import Closing
from brooq.engine.keeper import LeaseKeeper
from brooq.engine.outcome import Ending, Outcome
from brooq.engine.recorder import Recorder
from brooq.engine.store import Exchange, Hold, Requeued
from brooq.engine.worker import Worker
from brooq.testing import MemoryStore
from brooq.vocabulary.job import JobRecord, State

Mutant = Callable[[], Any]


@contextmanager
def planted(place: Any, name: str, bug: Any) -> Iterator[None]:
    """The bug in the place of what is there, for the length of a block."""
    original = getattr(place, name)
    setattr(place, name, bug)
    try:
        yield
    finally:
        setattr(place, name, original)


def fence_without_token() -> Any:
    """The guard knows the worker, not the claim."""

    def holds(_: MemoryStore, record: JobRecord, worker: str, __: int) -> bool:
        return (record.state, record.locked_by) == (State.PROCESSING, worker)

    return planted(MemoryStore, "_holds", holds)


def guard_by_state_alone() -> Any:
    """Whoever knows the id may write while somebody works on the job."""

    def holds(_: MemoryStore, record: JobRecord, __: str, ___: int) -> bool:
        return record.state is State.PROCESSING

    return planted(MemoryStore, "_holds", holds)


def reaper_bumps_attempts() -> Any:
    """An expired lease counts as a failure."""
    original = MemoryStore.reap

    async def reap(self: MemoryStore, limit: int) -> list[Requeued]:
        requeued = await original(self, limit)
        for each in requeued:
            row = self._rows[each.id]
            row.record = replace(row.record, attempts=row.record.attempts + 1)
        return requeued

    return planted(MemoryStore, "reap", reap)


def reaper_without_expiry() -> Any:
    """The reaper takes what is held."""
    original = MemoryStore.reap

    async def reap(self: MemoryStore, limit: int) -> list[Requeued]:
        clock, self.clock = self.clock, lambda: clock() + timedelta(seconds=1.5)
        try:
            return await original(self, limit)
        finally:
            self.clock = clock

    return planted(MemoryStore, "reap", reap)


def retry_without_guard() -> Any:
    """An outcome that is sent again is written whatever the row says by then."""
    original = AuditedStore.exchange
    sent: set[tuple[int, Hold]] = set()

    async def exchange(
        self: AuditedStore, worker: str, sending: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        for each in sending:
            key = (id(self), Hold(each.id, each.token))
            row = self._rows.get(each.id)
            if key in sent and row is not None and row.locked is None:
                row.record = self._after(row.record, each)
            sent.add(key)
        return await original(self, worker, sending, topics, limit, lease)

    return planted(AuditedStore, "exchange", exchange)


def keeper_ignores_lost() -> Any:
    """Nobody tells the handler that its job was canceled."""
    return planted(LeaseKeeper, "_tell", lambda *_: None)


def fence_from_the_answer() -> Any:
    """The lease is believed to begin when its answer comes, not before it was asked for."""
    original = LeaseKeeper.hold
    return planted(LeaseKeeper, "hold", lambda self, holds, _: original(self, holds, self._runtime.clock() + 1.0))


@contextmanager
def release_without_refund() -> Iterator[None]:
    """A deploy costs an attempt."""

    def released(id: Any, token: int) -> Outcome:
        return Outcome(id, token, State.PENDING, delay=0.0)

    with planted(outcomes, "released", released), planted(workers, "released", released):
        yield


def callbacks_before_guard() -> Any:
    """The callbacks run and commit, whether the claim holds the job or not."""

    async def once(self: Closing) -> bool:
        tx = await self._store.begin()
        try:
            await self._call_back(tx)
            if self._attempt.claim._chained:
                await self._store.enqueue(tx, self._attempt.claim._chained)
            settled = await self._store.settle(tx, self._worker, self.outcome)
            await tx.commit()
        except BaseException:
            await tx.rollback()
            raise
        return settled

    return planted(Closing, "_once", once)


def chain_outside_the_transaction() -> Any:
    """The child is enqueued on its own."""

    async def once(self: Closing) -> bool:
        tx = await self._store.begin()
        try:
            if not await self._store.settle(tx, self._worker, self.outcome):
                await tx.rollback()
                return self._uncertain and await self._recorded_before()
            if self._attempt.claim._chained:
                await self._store.enqueue(None, self._attempt.claim._chained)
            await self._call_back(tx)
            await tx.commit()
        except BaseException:
            await tx.rollback()
            raise
        return True

    return planted(Closing, "_once", once)


def swallowed_cancellation_is_success() -> Any:
    """What the handler made of its interruption decides, not the interruption (requirement I1)."""
    original = outcomes.decide

    def decide(id: Any, token: int, attempt: int, ending: Ending, *rest: Any) -> Outcome | None:
        if ending.error is None:
            ending = Ending(None, None)
        return original(id, token, attempt, ending, *rest)

    return planted(workers, "decide", decide)


def stale_outcomes_are_sent() -> Any:
    """A handler whose lease is lost reports all the same; and the guard looks at the state alone."""

    @contextmanager
    def both() -> Iterator[None]:
        original = Worker._ended

        def ended(self: Worker, attempts: list[Attempt]) -> None:
            for attempt in attempts:
                attempt.detached = False
                attempt.claim.interruption = None
            original(self, attempts)

        with planted(Worker, "_ended", ended), guard_by_state_alone():
            yield

    return both()


def outcome_forgotten() -> Any:
    """An outcome that met a locked row or refused data is dropped, its lease kept."""

    async def separate(*_: Any) -> list[Any]:
        return []

    return planted(Recorder, "separate", separate)


def timers_of_a_closing_job() -> Any:
    """The deadline of the handler goes on when it has ended."""
    return planted(Attempt, "disarm", lambda self: None)


def events_told_twice() -> Any:
    """A listener hears of an outcome once more."""
    original = Recorder.landed

    def landed(self: Recorder, attempts: Sequence[Attempt], *, recorded: bool) -> None:
        original(self, attempts, recorded=recorded)
        if any(attempt.uncertain for attempt in attempts):
            original(self, attempts, recorded=recorded)

    return planted(Recorder, "landed", landed)


MUTANTS: tuple[Mutant, ...] = (
    fence_without_token,
    guard_by_state_alone,
    reaper_bumps_attempts,
    reaper_without_expiry,
    retry_without_guard,
    keeper_ignores_lost,
    fence_from_the_answer,
    release_without_refund,
    callbacks_before_guard,
    chain_outside_the_transaction,
    swallowed_cancellation_is_success,
    stale_outcomes_are_sent,
    outcome_forgotten,
    timers_of_a_closing_job,
    events_told_twice,
)
