"""The invariants G4, each with the guard that keeps it: without its guard the violation is there, with it it is not.

A guard in a statement is taken out of a copy of the statement's text; one in the schema is dropped in a transaction
that is rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql
from tests.database import Server
from tests.store_contract.place import HOUR, LEASE, WORKER, Place, PostgresGround, database, now

from brooq import Job, State, StoreRefused
from brooq.engine.outcome import Outcome
from brooq.engine.store import Taken
from brooq.postgres import PostgresStore
from brooq.postgres.statement import Statements, statements

pytestmark = pytest.mark.asyncio(loop_scope="session")

INT_MAX = 2**31 - 1
Violation = Callable[[Place], Awaitable[bool]]


@pytest.fixture(scope="module")
def invariant_dsn(postgres: Server) -> Iterator[str]:
    with postgres.database(migrated=True) as dsn:
        yield dsn


@pytest_asyncio.fixture(loop_scope="session")
async def place(invariant_dsn: str) -> AsyncIterator[Place]:
    async with database(invariant_dsn) as found:
        assert isinstance(found.ground, PostgresGround)
        await found.ground.execute("delete from job")
        yield found


# --- what would be seen if a guard were not there ---


async def finality_broken_by_exchange(place: Place) -> bool:
    taken = await place.take()
    assert await place.write(Outcome(taken.id, taken.token, State.DONE))
    await place.write(Outcome(taken.id, taken.token, State.FAILED, "late", 0.0))
    return (await place.row(taken.id)).state is not State.DONE


async def finality_broken_by_settle(place: Place) -> bool:
    taken = await place.take()
    assert await place.write(Outcome(taken.id, taken.token, State.DONE))
    await place.settle(Outcome(taken.id, taken.token, State.FAILED, "late", 0.0))
    return (await place.row(taken.id)).state is not State.DONE


async def terminal_touched_by_a_renewal(place: Place) -> bool:
    taken = await place.take()
    assert await place.write(Outcome(taken.id, taken.token, State.DONE))
    before = await place.row(taken.id)
    await place.renew(taken.hold)
    return await place.row(taken.id) != before


async def finality_broken_by_the_reaper(place: Place) -> bool:
    id = await place.terminal()
    await place.expire(id)
    await place.store.reap(10)
    return (await place.row(id)).state is not State.DONE


async def finality_broken_by_cancel(place: Place) -> bool:
    id = await place.terminal()
    await place.store.cancel(id)
    return (await place.row(id)).state is not State.DONE


async def foreign_outcome_by_exchange(place: Place) -> bool:
    taken = await place.take()
    return await place.write(Outcome(taken.id, taken.token, State.DONE), worker="another")


async def foreign_outcome_by_settle(place: Place) -> bool:
    taken = await place.take()
    return await place.settle(Outcome(taken.id, taken.token, State.DONE), worker="another")


async def renewal_of_another_worker(place: Place) -> bool:
    taken = await place.take()
    await place.renew(taken.hold, worker="another", lease=HOUR)
    return (await place.row(taken.id)).locked_until != taken.until


async def two_claims(place: Place) -> tuple[Taken, Taken]:
    """An old claim and a new one of the same job by the same worker."""
    old = await place.take()
    await place.expire(old.id)
    assert len(await place.store.reap(1)) == 1
    (new,) = await place.claim()
    return old, new


async def stale_outcome_by_exchange(place: Place) -> bool:
    old, _ = await two_claims(place)
    await place.store.exchange(WORKER, [Outcome(old.id, old.token, State.DONE)], [], 0, LEASE)
    return (await place.row(old.id)).state is State.DONE


async def stale_outcome_by_settle(place: Place) -> bool:
    old, _ = await two_claims(place)
    return await place.settle(Outcome(old.id, old.token, State.DONE))


async def stale_renewal(place: Place) -> bool:
    old, new = await two_claims(place)
    await place.renew(old.hold, lease=HOUR)
    return (await place.row(new.id)).locked_until != new.until


async def claims_of_one_job_share_a_fence(place: Place) -> bool:
    old, new = await two_claims(place)
    return old.token == new.token


async def fresh_lease_reaped(place: Place) -> bool:
    await place.take()
    return bool(await place.store.reap(10))


async def expiry_not_counted(place: Place) -> bool:
    old, _ = await two_claims(place)
    return (await place.row(old.id)).expired_leases != 1


async def held_job_claimed_again(place: Place) -> bool:
    await place.take()
    return bool(await place.claim(worker="another"))


async def future_job_claimed(place: Place) -> bool:
    await place.job(available_at=now() + HOUR)
    return bool(await place.claim())


async def foreign_job_claimed(place: Place) -> bool:
    await place.job("foreign")
    await place.job("t")  # a topic without a waiting job is not looked into at all
    return any(taken.topic == "foreign" for taken in await place.claim())


async def more_claimed_than_asked(place: Place) -> bool:
    await place.enqueue(*(Job("t", n) for n in range(5)))
    return len(await place.claim(2)) > 2


async def attempt_not_spent_at_the_claim(place: Place) -> bool:
    return (await place.row((await place.take()).id)).attempts != 1


async def claim_fails_at_the_top_of_the_integer(place: Place) -> bool:
    await place.alter(await place.job(), attempts=INT_MAX)
    try:
        await place.claim()
    except StoreRefused:
        return True
    return False


async def zombie_commits_beside_a_new_claim(place: Place) -> bool:
    """A consumer's transaction was told that its claim is held, and is open while the job is claimed again."""
    taken = await place.take()
    tx = await place.begin()
    assert await place.store.assert_held(tx, taken.hold)
    await place.expire(taken.id)
    await place.store.reap(10)
    claimed = await place.claim(worker="another")
    await tx.commit()
    return bool(claimed)


