"""Running the jobs of a store in memory until nothing is left to run, retries and jobs of the future at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from brooq.engine.queue import Queue
from brooq.testing.clock import VirtualClock
from brooq.testing.memory import WAITING, MemoryStore
from brooq.vocabulary.job import JobRecord, State
from brooq.vocabulary.message import text

GLANCE = 0.0005
"""How many seconds pass between two looks at whether a handler has ended."""


async def drain(queue: Queue, *, until: datetime | None = None, at_most: int = 10_000) -> list[JobRecord]:
    """Work until nothing of the queue's topics is left to run; answers the rows that ended here, in order of their ids.

    Where the store's clock is a VirtualClock, it is set to the next moment at which a job is ready (a retry, an
    `available_at`, an expired lease of another worker) whenever there is nothing to do, so that whatever waits runs at
    once; `until` is the last such moment. With any other clock the jobs of the future stay where they are.
    The queue is started for that long, unless it runs already: then it keeps running.

    Raises TypeError for a queue whose store is not a MemoryStore, and AssertionError after `at_most` claims: jobs that
    enqueue each other for ever never come to an end.
    """
    store = queue.store
    if not isinstance(store, MemoryStore):
        raise TypeError(text("testing.not_in_memory", type=type(store).__qualname__))
    ended = {record.id for record in store.jobs if record.state.terminal}
    if queue.health().running:
        await _Drain(queue, store, until, at_most).run()
    else:
        await queue.start()
        try:
            await _Drain(queue, store, until, at_most).run()
        finally:
            await queue.close()
    return [record for record in store.jobs if record.state.terminal and record.id not in ended]


@contextmanager
def in_memory(queue: Queue, clock: VirtualClock | None = None) -> Iterator[MemoryStore]:
    """Let a queue of an application, its kinds included, work in memory for the length of a block.

    The store is given, its clock a VirtualClock unless another is given. Only what goes through this very queue comes
    here: transactions of a database (`enqueue_tx`, `brooq.postgres.producer`) need their database in tests too.
    """
    store, before = MemoryStore(clock or VirtualClock()), queue.store
    queue.store = store
    try:
        yield store
    finally:
        queue.store = before


class _Drain:
    """One run."""

    def __init__(self, queue: Queue, store: MemoryStore, until: datetime | None, at_most: int) -> None:
        self._queue, self._store, self._until = queue, store, until
        self._topics = list(queue.kinds)
        worker = queue._worker  # noqa: SLF001  nobody else needs its name
        self._worker = None if worker is None else worker.name
        self._limit = self._claims() + at_most
        self._at_most = at_most

    async def run(self) -> None:
        while True:
            await self._until_idle()
            moment = self._next()
            if moment is None:
                return
            assert isinstance(self._store.clock, VirtualClock)
            self._store.clock.set(max(moment, self._store.clock()))
            await self._store.reap(self._at_most)

    async def _until_idle(self) -> None:
        while self._busy():
            if self._claims() > self._limit:
                raise AssertionError(text("testing.no_end", count=self._at_most, topics=self._busiest()))
            await self._queue.enqueue_many([])  # of no jobs: makes the worker look at once
            await asyncio.sleep(GLANCE)

    def _busy(self) -> bool:
        held = any(record.locked_by == self._worker for record in self._store.jobs if record.state is State.PROCESSING)
        return held or bool(self._queue.running()) or self._store.ready(self._topics)

    def _next(self) -> datetime | None:
        """The next moment at which something is ready."""
        if not isinstance(self._store.clock, VirtualClock):
            return None
        now = self._store.clock()
        coming = [
            moment for record in self._store.jobs if (moment := self._moment(record)) is not None and moment > now
        ]
        first = min(coming, default=None)
        return None if first is None or (self._until is not None and first > self._until) else first

    def _moment(self, record: JobRecord) -> datetime | None:
        if record.topic not in self._topics or record.state.terminal:
            return None
        if record.state in WAITING:
            return record.available_at
        # Held by a worker that is no more; a lease is over behind its last moment.
        return None if record.locked_until is None else record.locked_until + timedelta(microseconds=1)

    def _claims(self) -> int:
        return sum(record.claim_seq for record in self._store.jobs)

    def _busiest(self) -> str:
        return ", ".join(sorted({record.topic for record in self._store.jobs if not record.state.terminal}))
