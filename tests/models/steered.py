"""The machine with what is set for topics and what is due: pauses, limits, periodic jobs, fenced transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, multiple, precondition, rule
from tests.models.clock import Clock, moment, seconds
from tests.models.machine import Machine, limits, topics
from tests.models.protocol import Row
from tests.models.stand import LEASE, PATIENCE, TOPICS, WORKERS, Handler, Known, Place

from brooq import Job, Limits, Schedule, State
from brooq.postgres import PostgresStore, open_pool
from brooq.postgres.link import Link
from brooq.postgres.renewer import PostgresRenewer
from brooq.postgres.statement import statements
from brooq.vocabulary.schedule import ScheduleRecord

NAME, PERIOD = "tick", 60
BY = "ann"
changes = st.sampled_from(["pause", "resume", "resume", 1, 2, None, None])


class Steered(Machine):
    """The machine, and people who steer it."""

    handlers = Machine.handlers
    jobs = Machine.jobs
    records: Bundle[ScheduleRecord] = Bundle("records")

    def __init__(self) -> None:
        """Nothing is set, and one periodic job ticks."""
        super().__init__()
        self.known_topics: set[str] = set()
        self.paused: set[str] = set()
        self.limits: dict[str, int | None] = {}
        self.next = PERIOD
        self.held = False
        wanted = Schedule(NAME, "* * * * *", TOPICS[0])
        self.place.run(self.place.store.schedule(wanted, moment(self.next), BY))

    # --- topics ---

    @rule(topic=topics, change=changes)
    def steer(self, topic: str, change: Any) -> None:
        """Pause a topic, let it go on, limit it, take its limits away."""
        store = self.place.store
        match change:
            case "pause":
                assert self.place.run(store.pause(topic, BY)) == (topic not in self.paused)
                self.paused.add(topic)
                self.known_topics.add(topic)
            case "resume":
                assert self.place.run(store.resume(topic, BY)) == (topic in self.paused)
                self.paused.discard(topic)
            case None:
                self.place.run(store.limit(topic, None, BY))
                self.limits.pop(topic, None)
            case _:
                assert self.place.run(store.limit(topic, Limits(max_running=change), BY))
                self.limits[topic] = change
                self.known_topics.add(topic)

    def free(self, topic: str) -> bool:
        """Neither paused nor limited."""
        return topic not in self.paused and topic not in self.limits

    def left_out(self, topic: str) -> bool:
        """Limited, and not paused."""
        return topic not in self.paused and topic in self.limits

    @rule(target=handlers, order=st.permutations(WORKERS), topic=topics, limit=limits)
    def claim_limited(self, order: list[str], topic: str, limit: int) -> Any:
        """Both workers, one after the other: what counts is what both have in hand."""
        return multiple(*(handler for worker in order for handler in self._claim_limited(worker, topic, limit)))

    def _claim_limited(self, worker: str, topic: str, limit: int) -> list[Handler]:
        """The first ones, as many as there is room for. A topic that nobody has ever set anything for is left alone."""
        claim = self.place.run(self.place.store.claim_limited(worker, topic, limit, timedelta(seconds=LEASE)))
        running = sum(row.state is State.PROCESSING and self.known[id].topic == topic for id, row in self.rows.items())
        room = self.protocol.room(running, self.limits.get(topic), limit)
        open_to_it = topic in self.known_topics and topic not in self.paused
        assert [each.id for each in claim.taken] == (self.ready(topic)[:room] if open_to_it else [])
        return self.took(worker, claim.taken)

    # --- transactions of the consumer's own ---

    @precondition(lambda self: self.claimed)
    @rule(handler=handlers)
    def assert_held(self, handler: Handler) -> None:
        """A transaction asks whether the claim still holds; renewals and outcomes do not keep it waiting."""

        async def work() -> bool:
            tx = await self.place.store.begin()
            try:
                return await self.place.store.assert_held(tx, handler.lease)
            finally:
                await tx.rollback()

        row = self.rows.get(handler.id)
        assert self.place.run(work()) == (row is not None and self.protocol.asserts(row, handler.hold))

    # --- periodic jobs ---

    @rule(target=records)
    def look(self) -> ScheduleRecord:
        """A worker reads what is due next; it may act on that much later."""
        (found,) = self.place.run(self.place.store.schedules()).schedules
        assert found.next_at is not None
        assert (seconds(found.next_at), found.paused_at is not None) == (self.next, self.held)
        return found

    @rule(target=jobs, record=records, back=st.sampled_from([False, False, True]))
    def fire(self, record: ScheduleRecord, back: bool) -> Any:
        """Make the job of a tick and move on, or back when the clock was set back: each tick has one job, whoever comes."""
        assert record.next_at is not None
        tick = seconds(record.next_at)
        after = tick - PERIOD if back else tick + PERIOD
        job = Job(record.topic, None, f"tick {tick}", record.next_at)
        if (record.topic, job.idempotency_key) in self._written_keys():
            return multiple()  # it would have to wait for the transaction that has written this tick's job
        fired = self.place.run(self.place.store.fire(record, moment(after), record.next_at, [job]))
        assert fired == (tick == self.next and not self.held)
        if not fired:
            return multiple()
        self.next = after
        standing: UUID | None = self.standing(record.topic, job.idempotency_key)
        if standing is None:
            self.known[job.id] = Known(job.id, record.topic, 0, job.idempotency_key)
            self.rows[job.id] = Row(available=tick, updated=self.now)
        return standing or job.id

    @rule(paused=st.booleans(), skipped=st.integers(0, 2))
    def hold_schedule(self, paused: bool, skipped: int) -> None:
        """A pause of the periodic job, and its end, from which it goes on."""
        after = self.next + skipped * PERIOD
        done = self.place.run(
            self.place.store.hold_schedule(NAME, BY, paused=paused, next_at=None if paused else moment(after))
        )
        assert done == (paused != self.held)
        if done:
            self.held = paused
            self.next = self.next if paused else after


@contextmanager
def machine(dsn: str) -> Iterator[type[Steered]]:
    """A machine on a database of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection, asyncio.Runner() as runner:
        clock = Clock(connection)
        opening = open_pool(dsn, min_size=1, max_size=3)
        pool = runner.run(opening.__aenter__())
        store = PostgresStore(pool)
        place = Place(
            connection, clock, store, PostgresRenewer(Link(store.driver, PATIENCE), statements("public")), runner
        )
        try:
            yield type("Machine", (Steered,), {"place": place})
        finally:
            runner.run(place.renewer.close())
            runner.run(store.close())
            runner.run(pool.close())