async def claim_waits_for_a_rival(place: Place) -> bool:
    """A claim whose snapshot still shows a job ready that another claim has just taken."""
    assert isinstance(place.ground, PostgresGround)
    assert isinstance(place.store, PostgresStore)
    await place.job()
    async with (
        await psycopg.AsyncConnection.connect(place.ground.dsn) as rival,
        psycopg.AsyncRawCursor(rival) as cursor,
    ):
        await cursor.execute(
            statements("public").exchange, ["rival", [], [], [], [], [], [], ["t"], 10, LEASE, [], [], [], [], []]
        )
        assert len(await cursor.fetchall()) == 2  # the job, and the summary
        task = asyncio.ensure_future(place.claim())
        waits = await waits_for_a_lock(place.ground, task)
        await rival.commit()
        await task
        return waits


async def waits_for_a_lock(ground: PostgresGround, task: asyncio.Task[Any]) -> bool:
    """Whether the task is seen waiting before it is done."""
    waiting = asyncio.ensure_future(ground.blocked(task))
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=10)
    if waiting.done() and waiting.exception() is None:
        return True
    await asyncio.wait([waiting])
    return waiting.exception() is None


async def frozen_row_stops_the_reaper(place: Place) -> bool:
    assert isinstance(place.ground, PostgresGround)
    taken = await place.take()
    await place.expire(taken.id)
    async with place.ground.lock(taken.id):
        task = asyncio.ensure_future(place.store.reap(10))
        waits = await waits_for_a_lock(place.ground, task)
    await task
    return waits


async def active_job_pruned(place: Place) -> bool:
    await place.alter(await place.job(), updated_at=now() - 2 * HOUR)
    return bool(await place.store.prune(HOUR, 10))


async def young_job_pruned(place: Place) -> bool:
    await place.terminal()
    return bool(await place.store.prune(HOUR, 10))


async def more_pruned_than_asked(place: Place) -> bool:
    for _ in range(3):
        await place.alter(await place.terminal(), updated_at=now() - 2 * HOUR)
    return len(await place.store.prune(HOUR, 1)) > 1


async def more_reaped_than_asked(place: Place) -> bool:
    for _ in range(3):
        await place.expire((await place.take()).id)
    return len(await place.store.reap(1)) > 1


async def duplicate_breaks_the_transaction(place: Place) -> bool:
    return await _breaks(place, [Job("t", None, "k")])


async def duplicate_among_others_breaks_the_transaction(place: Place) -> bool:
    return await _breaks(place, [Job("t", None, "k"), Job("t")])


async def _breaks(place: Place, jobs: list[Job]) -> bool:
    await place.job(idempotency_key="k")
    tx = await place.begin()
    try:
        await place.store.enqueue(tx, jobs)
        await place.store.enqueue(tx, [Job("t")])
    except Exception:
        await tx.rollback()
        return True
    await tx.commit()
    return False


@dataclass(frozen=True)
class Guard:
    """A piece of a statement, what it is replaced by, and what is seen then. `$n::type` keeps a parameter's type known."""

    invariant: str
    statement: str
    text: str
    instead: str
    violation: Violation


