"""The store on PostgreSQL: the engine's verbs, one statement each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from brooq.engine.outcome import Outcome
from brooq.engine.store import (
    Bell,
    Census,
    Exchange,
    Fate,
    Hold,
    LimitedClaim,
    Presence,
    Renewer,
    Requeued,
    Sample,
    Schedules,
)
from brooq.postgres import schedule as periodic
from brooq.postgres import steering
from brooq.postgres.bell import PostgresBell
from brooq.postgres.bulk import Parts, enqueue_alone
from brooq.postgres.census import read_census
from brooq.postgres.drivers import driver_of
from brooq.postgres.enqueue import SILENCE, answers, insert, prepare, rings
from brooq.postgres.limited import LimitedClaims
from brooq.postgres.link import Link
from brooq.postgres.marks import NO_MARKS, Marks
from brooq.postgres.migrate import LATEST
from brooq.postgres.record import to_cancellation, to_record, to_taken
from brooq.postgres.renewer import PostgresRenewer
from brooq.postgres.session import BEGIN, ISOLATION, Rows, Session
from brooq.postgres.statement import Statements, quoted, statements
from brooq.postgres.trouble import reads_only, translate
from brooq.postgres.tx import OwnTx, session_of
from brooq.vocabulary.error import (
    BrooqError,
    SchemaError,
)
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord, State
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES
from brooq.vocabulary.schedule import Schedule, ScheduleRecord
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx

if TYPE_CHECKING:
    import asyncpg

PATIENCE = 30.0
"""After how many seconds without an answer one of the engine's own connections is given up."""

CLAIM_OVER = "BQ001"
"""What brooq_assert_held raises."""

T = TypeVar("T")
Pool: TypeAlias = "AsyncConnectionPool[Any] | asyncpg.Pool[Any]"


