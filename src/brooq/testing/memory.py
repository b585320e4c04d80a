"""A store in memory, for consumers' tests and for the engine under virtual time.

It keeps the contract of the PostgreSQL store, row locks and open transactions included: one suite runs on both.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self
from uuid import UUID

from brooq.engine.outcome import Outcome
from brooq.engine.store import (
    SUSPECT,
    Bell,
    Census,
    Depth,
    Exchange,
    Fate,
    Hold,
    LimitedClaim,
    Presence,
    Renewal,
    Renewer,
    Requeued,
    Sample,
    Schedules,
    Taken,
)
from brooq.testing.periodic import Periodic
from brooq.testing.steering import Steering
from brooq.vocabulary.error import PayloadError, StoreBusy, TxError
from brooq.vocabulary.job import Cancellation, Enqueued, Failure, Job, JobRecord, Progress, State, Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES, decode, encode
from brooq.vocabulary.schedule import Schedule, ScheduleRecord
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx

WAITING = (State.PENDING, State.FAILED)
MAX_FAILURES = 10
LOCK_TIMEOUT = 1.0


@dataclass(slots=True)
class _Row:
    """A row: the record with its payload as JSON text, and the transaction that holds it locked."""

    record: JobRecord
    source: str
    locked: MemoryTx | None = None
    fenced: set[MemoryTx] = field(default_factory=set)
    """Transactions that end before the job is claimed again."""


@dataclass(eq=False)
class MemoryTx:
    """An open transaction of a MemoryStore: what it wrote is seen by nobody until it commits."""

    store: MemoryStore
    broken: bool = False
    aborted: bool = False
    inserted: dict[UUID, _Row] = field(default_factory=dict)
    updated: dict[UUID, JobRecord] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def commit(self) -> None:
        """Make what was written visible; nothing happens when the transaction has ended."""
        if not self.ended.is_set():
            if not self.aborted:  # as a database does: what was refused cannot commit
                self.store.apply(self)
            self._end()

    async def rollback(self) -> None:
        """Forget what was written; nothing happens when the transaction has ended."""
        if not self.ended.is_set():
            self._end()

    def _end(self) -> None:
        self.store.forget(self)
        self.ended.set()

    async def __aenter__(self) -> Self:
        """The transaction itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back when the block raised."""
        if error is None:
            await self.commit()
        else:
            await self.rollback()


class MemoryStore:
    """Jobs in memory, lost with the object. `clock` stands for the database's clock and answers aware datetimes."""

    def __init__(self, clock: Callable[[], datetime] | None = None, *, max_payload: int = MAX_BYTES) -> None:
        """An empty store."""
        self.clock = clock or (lambda: datetime.now(UTC))
        self._max_payload = max_payload
        self._rows: dict[UUID, _Row] = {}
        self._keys: dict[tuple[str, str], UUID] = {}
        self._transactions: set[MemoryTx] = set()
        self._steering = Steering(self.clock)
        self._periodic = Periodic(self.clock)
        self._workers: dict[str, tuple[Presence, datetime]] = {}

    @property
    def jobs(self) -> list[JobRecord]:
        """Every job as it is now, by id: in order of enqueueing."""
        return [self._rows[id].record for id in sorted(self._rows)]

    @property
    def workers(self) -> list[Presence]:
        """What running engines have said of themselves last, by name."""
        return [self._workers[name][0] for name in sorted(self._workers)]

    def ready(self, topics: Sequence[str]) -> bool:
        """Whether a claim of these topics would take something now."""
        return next(self._ready(topics, 1), None) is not None

    # --- the port ---

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def begin(self) -> MemoryTx:
        """Open a transaction."""
        tx = MemoryTx(self)
        self._transactions.add(tx)
        return tx

    async def enqueue(self, tx: Tx | None, jobs: Iterable[Job]) -> list[Enqueued]:
        """Write the jobs; waits, as a database does, for a transaction that has written the same key."""
        jobs = list(jobs)
        rows = [self._new_row(number, len(jobs), job) for number, job in enumerate(jobs)]
        own = await self.begin() if tx is None else self._mine(tx)
        try:
            answers = {
                id: await self._insert(own, row)
                for id, row in sorted(
                    ((job.id, row) for job, row in zip(jobs, rows, strict=True)),
                    key=lambda each: (each[1].record.topic, each[1].record.idempotency_key),
                )
            }
            if tx is None:
                await own.commit()
        except BaseException:
            if tx is None:
                await own.rollback()
            raise
        return [answers[job.id] for job in jobs]

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes, then the next claim. Waits a second for rows that a transaction has locked, then gives up."""
        try:
            async with asyncio.timeout(LOCK_TIMEOUT):
                # Once more from the start after every wait: another row may have been locked meanwhile.
                while locked := [id for id in (outcome.id for outcome in outcomes) if self._locked(id)]:
                    await self._unlocked(locked[0])
        except TimeoutError:
            raise StoreBusy("canceling statement due to lock timeout") from None
        settled = []
        # As in one SQL statement, the claim sees the table as it was before the outcomes.
        ready = list(self._ready(topics, limit))
        for outcome in outcomes:
            row = self._rows.get(outcome.id)
            if row is not None and self._holds(row.record, worker, outcome.token):
                row.record = self._after(row.record, outcome)
                settled.append(Hold(outcome.id, outcome.token))
        taken = [self._take(row, worker, lease) for row in ready]
        return Exchange(settled, taken, [topic for topic in topics if self._limited(topic)])

    async def claim_limited(self, worker: str, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """Claim within the topic's limits: nothing else happens meanwhile."""
        records = [row.record for row in self._rows.values() if row.record.topic == topic]
        ready = [row.record for row in self._ready_of(topic)]
        chosen, wait = self._steering.choose(topic, records, ready, limit)
        taken = [self._take(self._rows[record.id], worker, lease) for record in chosen]
        return LimitedClaim(taken, len(taken) >= limit, wait)

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """One outcome inside a transaction; waits for whoever has the row locked."""
        own = self._mine(tx)
        while (row := self._rows.get(outcome.id)) is not None and row.locked not in (None, own):
            assert row.locked is not None
            await row.locked.ended.wait()
        record = None if row is None else own.updated.get(outcome.id, row.record)
        if row is None or record is None or not self._holds(record, worker, outcome.token):
            return False
        row.locked = own
        own.updated[outcome.id] = self._after(record, outcome)
        return True

    async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
        """Hints: a locked row is left out."""
        for hold, source in told.items():
            row = self._rows.get(hold.id)
            if row is not None and row.locked is None and self._holds(row.record, worker, hold.token):
                said = json.loads(source)
                row.record = replace(row.record, progress=Progress(said["done"], said.get("note", ""), self.clock()))

    async def assert_held(self, tx: Tx, hold: Hold) -> bool:
        """A transaction that was refused is aborted: it can only be rolled back."""
        own = self._mine(tx)
        row = self._rows.get(hold.id)
        if row is None or (row.record.state, row.record.claim_seq) != (State.PROCESSING, hold.token):
            own.aborted = True
            return False
        row.fenced.add(own)
        return True

    async def ended(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord | None]:
        """What is at its end."""
        records = {id: self._rows[id].record for id in ids if id in self._rows}
        return {id: record if record.state.terminal else None for id, record in records.items()}

    async def fates(self, ids: Sequence[UUID]) -> dict[UUID, Fate]:
        """What the rows say now."""
        records = {id: self._rows[id].record for id in ids if id in self._rows}
        return {id: Fate(record.state, record.claim_seq, record.locked_by) for id, record in records.items()}

    async def renewer(self) -> Renewer:
        """The store itself renews."""
        return _MemoryRenewer(self)

    def bell(self, topics: Sequence[str]) -> Bell | None:
        """None: a queue of the same process looks for its own jobs at once, and others poll."""

    async def cancel(self, id: UUID) -> Cancellation:
        """Cancel a job that is not terminal; waits for whoever has the row locked."""
        row = await self._unlocked(id)
        if row is None:
            return Cancellation(False, None)
        before = row.record
        if before.state.terminal:
            return Cancellation(False, before.state, before.topic)
        row.record = replace(before, state=State.CANCELED, updated_at=self.clock())
        return Cancellation(True, before.state, before.topic)

    async def pause(self, topic: str, by: str, reason: str | None = None) -> bool:
        """Let nobody claim from a topic."""
        return self._steering.pause(Topic(topic), by, reason)

    async def resume(self, topic: str, by: str, reason: str | None = None) -> bool:
        """End a pause."""
        return self._steering.resume(Topic(topic))

    async def limit(self, topic: str, limits: Limits | None, by: str, reason: str | None = None) -> bool:
        """Set limits by hand, or hand them back to what is declared."""
        return self._steering.limit(Topic(topic), limits, by)

    async def declare(self, limits: Mapping[str, Limits | None]) -> None:
        """What the code of a worker asks for."""
        self._steering.declare(limits)

    async def topics(self) -> list[TopicRecord]:
        """What is set for topics."""
        return self._steering.records()

    async def schedules(self, *, due: bool = False) -> Schedules:
        """The periodic jobs."""
        return self._periodic.read(due=due)

    async def schedule(
        self, schedule: Schedule, next_at: datetime | None, by: str | None, reason: str | None = None
    ) -> bool:
        """Set a periodic job."""
        payload = None if schedule.payload is None else encode(schedule.payload, self._max_payload)
        return self._periodic.set(schedule, payload, next_at, by)

    async def unschedule(self, name: str, by: str, reason: str | None = None) -> bool:
        """Take a periodic job away."""
        return self._periodic.remove(name)

    async def hold_schedule(
        self, name: str, by: str, reason: str | None = None, *, paused: bool, next_at: datetime | None
    ) -> bool:
        """Pause a periodic job, or let it go on."""
        return self._periodic.hold(name, by, next_at, paused=paused)

    async def retire(self, topics: Sequence[str], names: Sequence[str]) -> list[str]:
        """Take away what code has given up."""
        return self._periodic.retire(topics, names)

    async def fire(
        self, schedule: ScheduleRecord, next_at: datetime | None, last_at: datetime | None, jobs: Sequence[Job]
    ) -> bool:
        """Make the jobs of ticks; nothing else happens meanwhile but what a transaction with their keys does."""
        if not self._periodic.advance(schedule, next_at, last_at, jobs):
            return False
        await self.enqueue(None, jobs)
        return True

    async def reap(self, limit: int) -> list[Requeued]:
        """Expired leases back into circulation."""
        now = self.clock()
        requeued: list[Requeued] = []
        for id in sorted(self._rows):
            row = self._rows[id]
            record = row.record
            expired = record.state is State.PROCESSING and record.locked_until is not None and record.locked_until < now
            if len(requeued) < limit and expired and row.locked is None:
                row.record = replace(
                    record,
                    state=State.PENDING,
                    locked_by=None,
                    locked_until=None,
                    available_at=now,
                    expired_leases=min(record.expired_leases, 2**31 - 2) + 1,
                    updated_at=now,
                )
                requeued.append(Requeued(id, record.topic))
        return requeued

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        """One batch of old terminal jobs deleted, oldest first."""
        before = self.clock() - age
        old = [row for row in self._rows.values() if row.record.state.terminal and row.record.updated_at < before]
        old = sorted((row for row in old if row.locked is None), key=lambda row: row.record.updated_at)[:limit]
        for row in old:
            del self._rows[row.record.id]
            self._keys.pop((row.record.topic, row.record.idempotency_key), None)
        return [row.record.topic for row in old]

    async def census(self, topics: Sequence[str]) -> Census:
        """Counts, all of them exact."""
        now, oldest = self.clock(), dict.fromkeys(topics, 0.0)
        counts = Counter((row.record.topic, row.record.state) for row in self._rows.values())
        for row in self._rows.values():
            record = row.record
            if record.state in WAITING and record.available_at <= now:
                age = (now - record.available_at).total_seconds()
                oldest[record.topic] = max(oldest.get(record.topic, 0.0), age)
        suspects = Counter(dict.fromkeys(topics, 0))
        suspects.update(
            row.record.topic
            for row in self._rows.values()
            if row.record.state is State.PROCESSING and row.record.expired_leases >= SUSPECT
        )
        depths = [Depth(topic, state, count, True) for (topic, state), count in counts.items()]
        return Census(depths, oldest, dict(suspects))

    async def announce(self, presence: Presence, forget: timedelta) -> None:
        """One entry for each engine; those that were not heard of for long go."""
        now = self.clock()
        self._workers = {name: said for name, said in self._workers.items() if said[1] >= now - forget}
        self._workers[presence.name] = (presence, now)

    async def withdraw(self, worker: str) -> None:
        """The entry is gone."""
        self._workers.pop(worker, None)

    async def sample(self, samples: Sequence[Sample], elapsed: float) -> None:
        """Charts are not drawn from memory: nothing is kept."""

    async def find(self, id: UUID) -> JobRecord | None:
        """A job's row as it is now."""
        row = self._rows.get(id)
        return None if row is None else row.record

    # --- what transactions and the renewer need ---

    def apply(self, tx: MemoryTx) -> None:
        """Write what a transaction staged."""
        self._rows.update(tx.inserted)
        for id, record in tx.updated.items():
            self._rows[id].record = record

    def forget(self, tx: MemoryTx) -> None:
        """Release what a transaction holds: its row locks, and the keys of rows that it never committed."""
        self._transactions.discard(tx)
        for row in self._rows.values():
            if row.locked is tx:
                row.locked = None
            row.fenced.discard(tx)
        for row in tx.inserted.values():
            if row.record.id not in self._rows:
                self._keys.pop((row.record.topic, row.record.idempotency_key), None)

    def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Renew leases; a locked row is neither renewed nor lost."""
        renewed, lost = [], []
        for hold in holds:
            row = self._rows.get(hold.id)
            if row is None or not self._holds(row.record, worker, hold.token):
                lost.append(hold)
            elif row.locked is None:
                assert row.record.locked_until is not None
                row.record = replace(row.record, locked_until=max(row.record.locked_until, self.clock() + lease))
                renewed.append(hold)
        return Renewal(renewed, lost)

    # --- rows ---

    def _new_row(self, number: int, of: int, job: Job) -> _Row:
        now = self.clock()
        try:
            source = encode(job.payload, self._max_payload)
        except PayloadError as error:
            if of == 1:
                raise
            raise PayloadError(text("job.of_many", number=number, problem=str(error)), error.place) from None
        record = JobRecord(
            id=job.id,
            topic=str(job.topic),
            payload=decode(source),
            state=State.PENDING,
            priority=job.priority,
            attempts=0,
            max_attempts=job.max_attempts,
            claim_seq=0,
            expired_leases=0,
            idempotency_key=job.idempotency_key,
            available_at=job.available_at or now,
            locked_by=None,
            locked_until=None,
            last_error=None,
            failures=(),
            tags=job.tags,
            metadata=None if job.metadata is None else json.loads(encode(dict(job.metadata))),
            created_at=now,
            updated_at=now,
            concurrency_key=job.concurrency_key,
        )
        return _Row(record, source)

    async def _insert(self, tx: MemoryTx, row: _Row) -> Enqueued:
        id, key = row.record.id, (row.record.topic, row.record.idempotency_key)
        while rival := next((each for each in self._transactions if each is not tx and id in each.inserted), None):
            await rival.ended.wait()
        if id in self._rows or id in tx.inserted:
            return Enqueued(id, True)
        while row.record.idempotency_key and (found := self._keys.get(key)) is not None:
            if found in self._rows or found in tx.inserted:
                return Enqueued(found, False)
            rival = next(each for each in self._transactions if found in each.inserted)
            await rival.ended.wait()
        tx.inserted[id] = row
        if row.record.idempotency_key:
            self._keys[key] = id
        return Enqueued(id, True)

    def _locked(self, id: UUID) -> bool:
        row = self._rows.get(id)
        return row is not None and row.locked is not None

    async def _unlocked(self, id: UUID) -> _Row | None:
        """The row, once no transaction has it locked."""
        while (row := self._rows.get(id)) is not None and row.locked is not None:
            await row.locked.ended.wait()
        return row

    def _mine(self, tx: Tx) -> MemoryTx:
        if not isinstance(tx, MemoryTx) or tx.store is not self or tx.ended.is_set():
            raise TxError(text("postgres.foreign_tx", type=type(tx).__qualname__))
        return tx

    def _holds(self, record: JobRecord, worker: str, token: int) -> bool:
        return (record.state, record.locked_by, record.claim_seq) == (State.PROCESSING, worker, token)

    def _ready(self, topics: Sequence[str], limit: int) -> Iterator[_Row]:
        left = limit
        for topic in topics:
            if self._steering.governs(topic):
                continue
            for row in self._ready_of(topic)[:left]:
                left -= 1
                yield row

    def _limited(self, topic: str) -> bool:
        waiting = any(row.record.topic == topic and row.record.state in WAITING for row in self._rows.values())
        return waiting and self._steering.governs(topic) and not self._steering.of(topic).paused

    def _ready_of(self, topic: str) -> list[_Row]:
        """The ready jobs of a topic that nobody has locked, in their order."""
        now = self.clock()
        ready = [
            row
            for row in self._rows.values()
            if row.record.topic == topic
            and row.record.state in WAITING
            and row.record.available_at <= now
            and row.locked is None
            and not row.fenced
        ]
        ready.sort(key=lambda row: (row.record.priority, row.record.available_at, row.record.id))
        return ready

    def _take(self, row: _Row, worker: str, lease: timedelta) -> Taken:
        now, before = self.clock(), row.record
        row.record = after = replace(
            before,
            state=State.PROCESSING,
            attempts=min(before.attempts, 2**31 - 2) + 1,
            claim_seq=before.claim_seq + 1,
            locked_by=worker,
            locked_until=now + lease,
            updated_at=now,
        )
        assert after.locked_until is not None
        waited = max((now - before.available_at).total_seconds(), 0.0)
        return Taken(
            after.id,
            after.topic,
            row.source,
            after.attempts,
            after.claim_seq,
            after.locked_until,
            after.max_attempts,
            waited,
            after.expired_leases,
            None if after.metadata is None else encode(dict(after.metadata)),
        )

    def _after(self, record: JobRecord, outcome: Outcome) -> JobRecord:
        """The row once the outcome is written."""
        now = self.clock()
        waits = outcome.state in WAITING
        failures = record.failures
        if outcome.error is not None and outcome.state in (State.FAILED, State.DEAD):
            failure = Failure(record.attempts, now, record.locked_by or "", outcome.error[:500])
            failures = (*failures, failure)[-MAX_FAILURES:]
        return replace(
            record,
            state=outcome.state,
            attempts=max(record.attempts - outcome.refund, 0),
            available_at=record.available_at if outcome.delay is None else now + timedelta(seconds=outcome.delay),
            locked_by=None if waits else record.locked_by,
            locked_until=None if waits else record.locked_until,
            last_error=record.last_error if outcome.error is None else outcome.error,
            failures=failures,
            result=record.result if outcome.result is None else decode(outcome.result),
            updated_at=now,
        )


class _MemoryRenewer:
    """Renews without a connection."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Renew leases."""
        return self._store.renew(worker, holds, lease)

    async def close(self) -> None:
        """Nothing to let go of."""


__all__ = ["MemoryStore", "MemoryTx"]