HELD = "job.state is not distinct from 'processing' and"
OUTCOME = HELD + " job.locked_by = $1 and job.claim_seq = outcome.token"
HOLD = HELD + " job.locked_by = $1 and job.claim_seq = held.token\n    order"
SETTLE = "state = 'processing' and locked_by = $1::text and claim_seq = $3::bigint"

CLAIMS: list[tuple[str, str, str, Violation]] = [
    ("G5", "claim_seq = job.claim_seq + 1,", "", claims_of_one_job_share_a_fence),
    ("G4.2", "skip locked", "", claim_waits_for_a_rival),
    ("G5", "for update skip locked", "for no key update skip locked", zombie_commits_beside_a_new_claim),
    ("G4.2", "and job.state in ('pending', 'failed')\n", "\n", held_job_claimed_again),
    ("G4.10", "and job.available_at <= now()", "", future_job_claimed),
    ("G4.6", "attempts = least(job.attempts, 2147483646) + 1,", "", attempt_not_spent_at_the_claim),
    ("G4.6", "least(job.attempts, 2147483646)", "job.attempts", claim_fails_at_the_top_of_the_integer),
]  # fmt: skip
"""Those that both statements have that claim: `exchange` for several topics, `claim_topic` for one."""

GUARDS = [
    Guard("G4.3", "exchange", OUTCOME, OUTCOME.replace(HELD, ""), finality_broken_by_exchange),
    Guard("G4.3", "settle", SETTLE, SETTLE.replace("state = 'processing' and", ""), finality_broken_by_settle),
    Guard("G4.3", "renew", HOLD, HOLD.replace(HELD, ""), terminal_touched_by_a_renewal),
    Guard("G4.3", "reap", "state = 'processing' and", "", finality_broken_by_the_reaper),
    Guard("G4.3", "cancel", "found.state in ('pending', 'failed', 'processing')", "true", finality_broken_by_cancel),
    Guard("G5", "exchange", OUTCOME, OUTCOME.replace("and job.locked_by = $1", ""), foreign_outcome_by_exchange),
    Guard("G5", "settle", SETTLE, SETTLE.replace("locked_by = $1::text", "$1::text <> ''"), foreign_outcome_by_settle),
    Guard("G5", "renew", HOLD, HOLD.replace("and job.locked_by = $1", ""), renewal_of_another_worker),
    Guard("G5", "exchange", OUTCOME, OUTCOME.replace("and job.claim_seq = outcome.token", ""), stale_outcome_by_exchange),
    Guard("G5", "settle", SETTLE, SETTLE.replace("claim_seq = $3::bigint", "$3::bigint > 0"), stale_outcome_by_settle),
    Guard("G5", "renew", HOLD, HOLD.replace("and job.claim_seq = held.token", ""), stale_renewal),
    *(Guard(invariant, "exchange", text, instead, seen) for invariant, text, instead, seen in CLAIMS),
    Guard("K5", "exchange", "job.topic = probe.topic", "true", foreign_job_claimed),
    Guard("C1", "exchange", "limit (select $9::int)", "limit (select $9::int + 100)", more_claimed_than_asked),
    *(Guard(invariant, "claim_topic", text, instead, seen) for invariant, text, instead, seen in CLAIMS),
    Guard("K5", "claim_topic", "where job.topic = (select $2::text)\n          and job.priority", "where job.priority",
          foreign_job_claimed),
    Guard("C1", "claim_topic", "limit (select $3::int)", "limit (select $3::int + 100)", more_claimed_than_asked),
    Guard("G4.7", "reap", "and locked_until < now()", "", fresh_lease_reaped),
    Guard("G4.7", "reap", "expired_leases = least(expired_leases, 2147483646) + 1,", "", expiry_not_counted),
    Guard("D3", "reap", "skip locked", "", frozen_row_stops_the_reaper),
    Guard("D15", "reap", "limit $1", "limit $1 + 100", more_reaped_than_asked),
    Guard("R2", "prune", "state in ('done', 'dead', 'canceled') and", "", active_job_pruned),
    Guard("R1", "prune", "updated_at < now() - $1::interval", "$1::interval is not null", young_job_pruned),
    Guard("R1", "prune", "limit $2", "limit $2 + 100", more_pruned_than_asked),
    Guard("G4.8", "enqueue_one", "on conflict do nothing", "", duplicate_breaks_the_transaction),
    Guard("G4.8", "enqueue", "on conflict do nothing", "", duplicate_among_others_breaks_the_transaction),
]  # fmt: skip


def weakened(guard: Guard) -> Statements:
    """The statements with one guard gone."""
    text = getattr(statements("public"), guard.statement)
    weak = text.replace(guard.text, guard.instead)
    assert weak != text, "the guard is not in the statement any more: this test has to follow it"
    return replace(statements("public"), **{guard.statement: weak})


