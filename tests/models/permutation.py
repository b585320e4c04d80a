"""Two transactions on one job, their steps in every order; what comes out has to be what some serial order gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, LiteralString, NamedTuple

import psycopg
from tests.models.operation import (
    JOB,
    JOB_VERBS,
    KEY,
    MEETINGS,
    OPERATIONS,
    SCENES,
    TICK,
    Operation,
    SessionStore,
    World,
)
from tests.models.protocol import Row

from brooq.postgres.statement import Statements, statements

TRIES = 5
PAIRS = [(one, two) for number, one in enumerate(JOB_VERBS) for two in JOB_VERBS[number:]] + [
    (one, two) for one, others in MEETINGS.items() for two in others
]
LIMITED = "claim_limited"
CLEAR: tuple[LiteralString, ...] = ("delete from job", "delete from brooq_topic", "delete from brooq_schedule")
SCHEDULE = """
insert into brooq_schedule (name, topic, cron, timezone, next_at) values ('s', 't', '* * * * *', 'UTC', %s)
"""
PREPARE = """
insert into job (id, topic, idempotency_key, state, attempts, claim_seq, locked_by, locked_until, available_at, updated_at)
values (%(id)s, 't', %(key)s, %(state)s, %(attempts)s, %(claim_seq)s, %(owner)s, now() + make_interval(secs => %(until)s),
        now() + make_interval(secs => %(available)s), now() + make_interval(secs => %(updated)s))
"""
LOOK = """
select coalesce((
           select concat_ws(' ', state, 'attempts', attempts, 'claim', claim_seq, 'owner', coalesce(locked_by, '-'), 'lease',
                            case when locked_until is null then '-' when locked_until > now() then 'valid' else 'over' end,
                            'expired', expired_leases)
           from job where id = '00000000-0000-0000-0000-000000000001'), 'gone')
       || case when exists (select 1 from job where idempotency_key = 'k'
                            and id <> '00000000-0000-0000-0000-000000000001') then ', another' else '' end
       || case when exists (select 1 from job where idempotency_key = 'child') then ', child' else '' end
       || case when exists (select 1 from brooq_topic where paused_at is not null) then ', paused' else '' end
       || case when exists (select 1 from brooq_schedule where last_at is not null) then ', fired' else '' end
