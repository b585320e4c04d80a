"""The store on a real PostgreSQL, driven step by step, with the rules as its oracle.

After every step each row must be what the rules say, to the second: time stands still in the database until a step moves
it. Claims are never used up: their handlers come back long after their leases, which is how fences are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule
from tests.models.clock import moment, seconds
from tests.models.protocol import WAITING, Ending, Hold, Protocol, Row
from tests.models.stand import (
    AGE,
    EMPTY,
    ENDINGS,
    HASTEN,
    LEASE,
    READ,
    RESET,
    TOPICS,
    WORKERS,
    Handler,
    Known,
    Open,
    Place,
    outcome,
)

from brooq import Enqueued, Job, State
from brooq.engine.store import Taken

topics = st.sampled_from(TOPICS)
keys = st.sampled_from(["", "", "k", "l"])
endings = st.sampled_from(sorted(ENDINGS))
workers = st.sampled_from(WORKERS)
limits = st.integers(1, 3)


class Machine(RuleBasedStateMachine):
    """Every verb, in any order, by any worker, on any job, at any time."""

    place: Place
    handlers: Bundle[Handler] = Bundle("handlers")
    jobs: Bundle[UUID] = Bundle("jobs")

    def __init__(self) -> None:
        """With the rules, and no job."""
        super().__init__()
        self.protocol = Protocol()
        self.now = 0
        self.rows: dict[UUID, Row] = {}
        self.known: dict[UUID, Known] = {}
        self.open: Open | None = None
        self.claimed = False
        self.place.connection.execute(EMPTY)
        self.place.clock.set(0)

    def teardown(self) -> None:
        """Nothing stays open."""
        if self.open:
            self.place.run(self.open.tx.rollback())

    # --- producers ---

    @rule(
        target=jobs,
        topic=topics,
        key=keys,
        priority=st.sampled_from([0, 0, 1]),
        delay=st.sampled_from([None, 0, 30, 120]),
    )
    def enqueue(self, topic: str, key: str, priority: int, delay: int | None) -> Any:
        """A job through the pool. It would have to wait for a transaction that has written a row with that key."""
        if key and (topic, key) in self._written_keys():
            return multiple()
        at = None if delay is None else self.now + delay
        job = Job(topic, None, key, None if at is None else moment(at), priority)
        (answer,) = self.place.run(self.place.store.enqueue(None, [job]))
        standing = self.standing(topic, key)
        assert answer == (standing or job.id, standing is None)
        if standing is None:
            self.known[job.id] = Known(job.id, topic, priority, key)
            self.rows[job.id] = Row(available=self.now if at is None else at, updated=self.now)
        return answer.id

    @rule(target=jobs, topic=topics, some=st.lists(keys, min_size=2, max_size=3), shared=st.booleans())
    def enqueue_many(self, topic: str, some: list[str], shared: bool) -> Any:
        """Several jobs in one call; of those that have the same key only the first one is made. `shared`: in a transaction
        of the consumer's own, whose statement is another one."""
        if any((topic, key) in self._written_keys() for key in some if key):
            return multiple()
        made = [Job(topic, None, key) for key in some]
        answers = self.place.run(self._in_one(made) if shared else self.place.store.enqueue(None, made))
        for job, answer in zip(made, answers, strict=True):
            standing = self.standing(topic, job.idempotency_key)
            assert answer == (standing or job.id, standing is None)
            if standing is None:
                self.known[job.id] = Known(job.id, topic, 0, job.idempotency_key)
                self.rows[job.id] = Row(available=self.now, updated=self.now)
        return multiple(*(answer.id for answer in answers))

    async def _in_one(self, jobs: list[Job]) -> list[Enqueued]:
        tx = await self.place.store.begin()
        try:
            answers = await self.place.store.enqueue(tx, jobs)
            await tx.commit()
        finally:
            await tx.rollback()
        return answers

    # --- workers ---

    @rule(target=handlers, worker=workers, order=st.permutations(TOPICS), some=st.integers(1, 2), limit=limits)
    def claim(self, worker: str, order: Sequence[str], some: int, limit: int) -> Any:
        """An exchange that only claims."""
        return self._exchanged(worker, order[:some], limit, [])

    @precondition(lambda self: self.claimed)
    @rule(
        target=handlers, some=st.integers(0, 2), limit=limits, another=st.sampled_from([None, None, *WORKERS]),
        ended=st.lists(st.tuples(handlers, endings), min_size=1, max_size=3),
    )  # fmt: skip
    def exchange(self, some: int, limit: int, another: str | None, ended: list[tuple[Handler, str]]) -> Any:
        """Outcomes of old and older claims, and the next claim."""
        return self._exchanged(another or ended[0][0].worker, TOPICS[:some], limit, ended)

    def _exchanged(self, worker: str, wanted: Sequence[str], limit: int, ended: list[tuple[Handler, str]]) -> Any:
        """Readiness is judged before the outcomes are written. An outcome would have to wait for a locked row."""
        outcomes = {handler.id: (handler, name) for handler, name in ended if handler.id not in self._locked()}
        exchange = self.place.run(
            self.place.store.exchange(
                worker, [outcome(*each) for each in outcomes.values()], wanted, limit, timedelta(seconds=LEASE)
            )
        )
        accepted = {}
        for handler, name in outcomes.values():
            hold = Hold(worker, handler.attempt, handler.token)
            new = self._settled(handler.id, hold, ENDINGS[name])
            if new is not None:
                accepted[handler.lease] = new
        assert set(exchange.settled) == set(accepted)
        self._check_order(exchange.taken, [topic for topic in wanted if self.free(topic)], limit)
        assert set(exchange.limited) == {topic for topic in wanted if self.left_out(topic) and self._waits(topic)}
        claimed = self.took(worker, exchange.taken)
        self.rows |= {lease.id: new for lease, new in accepted.items()}
        return multiple(*claimed)

    def took(self, worker: str, taken: Sequence[Taken]) -> list[Handler]:
        """What was claimed, each as the rules say."""
        claimed = []
        for each in taken:
            new = self.protocol.claim(self.rows[each.id], worker, self.now, LEASE)
            assert new is not None
            assert (each.attempt, each.token, seconds(each.until)) == (new.attempts, new.claim_seq, new.until)
            assert each.waited == self.now - self.rows[each.id].available
            self.rows[each.id] = new
            claimed.append(Handler(each.id, worker, each.attempt, each.token))
        self.claimed = self.claimed or bool(claimed)
        return claimed

    def free(self, topic: str) -> bool:
        """Whether an exchange takes from a topic."""
        return True

    def left_out(self, topic: str) -> bool:
        """Whether it leaves a topic to claims within limits."""
        return False

    def _waits(self, topic: str) -> bool:
        return any(row.state in WAITING and self.known[id].topic == topic for id, row in self.rows.items())

    def ready(self, topic: str) -> list[UUID]:
        """What can be claimed of a topic, in its order."""
        return [id for *_, id in sorted(
            (self.known[id].priority, row.available, id)
            for id, row in self.rows.items()
            if self.known[id].topic == topic and self.protocol.claim(row, "", self.now, LEASE)
        )]  # fmt: skip

    def _check_order(self, taken: Sequence[Taken], wanted: Sequence[str], limit: int) -> None:
        """As many as are ready, and of each topic the first ones (G4.10)."""
        count = 0
        for topic in wanted:
            ready = self.ready(topic)
            found = [each.id for each in taken if each.topic == topic]
            assert sorted(found) == sorted(ready[: len(found)])
            count += len(ready)
        assert len(taken) == min(count, limit)

    @precondition(lambda self: self.claimed)
    @rule(
        held=st.lists(handlers, min_size=1, max_size=4, unique_by=lambda handler: handler.id),
        another=st.sampled_from([None, None, *WORKERS]),
    )
    def renew(self, held: list[Handler], another: str | None) -> None:
        """Leases of old and older claims. A row that is locked is neither renewed nor lost."""
        worker = another or held[0].worker
        renewal = self.place.run(
            self.place.renewer.renew(worker, [handler.lease for handler in held], timedelta(seconds=LEASE))
        )
        renewed, lost = set(), set()
        for handler in held:
            row = self.rows.get(handler.id)
            hold = Hold(worker, handler.attempt, handler.token)
            new = None if row is None else self.protocol.renew(row, hold, self.now, LEASE)
            if new is None:
                lost.add(handler.lease)
            elif handler.id not in self._locked():
                renewed.add(handler.lease)
                self.rows[handler.id] = new
        assert (set(renewal.renewed), set(renewal.lost)) == (renewed, lost)

    @rule(handler=handlers, name=endings, another=st.sampled_from([None, None, *WORKERS]))
    def settle(self, handler: Handler, name: str, another: str | None) -> None:
        """One outcome in a transaction of its own, now and then in the name of another worker."""
        if handler.id in self._locked():
            return
        worker = another or handler.worker

        async def work() -> bool:
            async with await self.place.store.begin() as tx:
                return await self.place.store.settle(tx, worker, outcome(handler, name))

        new = self._settled(handler.id, Hold(worker, handler.attempt, handler.token), ENDINGS[name])
        assert self.place.run(work()) == (new is not None)
        if new is not None:
            self.rows[handler.id] = new

    @precondition(lambda self: self.open is None)
    @rule(target=jobs, handler=handlers, topic=topics, key=keys)
    def begin_to_close(self, handler: Handler, topic: str, key: str) -> Any:
        """`done` with a chained job, in a transaction that stays open for a while."""
        job = Job(topic, None, key)

        async def work() -> Any:
            """Answers what the enqueue did; None when this claim does not hold the job."""
            tx = await self.place.store.begin()
            self.open = Open(tx, {}, [])
            settled = await self.place.store.settle(tx, handler.worker, outcome(handler, "done"))
            return (await self.place.store.enqueue(tx, [job]))[0] if settled else None

        answer = self.place.run(work())
        new = self._settled(handler.id, handler.hold, ENDINGS["done"])
        assert (answer is None) == (new is None)
        if new is None:
            self.close(commit=False)
            return multiple()
        standing = self.standing(topic, key)
        assert answer == (standing or job.id, standing is None)
        assert self.open is not None
        self.open.rows[handler.id] = new
        if standing is None:
            self.open.rows[job.id] = Row(available=self.now, updated=self.now)
            self.open.made.append(Known(job.id, topic, 0, key))
        return answer.id

    @precondition(lambda self: self.open is not None)
    @rule(commit=st.sampled_from([True, True, False]))
    def end(self, commit: bool) -> None:
        """The end of the open transaction: all of it, or nothing."""
        self.close(commit=commit)

    def close(self, *, commit: bool) -> None:
        """End the open transaction."""
        assert self.open is not None
        ending, self.open = self.open, None
        if commit:
            self.place.run(ending.tx.commit())
            self.rows |= ending.rows
            self.known |= {known.id: known for known in ending.made}
        else:
            self.place.run(ending.tx.rollback())

    @precondition(lambda self: self.claimed)
    @rule(target=handlers, handler=handlers)
    def claim_again(self, handler: Handler) -> Any:
        """Leases run out, and the same worker claims what it has lost: from here on it holds stale claims."""
        self.tick(LEASE + 1)
        self.reap(10)
        claimed = self._exchanged(handler.worker, TOPICS, 10, [])
        self.tick(10)  # so that the end of a lease tells whether it was renewed
        return claimed

    # --- everybody else ---

    @rule(limit=limits)
    def reap(self, limit: int) -> None:
        """Expired leases, but for the locked ones."""
        expired = {
            id: new
            for id, row in self.rows.items()
            if id not in self._locked() and (new := self.protocol.reap(row, self.now)) is not None
        }
        requeued = self.place.run(self.place.store.reap(limit))
        assert len(requeued) == min(limit, len(expired))
        for each in requeued:
            assert each.topic == self.known[each.id].topic
            self.rows[each.id] = expired[each.id]

    @rule(id=jobs)
    def cancel(self, id: UUID) -> None:
        """From outside; it would wait for a locked row."""
        if id in self._locked():
            return
        row = self.rows.get(id)
        answer = self.place.run(self.place.store.cancel(id))
        if row is None:
            assert answer == (False, None, None)
            return
        new = self.protocol.cancel(row, self.now)
        assert answer == (new is not None, row.state, self.known[id].topic)
        if new is not None:
            self.rows[id] = new

    @rule(limit=limits)
    def prune(self, limit: int) -> None:
        """Old terminal rows, the oldest first."""
        old = sorted((row.updated, id) for id, row in self.rows.items() if self.protocol.prune(row, self.now, AGE))
        pruned = self.place.run(self.place.store.prune(timedelta(seconds=AGE), limit))
        there = {id for (id,) in self.place.connection.execute("select id from job")}
        gone = self.rows.keys() - there
        assert len(pruned) == min(limit, len(old)) == len(gone)
        assert sorted(self.rows[id].updated for id in gone) == [updated for updated, _ in old[:limit]]
        assert sorted(pruned) == sorted(self.known[id].topic for id in gone)
        for id in gone:
            del self.rows[id]

    @rule(id=jobs)
    def find(self, id: UUID) -> None:
        """What callers are told of a job, and what the engine is told of a claim."""
        record = self.place.run(self.place.store.find(id))
        fates = self.place.run(self.place.store.fates([id]))
        row = self.rows.get(id)
        if row is None:
            assert (record, fates) == (None, {})
        else:
            assert record is not None
            assert (record.state, record.claim_seq, record.attempts) == (row.state, row.claim_seq, row.attempts)
            assert fates == {id: (row.state, row.claim_seq, row.owner)}

    @rule(id=jobs, reset=st.booleans())
    def operate(self, id: UUID, reset: bool) -> None:
        """An operator lets a waiting job run now, or gives it its attempts back too."""
        self.place.connection.execute(RESET if reset else HASTEN, [id])
        row = self.rows.get(id)
        new = None if row is None else (self.protocol.reset if reset else self.protocol.hasten)(row, self.now)
        if new is not None:
            self.rows[id] = new

    @rule(by=st.sampled_from([10, 50, LEASE + 1, AGE + 1, -70]))
    def tick(self, by: int) -> None:
        """Time passes; now and then somebody sets the clock of the server back (F17)."""
        self.now += by
        self.place.clock.set(self.now)

    # --- always ---

    @invariant()
    def rows_are_what_the_rules_say(self) -> None:
        """Every row, every column that the rules are about."""
        found, known = {}, {}
        for (id, state, attempts, claim_seq, owner, until, available, expired, updated, *rest) in (
            self.place.connection.execute(READ)
        ):  # fmt: skip
            end = None if until is None else seconds(until)
            found[id] = Row(
                State(state), attempts, claim_seq, owner, end, seconds(available), expired, seconds(updated)
            )
            known[id] = Known(id, *rest)
        assert found == self.rows
        assert known == {id: self.known[id] for id in self.rows}

    def _locked(self) -> set[UUID]:
        return set(self.open.rows) if self.open else set()

    def _written_keys(self) -> set[tuple[str, str]]:
        if self.open is None:
            return set()
        written = [*self.open.made, *(self.known[id] for id in self.open.rows if id in self.known)]
        return {(known.topic, known.key) for known in written}

    def standing(self, topic: str, key: str) -> UUID | None:
        """The job that has this key."""
        held = (id for id in self.rows if key and (self.known[id].topic, self.known[id].key) == (topic, key))
        return next(held, None)

    def _settled(self, id: UUID, hold: Hold, ending: Ending) -> Row | None:
        row = self.rows.get(id)
        return None if row is None else self.protocol.settle(row, hold, ending, self.now)