@pytest.mark.parametrize(
    "guard", GUARDS, ids=lambda guard: f"{guard.invariant}-{guard.statement}-{guard.violation.__name__}"
)
async def test_a_guard_keeps_its_invariant_and_nothing_else_does(place: Place, guard: Guard) -> None:
    assert isinstance(place.store, PostgresStore)
    if guard.statement == "exchange":
        place.topics = ["t", "u"]  # one topic alone is claimed by a statement of its own
    assert not await guard.violation(place), "with the guard"
    assert isinstance(place.ground, PostgresGround)
    await place.ground.execute("delete from job")
    place.store._statements = weakened(guard)
    assert await guard.violation(place), "without the guard"


# --- the schema ---

ROWS: list[tuple[str, str, LiteralString, LiteralString]] = [
    ("G4.1", "job_lease_check", "topic, state", "'t', 'processing'"),
    ("G4.1", "job_lease_check", "topic, state, locked_by", "'t', 'processing', 'w'"),
    ("G4.1", "job_lease_check", "topic, state, locked_until", "'t', 'done', now()"),
    ("G4.1", "job_lease_check", "topic, state, locked_by, locked_until", "'t', 'pending', 'w', now()"),
    ("G4.1", "job_lease_check", "topic, state, locked_by, locked_until", "'t', 'failed', 'w', now()"),
    ("V2", "job_state_check", "topic, state", "'t', 'succeeded'"),
    ("V4", "job_topic_check", "topic", "'Not A Topic'"),
    ("V4", "job_topic_check", "topic", "repeat('a', 129)"),
    ("V4", "job_topic_check", "topic", "E'a\\n'"),
    ("G4.6", "job_attempts_check", "topic, attempts", "'t', -1"),
    ("G5", "job_attempts_check", "topic, claim_seq", "'t', -1"),
    ("K2", "job_attempts_check", "topic, max_attempts", "'t', 0"),
    ("E1", "job_priority_check", "topic, priority", "'t', 10"),
    ("E4", "job_key_check", "topic, idempotency_key", "'t', ''"),
    ("E4", "job_key_check", "topic, idempotency_key", "'t', repeat('я', 513)"),
]


@pytest.mark.parametrize(
    ("constraint", "columns", "values"),
    [row[1:] for row in ROWS],
    ids=[f"{row[0]}-{row[1]}-{row[3]}" for row in ROWS],
)
async def test_the_schema_refuses_what_its_constraint_forbids(
    invariant_dsn: str, constraint: str, columns: LiteralString, values: LiteralString
) -> None:
    insert = sql.SQL("insert into job ({}) values ({})").format(sql.SQL(columns), sql.SQL(values))
    with psycopg.connect(invariant_dsn) as connection:
        with pytest.raises(psycopg.errors.CheckViolation) as caught, connection.transaction():
            connection.execute(insert)
        assert caught.value.diag.constraint_name == constraint
        # It belongs to the table, or to the types of columns.
        for (place,) in connection.execute(
            "select case when conrelid <> 0 then 'table job' else 'domain ' || contypid::regtype end"
            " from pg_constraint where conname = %s",
            [constraint],
        ).fetchall():
            connection.execute(f"alter {place} drop constraint {constraint}".encode())
        assert connection.execute(insert).rowcount == 1, "no other constraint forbids it"
        connection.rollback()


async def test_one_key_is_one_row_because_of_its_index(invariant_dsn: str) -> None:
    """Invariant G4.8."""
    insert = "insert into job (topic, idempotency_key) values ('t', 'k')"
    with psycopg.connect(invariant_dsn) as connection:
        connection.execute("delete from job")  # whatever other tests have left
        connection.execute(insert)
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute(insert)
        connection.execute("insert into job (topic, idempotency_key) values ('other', 'k')")
        connection.execute("insert into job (topic) values ('t'), ('t')")
        connection.execute("drop index job_key")
        assert connection.execute(insert).rowcount == 1
        connection.rollback()


async def test_the_lease_of_the_last_claim_may_stay_on_a_terminal_row(place: Place) -> None:
    """Invariant G4.1, its exception."""
    taken = await place.take()
    assert await place.write(Outcome(taken.id, taken.token, State.DONE))
    row = await place.row(taken.id)
    assert (row.locked_by, row.locked_until) == (WORKER, taken.until)
    assert taken.until - row.created_at < LEASE + timedelta(minutes=1)
