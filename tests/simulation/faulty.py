"""One process's way to the store, through weather: delays, refusals, lost answers, statements that arrive late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Self, TypeVar
from uuid import UUID

from tests.simulation.audit import AuditedStore, AuditedTx
from tests.simulation.virtual import ROOT, in_lane

from brooq.engine.outcome import Outcome
from brooq.engine.store import (
    Census,
    Exchange,
    Fate,
    Hold,
    LimitedClaim,
    OwnTx,
    Presence,
    Renewal,
    Renewer,
    Requeued,
    Sample,
    Schedules,
)
from brooq.vocabulary.error import OutcomeUnknown, StoreUnavailable
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord
from brooq.vocabulary.schedule import Schedule, ScheduleRecord
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx

T = TypeVar("T")


@dataclass
class Weather:
    """How the way to the database is. Rates are chances per statement."""

    before: float = 0.0
    after: float = 0.0
    late: float = 0.0
    """Of the statements that failed before they ran: how many run all the same, a little later."""
    hang: float = 0.0
    slowest: float = 0.02
    longest_hang: float = 8.0
    outage: bool = False
    over: bool = False
    """The simulation is over: whoever still runs meets a closed door."""

    def clear(self) -> None:
        """Nothing fails any more."""
        self.before = self.after = self.late = self.hang = 0.0
        self.outage = False


class FaultyStore:
    """The store port over an AuditedStore."""

    def __init__(self, inner: AuditedStore, weather: Weather, random: Random) -> None:
        """Everyone shares the weather; the chance is each process's own."""
        self.inner = inner
        self.weather = weather
        self.random = random
        self.troubles: set[int] = set()
        """The seconds in which a renewal failed or hung."""
        self.transactions: set[FaultyTx] = set()

    async def call(self, verb: str, work: Callable[[], Awaitable[T]], *, writing: bool) -> T:
        """Do one statement, weather permitting."""
        weather, random = self.weather, self.random
        if weather.over:
            raise StoreUnavailable("over")
        try:
            await self._travel(verb)
        except asyncio.CancelledError:
            self._arrive_late(work)  # the client let go, the server may have it all the same
            raise
        if weather.over:
            raise StoreUnavailable("over")
        if weather.outage or random.random() < weather.before:
            self._note(verb)
            self._arrive_late(work)
            if writing and random.random() < 0.5:
                raise OutcomeUnknown("no answer")
            raise StoreUnavailable("no connection")
        result = await work()
        if random.random() < weather.after:
            self._note(verb)
            raise (OutcomeUnknown if writing else StoreUnavailable)("the answer was lost")
        await self._travel(verb)
        return result

    async def _travel(self, verb: str) -> None:
        weather, random = self.weather, self.random
        if random.random() < weather.hang:
            self._note(verb)
            await asyncio.sleep(random.uniform(0.5, weather.longest_hang))
            self._note(verb)
        elif random.random() < 0.5:
            await asyncio.sleep(random.uniform(0.0, weather.slowest))
        elif random.random() < 0.5:
            await asyncio.sleep(0)

    def _note(self, verb: str) -> None:
        if verb == "renew":
            self.troubles.add(int(self.inner.seconds()))

    def _arrive_late(self, work: Callable[[], Awaitable[object]]) -> None:
        if self.weather.over or self.random.random() >= self.weather.late:
            return

        async def later() -> None:
            await asyncio.sleep(self.random.uniform(0.0, 2.0))
            try:
                await work()
            except Exception:  # noqa: S110
                pass  # nobody is left to hear it

        asyncio.get_running_loop().create_task(later(), context=in_lane(ROOT))

    # --- the port ---

    async def open(self) -> None:
        """The schema's check."""
        await self.call("open", self.inner.open, writing=False)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def begin(self) -> OwnTx:
        """A transaction on the same way."""
        inner = await self.call("begin", self.inner.begin, writing=False)
        tx = FaultyTx(self, inner)
        self.transactions.add(tx)
        return tx

    async def enqueue(self, tx: Tx | None, jobs: Iterable[Job]) -> list[Enqueued]:
        """Jobs, alone or in a transaction."""
        given = list(jobs)
        if tx is None:
            return await self.call("enqueue", lambda: self.inner.enqueue(None, given), writing=True)
        return await self._within(tx, lambda inner: self.inner.enqueue(inner, given))

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes and claims. Their parameters are on the wire: later changes of them are not seen."""
        sent = [Outcome(each.id, each.token, each.state, each.error, each.delay, each.refund) for each in outcomes]
        order = list(topics)
        return await self.call("exchange", lambda: self.inner.exchange(worker, sent, order, limit, lease), writing=True)

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """One outcome inside a transaction."""
        return await self._within(tx, lambda inner: self.inner.settle(inner, worker, outcome))

    async def _within(self, tx: Tx, work: Callable[[AuditedTx], Awaitable[T]]) -> T:
        assert isinstance(tx, FaultyTx)
        try:
            return await self.call("within", lambda: work(tx.inner), writing=False)
        except (StoreUnavailable, OutcomeUnknown):
            await tx.lose()
            raise

    async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
        """Hints, over the same weather."""
        await self.call("progress", lambda: self.inner.progress(worker, told), writing=True)

    async def assert_held(self, tx: Tx, hold: Hold) -> bool:
        """The fence, inside a transaction."""
        return await self._within(tx, lambda inner: self.inner.assert_held(inner, hold))

    async def ended(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord | None]:
        """Those at their end."""
        return await self.call("ended", lambda: self.inner.ended(ids), writing=False)

    async def fates(self, ids: Sequence[UUID]) -> dict[UUID, Fate]:
        """What the rows say."""
        return await self.call("fates", lambda: self.inner.fates(ids), writing=False)

    async def renewer(self) -> Renewer:
        """Renewals over the same weather."""
        return _FaultyRenewer(self)

    def bell(self, topics: Sequence[str]) -> None:
        """No wake-ups: the promises rest on polling."""

    async def cancel(self, id: UUID) -> Cancellation:
        """From outside."""
        return await self.call("cancel", lambda: self.inner.cancel(id), writing=True)

    async def pause(self, topic: str, by: str, reason: str | None = None) -> bool:
        """A topic shut."""
        return await self.call("pause", lambda: self.inner.pause(topic, by, reason), writing=True)

    async def resume(self, topic: str, by: str, reason: str | None = None) -> bool:
        """A topic opened."""
        return await self.call("resume", lambda: self.inner.resume(topic, by, reason), writing=True)

    async def claim_limited(self, worker: str, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """Claims within limits."""
        return await self.call(
            "claim_limited", lambda: self.inner.claim_limited(worker, topic, limit, lease), writing=True
        )

    async def limit(self, topic: str, limits: Limits | None, by: str, reason: str | None = None) -> bool:
        """Limits set."""
        return await self.call("limit", lambda: self.inner.limit(topic, limits, by, reason), writing=True)

    async def declare(self, limits: Mapping[str, Limits | None]) -> None:
        """Limits of the code."""
        await self.call("declare", lambda: self.inner.declare(limits), writing=True)

    async def topics(self) -> list[TopicRecord]:
        """What is set."""
        return await self.call("topics", self.inner.topics, writing=False)

    async def schedules(self, *, due: bool = False) -> Schedules:
        """Periodic jobs."""
        return await self.call("schedules", lambda: self.inner.schedules(due=due), writing=False)

    async def schedule(
        self, schedule: Schedule, next_at: datetime | None, by: str | None, reason: str | None = None
    ) -> bool:
        """One set."""
        return await self.call("schedule", lambda: self.inner.schedule(schedule, next_at, by, reason), writing=True)

    async def unschedule(self, name: str, by: str, reason: str | None = None) -> bool:
        """One gone."""
        return await self.call("unschedule", lambda: self.inner.unschedule(name, by, reason), writing=True)

    async def hold_schedule(
        self, name: str, by: str, reason: str | None = None, *, paused: bool, next_at: datetime | None
    ) -> bool:
        """One paused."""
        work = self.inner.hold_schedule
        return await self.call(
            "hold_schedule", lambda: work(name, by, reason, paused=paused, next_at=next_at), writing=True
        )

    async def retire(self, topics: Sequence[str], names: Sequence[str]) -> list[str]:
        """Those that code has given up."""
        return await self.call("retire", lambda: self.inner.retire(topics, names), writing=True)

    async def fire(
        self, schedule: ScheduleRecord, next_at: datetime | None, last_at: datetime | None, jobs: Sequence[Job]
    ) -> bool:
        """The jobs of ticks."""
        return await self.call("fire", lambda: self.inner.fire(schedule, next_at, last_at, jobs), writing=True)

    async def reap(self, limit: int) -> list[Requeued]:
        """Expired leases."""
        return await self.call("reap", lambda: self.inner.reap(limit), writing=True)

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        """Retention."""
        return await self.call("prune", lambda: self.inner.prune(age, limit), writing=True)

    async def census(self, topics: Sequence[str]) -> Census:
        """Depths."""
        return await self.call("census", lambda: self.inner.census(topics), writing=False)

    async def announce(self, presence: Presence, forget: timedelta) -> None:
        """The list of engines."""
        await self.call("announce", lambda: self.inner.announce(presence, forget), writing=True)

    async def withdraw(self, worker: str) -> None:
        """The list of engines."""
        await self.call("withdraw", lambda: self.inner.withdraw(worker), writing=True)

    async def sample(self, samples: Sequence[Sample], elapsed: float) -> None:
        """Counts for charts."""
        await self.call("sample", lambda: self.inner.sample(samples, elapsed), writing=True)

    async def find(self, id: UUID) -> JobRecord | None:
        """A row."""
        return await self.call("find", lambda: self.inner.find(id), writing=False)


class FaultyTx:
    """A transaction whose connection can die."""

    def __init__(self, store: FaultyStore, inner: AuditedTx) -> None:
        """`inner` is what the server keeps."""
        self.inner = inner
        self.broken = False
        self._store = store
        self._ended = False

    async def commit(self) -> None:
        """The answer may be lost, and the commit may come later than its client believes."""
        if self._ended:
            return
        self._ended = True
        try:
            await self._store.call("commit", self.inner.commit, writing=True)
        except BaseException as error:
            self.broken = True
            self._end_soon()
            if isinstance(error, StoreUnavailable):
                raise OutcomeUnknown("commit") from error
            raise
        self._store.transactions.discard(self)

    async def rollback(self) -> None:
        """A connection that is lost rolls back by itself."""
        if not self._ended:
            self._ended = True
            self._store.transactions.discard(self)
            await self.inner.rollback()

    async def __aenter__(self) -> Self:
        """The transaction itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or roll back when the block raised."""
        await (self.commit() if kind is None else self.rollback())

    async def lose(self) -> None:
        """The connection is gone: the server rolls back."""
        self.broken = self._ended = True
        self._store.transactions.discard(self)
        await self.inner.rollback()

    def _end_soon(self) -> None:
        """The server notices some time after the client, and after any commit that is still on its way."""
        loop, inner = asyncio.get_running_loop(), self.inner
        self._store.transactions.discard(self)

        async def end() -> None:
            await asyncio.sleep(2.5)
            await inner.rollback()

        loop.create_task(end(), context=in_lane(ROOT))


class _FaultyRenewer:
    def __init__(self, store: FaultyStore) -> None:
        self._store = store

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        async def work() -> Renewal:
            return self._store.inner.renew(worker, holds, lease)

        return await self._store.call("renew", work, writing=False)

    async def close(self) -> None:
        """Nothing to let go of."""