class PostgresStore:
    """Jobs in a table of the consumer's database.

    `pool` is the consumer's, of psycopg or asyncpg, and decides the driver: producers' calls go through it, and it is
    neither opened nor closed here (T6). Beside it a running engine opens up to four connections of its own with the
    pool's parameters (two for claims and outcomes, one for leases, one for upkeep), so that handlers which hold the
    whole pool never cost a lease or an outcome.
    `schema` names where brooq's tables are; every statement is qualified with it, whatever search_path says.
    `max_payload` is the largest payload in bytes of JSON. `wakeups`: enqueues wake idle workers, which costs producers
    next to nothing; a worker listens over one connection more. False leaves it all to polling.
    """

    def __init__(
        self,
        pool: Pool,
        schema: str = "public",
        *,
        max_payload: int = MAX_BYTES,
        patience: float = PATIENCE,
        wakeups: bool = True,
    ) -> None:
        """Opens nothing. Raises ConfigError for an impossible schema name, TypeError for a pool of another driver."""
        self.pool = pool
        self.driver = driver_of(pool)
        self.schema = schema
        self.read_only = False
        """Whether the server only read when it was opened last."""
        self._max_payload = max_payload
        self._patience = patience
        self.wakeups = wakeups
        """Whether what makes jobs wakes idle workers."""
        self._aloud: bool | None = None
        self._statements: Statements = statements(schema)
        self._lanes: list[Link] = []
        self._free_lanes: list[Link] = []
        self._marks = Marks()
        self._limited = LimitedClaims()
        self._upkeep = Link(self.driver, patience)

    async def open(self) -> None:
        """Check that the database answers and its schema is the one this version needs (requirement M2)."""
        try:
            ((found, self.read_only),) = await self._on_upkeep(self._statements.version)
        except SchemaError:
            found = None
        if found is None:
            raise SchemaError(text("postgres.schema_missing", schema=quoted(self.schema)))
        if found != LATEST:
            key = "postgres.schema_older" if found < LATEST else "postgres.schema_newer"
            raise SchemaError(text(key, schema=quoted(self.schema), found=found, needed=LATEST))

    async def close(self) -> None:
        """Close the engine's own connections; the consumer's pool stays as it is. Whoever asks for something after that
        has new ones, and closes again."""
        links = [self._upkeep, *self._lanes]
        self._upkeep = Link(self.driver, self._patience)
        self._lanes, self._free_lanes = [], []
        for link in links:
            await link.close()

    async def begin(self) -> OwnTx:
        """A transaction on a connection of the pool, READ COMMITTED whatever the database's default."""
        own = await self._borrow()
        try:
            assert own.session is not None
            await own.session.execute(BEGIN)
        except self.driver.errors as error:
            await own.rollback()
            raise translate(error) from None
        except BaseException:
            await own.rollback()
            raise
        return own

    async def enqueue(self, tx: Tx | None, jobs: Iterable[Job]) -> list[Enqueued]:
        """Write the jobs. In the caller's transaction the driver's errors reach the caller unchanged."""
        if tx is None:
            parts = Parts(jobs, self._max_payload)
            if not parts.jobs:
                return []
            found = await enqueue_alone(self._lent, self.driver, self._statements, parts, wake=self.wakeups)
            return answers(parts.jobs, found)
        jobs = list(jobs)
        if not jobs:
            return []
        prepared = prepare(jobs, self._max_payload)
        told = rings(jobs) if self.wakeups else SILENCE
        try:
            return answers(jobs, await insert(session_of(tx), self._statements, prepared, told))
        except self.driver.errors as error:
            if isinstance(tx, OwnTx):
                raise await _of_own_tx(tx, error) from None
            raise

    @asynccontextmanager
    async def _lent(self, *, checked: bool = True, begins: bool = False) -> AsyncIterator[Session]:
        """A connection of the pool for one statement that is a transaction of its own, without a round trip for BEGIN
        and another for COMMIT; in an explicit READ COMMITTED one where that is not the database's default. `begins`:
        whoever asked begins and commits."""
        own = await self._borrow(checked=checked)
        session = own.session
        assert session is not None
        try:
            if self._aloud is None and not begins:
                rows = await session.fetch(ISOLATION)
                self._aloud = rows[0][0] != "read committed"
            if self._aloud and not begins:
                await session.execute(BEGIN)
                yield session
                await session.commit()
            else:
                yield session
            await own.give_back(untouched=True)
        except self.driver.errors as error:
            if reads_only(error):
                await session.close()
            raise
        finally:
            await own.rollback()

    async def _borrow(self, *, checked: bool = True) -> OwnTx:
        """A connection of the pool. The end of what is answered gives it back as it was lent."""
        try:
            return OwnTx(await self.driver.borrow(checked=checked), self.driver)
        except self.driver.errors as error:
            raise translate(error) from None

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Outcomes and the next claim in one statement, on a connection of the engine's own."""
        # Outcomes alone have a lane of their own, which has nothing to do with where claims go on.
        marks = self._marks.columns() if limit else NO_MARKS
        if len(topics) == 1 and limit and not outcomes and marks is NO_MARKS:
            statement, parameters = self._statements.claim_topic, [worker, topics[0], limit, lease]
        else:
            *columns, results = _columns(outcomes)
            statement = self._statements.exchange
            parameters = [worker, *columns, list(topics), limit, lease, *marks, results]

        async def work(session: Session) -> Rows:
            return await session.fetch(statement, parameters)

        rows = await self._on_lane(work, within=max(lease.total_seconds(), 5.0))
        _, written, limited, which, _, _, _, now, *_ = rows[-1]
        if written == len(outcomes):
            settled = [Hold._make((outcome.id, outcome.token)) for outcome in outcomes]  # a third of Hold(…)
        else:
            settled = [Hold(UUID(id), token) for id, token in json.loads(which or "[]")]
        rows = rows[:-1]
        if limit:
            self._marks.move(rows, full=len(rows) >= limit)
        return Exchange(settled, to_taken(rows, now, lease), limited.split(" ") if limited else [])

    async def claim_limited(self, worker: str, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """In a transaction of two statements, on a connection of the engine's own."""

        async def work(session: Session) -> Rows:
            return await self._limited.ask(session, self._statements, worker, topic, limit, lease)

        rows = await self._on_lane(work, within=max(lease.total_seconds(), 5.0), together=True)
        return self._limited.claimed(rows, topic, limit, lease)

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """One outcome inside a transaction."""
        parameters = [
            worker, outcome.id, outcome.token, str(outcome.state), outcome.error, outcome.delay, outcome.refund,
            outcome.result,
        ]  # fmt: skip
        try:
            return bool(await session_of(tx).fetch(self._statements.settle, parameters))
        except self.driver.errors as error:
            raise await _of_own_tx(tx, error) from None

    async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
        """Hints: what cannot be written now is not."""
        ids, tokens = [hold.id for hold in told], [hold.token for hold in told]
        await self._on_upkeep(self._statements.progress, worker, ids, tokens, list(told.values()))

    async def assert_held(self, tx: Tx, hold: Hold) -> bool:
        """In the consumer's transaction, whose other errors reach it unchanged."""
        try:
            await session_of(tx).fetch(self._statements.assert_held, [hold.id, hold.token])
        except self.driver.errors as error:
            if getattr(error, "sqlstate", None) == CLAIM_OVER:
                return False
            if isinstance(tx, OwnTx):
                raise await _of_own_tx(tx, error) from None
            raise
        return True

    async def ended(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord | None]:
        """Through the pool: it is a caller who waits."""
        rows = await self._through_pool(self._statements.ended, list(ids))
        return {row[0]: to_record(row) if State(row[3]).terminal else None for row in rows}

    async def fates(self, ids: Sequence[UUID]) -> dict[UUID, Fate]:
        """What the rows say now."""
        rows = await self._on_upkeep(self._statements.fates, list(ids))
        return {id: Fate(State(state), token, owner) for id, state, token, owner in rows}

    async def renewer(self) -> Renewer:
        """A renewer with a connection of its own in the running loop."""
        return PostgresRenewer(Link(self.driver, self._patience, pointed=True), self._statements)

    def bell(self, topics: Sequence[str]) -> Bell | None:
        """What enqueues of these topics ring; None where wake-ups are off, or statements may not be prepared (a pooler)."""
        if not self.wakeups or not self.driver.prepares or not topics:
            return None
        return PostgresBell(self.driver, self._statements, quoted(self.schema), topics)

    async def cancel(self, id: UUID) -> Cancellation:
        """Through the pool: it is a caller's request, and may wait for a lock on the row."""
        return to_cancellation(await self._through_pool(self._statements.cancel, id))

    async def pause(self, topic: str, by: str, reason: str | None = None) -> bool:
        """Through the pool, and until every claim under way has ended."""
        return await steering.pause(self._through_pool, self._statements, topic, by, reason)

    async def resume(self, topic: str, by: str, reason: str | None = None) -> bool:
        """Through the pool; idle workers are woken."""
        return await steering.resume(self._through_pool, self._statements, topic, by, reason, wake=self.wakeups)

    async def limit(self, topic: str, limits: Limits | None, by: str, reason: str | None = None) -> bool:
        """Through the pool, and until every claim under way has ended."""
        return await steering.limit(self._through_pool, self._statements, topic, limits, by, reason)

    async def declare(self, limits: Mapping[str, Limits | None]) -> None:
        """On the upkeep connection."""
        await steering.declare(self._on_upkeep, self._statements, limits)

    async def topics(self) -> list[TopicRecord]:
        """A read needs no transaction."""
        return await steering.topics(self._through_pool, self._statements)

    async def schedules(self, *, due: bool = False) -> Schedules:
        """What is due is asked by the scheduler, all of it by people."""
        return await periodic.schedules(self._on_upkeep if due else self._through_pool, self._statements, due=due)

    async def schedule(
        self, schedule: Schedule, next_at: datetime | None, by: str | None, reason: str | None = None
    ) -> bool:
        """By hand through the pool, from code as a worker starts."""
        return await periodic.schedule(
            self._on_upkeep if by is None else self._through_pool,
            self._statements,
            schedule,
            next_at,
            by,
            reason,
            max_payload=self._max_payload,
        )

    async def unschedule(self, name: str, by: str, reason: str | None = None) -> bool:
        """Take one away."""
        return bool(await self._through_pool(self._statements.unschedule, name, by, reason))

    async def hold_schedule(
        self, name: str, by: str, reason: str | None = None, *, paused: bool, next_at: datetime | None
    ) -> bool:
        """Pause one, or let it go on."""
        return bool(await self._through_pool(self._statements.hold_schedule, name, paused, by, reason, next_at))

    async def retire(self, topics: Sequence[str], names: Sequence[str]) -> list[str]:
        """Take away what code has given up."""
        return [name for (name,) in await self._on_upkeep(self._statements.retire, list(topics), list(names))]

    async def fire(
        self, schedule: ScheduleRecord, next_at: datetime | None, last_at: datetime | None, jobs: Sequence[Job]
    ) -> bool:
        """In one statement."""
        return await periodic.fire(
            self._on_upkeep, self._statements, schedule, next_at, last_at, jobs,
            max_payload=self._max_payload, wake=self.wakeups,
        )  # fmt: skip

    async def reap(self, limit: int) -> list[Requeued]:
        """Expired leases back into circulation."""
        return [Requeued(id, topic) for id, topic in await self._on_upkeep(self._statements.reap, limit)]

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        """One batch of old terminal jobs deleted."""
        return [topic for (topic,) in await self._on_upkeep(self._statements.prune, age, limit)]

    async def census(self, topics: Sequence[str]) -> Census:
        """Depths and ages at a bounded cost."""

        async def work(session: Session) -> Census:
            return await read_census(session, self._statements.census, topics)

        return await self._upkeep.run(work)

    async def announce(self, presence: Presence, forget: timedelta) -> None:
        """One row for each engine."""
        parameters = [
            presence.name, presence.host, presence.pid, presence.version, presence.uptime, presence.stopping,
            presence.slots, list(presence.topics), json.dumps(dict(presence.busy)), _running(presence), forget,
        ]  # fmt: skip
        await self._on_upkeep(self._statements.announce, *parameters)

    async def withdraw(self, worker: str) -> None:
        """The row is gone."""
        # Soon or never: an engine that stops does not wait for it.
        await self._upkeep.run(lambda session: session.fetch(self._statements.withdraw, [worker]), within=1.0)

    async def sample(self, samples: Sequence[Sample], elapsed: float) -> None:
        """One row for each topic and length of step."""
        columns = [list(column) for column in zip(*samples, strict=True)]
        await self._on_upkeep(self._statements.sample, *columns, elapsed)

    async def find(self, id: UUID) -> JobRecord | None:
        """A job's row; a read needs no transaction (T5)."""
        rows = await self._through_pool(self._statements.find, id)
        return to_record(rows[0]) if rows else None

    async def _through_pool(self, statement: str, *parameters: Any) -> Rows:
        """One statement for a caller, on a connection of the consumer's pool."""
        try:
            async with self._lent() as session:
                return await session.fetch(statement, parameters)
        except self.driver.errors as error:
            raise translate(error, writing=True) from None

    async def _on_upkeep(self, statement: str, *parameters: Any) -> Rows:
        """One statement for the engine itself; what it may have changed unheard, its next tick finds."""
        return await self._upkeep.run(lambda session: session.fetch(statement, parameters))

    async def _on_lane(self, work: Callable[[Session], Awaitable[T]], within: float, *, together: bool = False) -> T:
        """On whichever of the engine's lanes is free; as many are made as are used at one time."""
        if self._free_lanes:
            lane = self._free_lanes.pop()
        else:
            lane = Link(self.driver, self._patience, pointed=True)
            self._lanes.append(lane)
        try:
            return await lane.run(work, writing=True, within=within, together=together)
        finally:
            if lane in self._lanes:
                self._free_lanes.append(lane)


async def _of_own_tx(tx: Tx, error: Exception) -> BrooqError:
    """The engine's word for an error in a transaction that it opened itself."""
    if reads_only(error) and isinstance(tx, OwnTx) and tx.session is not None:
        await tx.session.close()
    return translate(error)


def _running(presence: Presence) -> str:
    return json.dumps([{**each._asdict(), "id": str(each.id)} for each in presence.running])


def _columns(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """The outcomes as arrays; a batch of plain successes is ids and tokens alone."""
    ids, tokens = [outcome.id for outcome in outcomes], [outcome.token for outcome in outcomes]
    if all(outcome.plain for outcome in outcomes):
        return [ids, tokens, [], [], [], [], []]
    return [
        ids,
        tokens,
        [str(outcome.state) for outcome in outcomes],
        [outcome.error for outcome in outcomes],
        [outcome.delay for outcome in outcomes],
        [outcome.refund for outcome in outcomes],
        [outcome.result for outcome in outcomes] if any(outcome.result for outcome in outcomes) else [],
    ]