"""
"""The whole table in one line."""
BLOCKED = "select cardinality(pg_blocking_pids(%s)) > 0"
Order = tuple[int, ...]
"""The session of each step."""


class Result(NamedTuple):
    """What both sessions were answered, what is in the table afterwards, and which steps had to wait."""

    answers: tuple[str, str]
    table: str
    waited: tuple[str, ...]


def told(world: World) -> str:
    """A world of the rules in the words of LOOK."""
    row = world.job
    line = "gone"
    if row is not None:
        lease = "-" if row.until is None else "valid" if row.until > 0 else "over"
        line = (
            f"{row.state} attempts {row.attempts} claim {row.claim_seq} owner {row.owner or '-'} lease {lease} "
            f"expired {row.expired}"
        )
    more = {"another": world.another, "child": world.child, "paused": world.paused, "fired": world.fired}
    return ", ".join([line, *(word for word, true in more.items() if true)])


def orders(pair: tuple[str, str]) -> Iterator[Order]:
    """Every order of the steps of two sessions: begin, statements, commit."""
    lengths = [len(OPERATIONS[name].steps) + 2 for name in pair]
    for firsts in combinations(range(sum(lengths)), lengths[0]):
        yield tuple(0 if place in firsts else 1 for place in range(sum(lengths)))


def overlap(order: Order) -> bool:
    """Whether one session begins before the other has ended."""
    return list(order) not in (sorted(order), sorted(order, reverse=True))


def allowed(pair: tuple[str, str], scene: Row, order: Order) -> set[tuple[tuple[str, str], str]]:
    """Answers and table of both serial orders; of transactions that overlap, one may pass over what the other has
    locked, or had not yet committed when it looked."""
    found = set()
    serial = [(order[0], 1 - order[0])] if not overlap(order) else [(0, 1), (1, 0)]
    for sequence in serial:
        passes = [(False, True) if overlap(order) and OPERATIONS[name].skips else (False,) for name in pair]
        for skips in product(*passes):
            world, answers = World(scene, limited=LIMITED in pair), ["", ""]
            for session in sequence:
                answers[session], world = OPERATIONS[pair[session]].rule(world, skips[session])
            found.add(((answers[0], answers[1]), told(world)))
    return found


@dataclass
class Session:
    """One of the two: where it is in its steps, and what it was answered."""

    connection: psycopg.AsyncConnection[Any]
    number: int
    operation: Operation
    texts: Statements
    done: int = 0
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        """With a store on its connection."""
        self.store = SessionStore(self.connection, self.texts)
        self.answers: list[str] = []
        self.waited: list[int] = []

    async def step(self) -> None:
        """The next step."""
        number, self.done = self.done, self.done + 1
        if number == 0:
            await self.connection.execute("begin isolation level read committed")
        elif number <= len(self.operation.steps):
            self.answers.append(await self.operation.steps[number - 1](self.store, self.number, self.answers))
        else:
            await self.connection.execute("commit")


class Driver:
    """Runs permutations: a session for each side, and one beside them that prepares, looks, and sees who waits."""

    def __init__(self, sides: list[psycopg.AsyncConnection[Any]], beside: psycopg.AsyncConnection[Any]) -> None:
        """Connections in autocommit. The statements are the shipped ones; a test may put others in their place."""
        self._sides, self._beside = sides, beside
        shipped = statements("public")
        # A claim within limits does not wait long for its topic; here it waits until the other side has had its turn.
        self.texts = replace(shipped, lock_topic=shipped.lock_topic.replace("'200ms'", "'10s'"))

    async def run(self, pair: tuple[str, str], scene: Row, order: Order) -> Result | None:
        """One permutation; None when it cannot be: a session would have to go on while it waits."""
        for _ in range(TRIES):
            try:
                return await self._run(pair, scene, order)
            except psycopg.errors.LockNotAvailable:
                continue  # This machine stood still for longer than an exchange waits for a row.
            finally:
                for side in self._sides:
                    await side.rollback()
        raise TimeoutError(f"{pair} {order}: no lock within {TRIES} tries")

    async def _run(self, pair: tuple[str, str], scene: Row, order: Order) -> Result | None:
        await self.prepare(scene, pair)
        sessions = [
            Session(side, number, OPERATIONS[pair[number]], self.texts) for number, side in enumerate(self._sides)
        ]
        try:
            for number in order:
                session = sessions[number]
                if session.task is not None:
                    return None
                session.task = asyncio.ensure_future(session.step())
                for each in (session, sessions[1 - number]):
                    await self._settle_down(each)
        finally:
            await self._end(sessions)
        answers = tuple(", ".join(session.answers) for session in sessions)
        assert len(answers) == 2
        waited = tuple(f"{pair[each.number]} {each.number + 1}.{step}" for each in sessions for step in each.waited)
        return Result((answers[0], answers[1]), await self.look(), waited)

    async def _settle_down(self, session: Session) -> None:
        """Until the step is done, or waits for a lock."""
        while (task := session.task) is not None:
            await asyncio.wait([task], timeout=0.002)
            if task.done():
                session.task = None
                task.result()
            elif await self._blocked(session):
                if session.done - 1 not in session.waited:
                    session.waited.append(session.done - 1)
                return

    async def _blocked(self, session: Session) -> bool:
        cursor = await self._beside.execute(BLOCKED, [session.connection.info.backend_pid])
        ((blocked,),) = await cursor.fetchall()
        return bool(blocked)

    async def _end(self, sessions: list[Session]) -> None:
        """Let go of whoever waits: the other side's transaction is rolled back first."""
        for session in sorted(sessions, key=lambda each: each.task is not None):
            if session.task is not None:
                await asyncio.wait([session.task])
                session.task.exception()
            if session.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                await session.connection.execute("rollback")

    async def prepare(self, scene: Row, pair: tuple[str, str]) -> None:
        """The table with the one job; limits and a schedule where they are needed."""
        for table in CLEAR:
            await self._beside.execute(table)
        if LIMITED in pair:
            await self._beside.execute("insert into brooq_topic (topic, max_running) values ('t', 1)")
        if "fire" in pair:
            await self._beside.execute(SCHEDULE, [TICK])
        await self._beside.execute(PREPARE, scene._asdict() | {"id": JOB, "key": KEY, "state": str(scene.state)})

    async def look(self) -> str:
        """The table in one line."""
        ((line,),) = await (await self._beside.execute(LOOK)).fetchall()
        return str(line)


@asynccontextmanager
async def driver(dsn: str) -> AsyncIterator[Driver]:
    """A driver on a database."""
    connect = psycopg.AsyncConnection.connect
    async with (
        await connect(dsn, autocommit=True) as one,
        await connect(dsn, autocommit=True) as two,
        await connect(dsn, autocommit=True) as beside,
    ):
        yield Driver([one, two], beside)


async def outcomes(found: Driver, pair: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Every permutation of a pair in every scene: what came out, a line each kind, and what no serial order gives."""
    lines, wrong = [], []
    for name, scene in SCENES.items():
        kinds: dict[Result | None, list[str]] = {}
        for order in orders(pair):
            result = await found.run(pair, scene, order)
            kinds.setdefault(result, []).append("".join(str(each + 1) for each in order))
            if result is not None and (result.answers, result.table) not in allowed(pair, scene, order):
                wrong.append(f"{name} {order}: {result}")
        lines.append(f"{name}: {pair[0]} (1) and {pair[1]} (2)")
        for result, taken in kinds.items():
            if result is None:
                lines.append("  cannot be, one would go on while it waits")
            else:
                waits = f"; waits: {', '.join(result.waited)}" if result.waited else ""
                lines.append(f"  {result.answers[0]} | {result.answers[1]} -> {result.table}{waits}")
            lines.append(f"    {' '.join(taken)}")
    return lines, wrong
