"""Planted bugs in the statements and in the schema: a piece of the real text is replaced, the rest is what is shipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from tests.planted.stage import HOUR, MOMENT, TOPIC, Bug, Plant, Stage

from brooq import Job, State
from brooq.engine.outcome import Outcome

STATE = "job.state is not distinct from 'processing' and "
FENCE = STATE + "job.locked_by = $1 and job.claim_seq = outcome.token"
SETTLE = "state = 'processing' and locked_by = $1::text and claim_seq = $3::bigint"
HELD = "job.state is not distinct from 'processing' and job.locked_by = $1 and job.claim_seq = held.token\n    order"
FORWARD = ("greatest(job.locked_until, now() + $4::interval)", "now() + $4::interval")
RAISED = "set_config('synchronous_commit', 'on', true)"
NOT_RAISED = "set_config('synchronous_commit', 'off', true)"


def weak(statement: str, *pieces: tuple[str, str]) -> Plant:
    """Replace pieces of one statement."""
    return lambda stage: stage.weaken(statement, *pieces)


def without(whole: str, *pieces: str) -> tuple[str, str]:
    """A guard without some of its conditions."""
    left = whole
    for piece in pieces:
        assert piece in left
        left = left.replace(piece, "")
    return whole, left


# --- outcomes ---


async def stale_outcome(stage: Stage) -> None:
    """The same worker lost the job and took it again; then its first handler ends."""
    old, new = await stage.retaken()
    await stage.end(old)
    await stage.end(new)


async def stale_closing(stage: Stage) -> None:
    old, new = await stage.retaken()
    await stage.close(old)
    await stage.close(new)


async def foreign_outcome(stage: Stage) -> None:
    """Another worker has the job by now."""
    old, new = await stage.retaken("w", "v")
    await stage.end(old)
    await stage.end(new, worker="v")


async def foreign_closing(stage: Stage) -> None:
    old, new = await stage.retaken("w", "v")
    await stage.close(old)
    await stage.close(new, worker="v")


async def outcome_twice(stage: Stage) -> None:
    """Sent again because the first answer was lost, with another result by then."""
    taken = await stage.take()
    assert await stage.end(taken)
    await stage.again(taken, State.FAILED)


async def closing_twice(stage: Stage) -> None:
    taken = await stage.take()
    assert await stage.close(taken)
    async with await stage.store.begin() as tx:
        await stage.store.settle(tx, "w", Outcome(taken.id, taken.token, State.FAILED, "late"))


async def canceled_while_running(stage: Stage) -> None:
    taken = await stage.take()
    await stage.store.cancel(taken.id)
    await stage.end(taken)


async def preserved(stage: Stage) -> None:
    """More is given back than was spent."""
    taken = await stage.take()
    await stage.end(taken, State.FAILED, signal="MustPreserveAttempt", refund=2)


async def failed_to_death(stage: Stage) -> None:
    taken = await stage.take(max_attempts=1)
    stage.max_attempts = 1
    await stage.end(taken, State.DEAD, signal="MustGiveUp")


async def acknowledged_outcome(stage: Stage) -> None:
    """The server crashes after it has acknowledged."""
    taken = await stage.take()
    await stage.hold_walwriter()
    assert await stage.end(taken)
    await stage.crash()


async def acknowledged_closing(stage: Stage) -> None:
    taken = await stage.take()
    await stage.hold_walwriter()
    assert await stage.close(taken)
    await stage.crash()


# --- claims ---


async def rivals(stage: Stage) -> None:
    """A claim looks at a row that another one has taken and not committed yet."""
    await stage.enqueue()
    async with (
        await psycopg.AsyncConnection.connect(stage.dsn) as rival,
        psycopg.AsyncRawCursor(rival) as cursor,
    ):
        nothing: list[list[Any]] = [[]] * 6
        await cursor.execute(
            stage.store._statements.exchange, ["rival", *nothing, [TOPIC], 1, HOUR, [], [], [], [], []]
        )
        assert len(await cursor.fetchall()) == 2  # the job, and the summary
        second = asyncio.ensure_future(stage.claim())
        await waiting_or_done(stage, second)
        await rival.commit()
        await second


async def waiting_or_done(stage: Stage, task: asyncio.Task[Any]) -> None:
    """Until the task has ended, or the server says that it waits for a lock."""
    query = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with await psycopg.AsyncConnection.connect(stage.dsn, autocommit=True) as connection:
        while not task.done() and not await (await connection.execute(query)).fetchone():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def held(stage: Stage) -> None:
    """Somebody looks for jobs while one is held."""
    await stage.take()
    await stage.claim("v")


async def claimed_twice(stage: Stage) -> None:
    _, new = await stage.retaken()
    await stage.end(new)


async def from_the_future(stage: Stage) -> None:
    await stage.enqueue(available_at=datetime.now(UTC) + HOUR)
    await stage.claim()


async def in_order(stage: Stage) -> None:
    stage.ordered = True
    for minutes in (3, 2, 1):
        await stage.enqueue(available_at=datetime.now(UTC) - timedelta(minutes=minutes))
    for _ in range(3):
        for taken in await stage.claim():
            await stage.end(taken)


async def by_priority(stage: Stage) -> None:
    stage.ordered = True
    for priority in (5, 0):
        await stage.enqueue(priority=priority)
    for _ in range(2):
        for taken in await stage.claim():
            await stage.end(taken)


# --- leases ---


async def stale_renewal(stage: Stage) -> None:
    """The lost handler still renews, for a shorter lease than its successor has."""
    old, _ = await stage.retaken()
    await stage.renew(old, lease=timedelta(minutes=1))


async def renewals_cross(stage: Stage) -> None:
    """The one that began first is written last."""
    taken = await stage.take()
    await stage.renew(taken, lease=2 * HOUR)
    await stage.renew(taken)


async def foreign_renewal(stage: Stage) -> None:
    old, _ = await stage.retaken("w", "v")
    await stage.renew(old, lease=timedelta(minutes=1))


async def late_renewal(stage: Stage) -> None:
    """The job is done."""
    taken = await stage.take()
    await stage.end(taken)
    await stage.renew(taken, lease=2 * HOUR)


async def renewal(stage: Stage) -> None:
    taken = await stage.take()
    await stage.renew(taken, lease=2 * HOUR)
    await stage.end(taken)


async def reaper_passes(stage: Stage) -> None:
    taken = await stage.take()
    await stage.store.reap(10)
    await stage.end(taken)


async def reaper_finds(stage: Stage) -> None:
    taken = await stage.take(lease=MOMENT)
    await stage.expired(taken.id)
    await stage.store.reap(10)


async def reaper_after_the_end(stage: Stage) -> None:
    taken = await stage.take(lease=MOMENT)
    await stage.expired(taken.id)
    await stage.end(taken)
    await stage.store.reap(10)


# --- keeping and deleting ---


async def retention(stage: Stage) -> None:
    """Everything is old enough, and one job waits for its next attempt."""
    stage.ttl = 0.0
    await stage.end(await stage.take())
    await stage.end(await stage.take(), State.FAILED)
    await stage.store.prune(timedelta(microseconds=1), 10)


async def young(stage: Stage) -> None:
    await stage.end(await stage.take())
    await stage.store.prune(HOUR, 10)


async def cancel_after_the_end(stage: Stage) -> None:
    taken = await stage.take()
    await stage.end(taken)
    await stage.store.cancel(taken.id)


async def cancel_waiting(stage: Stage) -> None:
    answer = await stage.enqueue()
    await stage.store.cancel(answer.id)


# --- enqueueing ---


async def same_key(stage: Stage) -> None:
    for _ in range(2):
        await stage.enqueue(idempotency_key="k")


async def acknowledged_job(stage: Stage) -> None:
    await stage.hold_walwriter()
    await stage.enqueue()
    await stage.crash()


async def rolled_back(stage: Stage) -> None:
    """The caller's transaction is rolled back, and the job with it."""
    job = Job(TOPIC)
    stage.producers.invoke(job)
    tx = await stage.store.begin()
    await stage.store.enqueue(tx, [job])
    await tx.rollback()
    stage.producers.fail(job)


async def commits_by_itself(stage: Stage) -> None:
    original = stage.store.enqueue

    async def enqueue(_: Any, jobs: Any) -> Any:
        return await original(None, jobs)

    stage.store.enqueue = enqueue  # type: ignore[method-assign, assignment]


async def answers_what_was_sent(stage: Stage) -> None:
    """A duplicate is acknowledged with an id that no row has."""
    stage.weaken("existing", ("job.id as found", "wanted.id as found"))


def async_commit(statement: str) -> Plant:
    """The commit is not made durable."""
    return weak(statement, (RAISED, NOT_RAISED))


def altered(*statements: Any) -> Plant:
    """Change the schema."""
    return lambda stage: stage.alter(*statements)


async def preserve_below_zero(stage: Stage) -> None:
    stage.weaken(
        "exchange",
        ("greatest(job.attempts - coalesce(outcome.refund, 0), 0)", "job.attempts - coalesce(outcome.refund, 0)"),
    )
    await stage.alter("alter domain brooq_job_count drop constraint job_attempts_check")


async def reaper_keeps_the_owner(stage: Stage) -> None:
    stage.weaken("reap", ("locked_by = null,\n    locked_until = null,", ""))
    await stage.alter("alter table job drop constraint job_lease_check")


async def written_round_the_audit(stage: Stage) -> None:
    """Somebody's tool switches triggers off."""
    original = stage.store.reap

    async def reap(limit: int) -> Any:
        await stage.alter(
            "set session_replication_role = replica",
            "update job set state = 'pending', locked_by = null, locked_until = null where locked_until < now()",
        )
        return await original(limit)

    stage.store.reap = reap  # type: ignore[method-assign]


async def done_jobs_are_tidied(stage: Stage) -> None:
    await stage.alter(
        "create function tidy() returns trigger language plpgsql as"
        " $$ begin delete from job where id = new.id and state = 'done'; return null; end $$",
        "create trigger tidy after update on job for each row execute function tidy()",
    )


def claims(statement: str, suffix: str = "") -> Iterator[Bug]:
    """What can be wrong with a claim, by either of the statements that claim."""
    for name, promise, schedule, *pieces in CLAIMS:
        yield Bug(f"{name}{suffix}", [promise], weak(statement, *pieces), schedule)


CLAIMS: tuple[tuple[Any, ...], ...] = (
    ("claim_without_recheck", "C3", rivals,
        ("for update skip locked", ""), ("select found.ctid", "select found.id"), ("select job.ctid", "select job.id"),
        ("job.ctid = any(array(select ctid from ready))", "job.id = any(array(select id from ready))")),
    ("claim_of_held_jobs", "C3", held,
        ("job.state in ('pending', 'failed')\n", "job.state in ('pending', 'failed', 'processing')\n")),
    ("claim_without_a_new_fence", "C4", claimed_twice, ("claim_seq = job.claim_seq + 1,", "")),
    ("claim_skips_a_fence", "C4", claimed_twice, ("job.claim_seq + 1", "job.claim_seq + 2")),
    ("claim_spends_no_attempt", "C9", claimed_twice, ("attempts = least(job.attempts, 2147483646) + 1,", "")),
    ("claim_of_the_future", "C15", from_the_future, ("and job.available_at <= now()", "")),
    ("claim_in_reverse_order", "C15", in_order,
        ("order by job.available_at, job.id", "order by job.available_at desc, job.id desc")),
)  # fmt: skip
"""Name, promise, schedule, and the pieces, which both statements have."""

BUGS = (
    Bug("exchange_guard_without_seq", ["C4", "C10"], weak("exchange", without(FENCE, " and job.claim_seq = outcome.token")),
        stale_outcome),
    Bug("exchange_guard_without_owner", ["C4", "C10"],
        weak("exchange", without(FENCE, " and job.locked_by = $1", " and job.claim_seq = outcome.token")),
        foreign_outcome),
    Bug("exchange_guard_without_state", ["C5"], weak("exchange", without(FENCE, STATE)),
        outcome_twice),
    Bug("exchange_guard_by_id_alone", ["C4", "C10"], weak("exchange", (FENCE, "true")), stale_outcome),
    Bug("exchange_overwrites_canceled", ["C5"], weak("exchange", without(FENCE, STATE)),
        canceled_while_running),
    Bug("closing_guard_without_seq", ["C4"], weak("settle", (SETTLE, SETTLE.replace("claim_seq = $3", "0 < $3"))),
        stale_closing),
    Bug("closing_guard_by_state_alone", ["C4"],
        weak("settle", (SETTLE, "state = 'processing' and $1::text <> '' and 0 < $3::bigint")), foreign_closing),
    Bug("closing_guard_without_state", ["C5"], weak("settle", without(SETTLE, "state = 'processing' and ")),
        closing_twice),
    Bug("preserve_below_zero", ["C9"], preserve_below_zero, preserved),
    Bug("dead_without_a_reason", ["C9"],
        weak("exchange", ("coalesce(outcome.error, job.last_error)", "job.last_error")), failed_to_death),
    *claims("exchange"),
    *claims("claim_topic", "_of_one_topic"),
    Bug("claim_by_lowest_priority", ["C15"],
        weak("exchange", ("generate_series(first.lowest, 9)", "generate_series(9, first.lowest, -1)")), by_priority),
    Bug("claim_by_lowest_priority_of_one_topic", ["C15"],
        weak("claim_topic", ("    ) as level\n", "    ) as up cross join lateral (select 9 - up) as down (level)\n")),
        by_priority),
    Bug("renewal_without_seq", ["C12"],
        weak("renew", without(HELD, " and job.claim_seq = held.token"), FORWARD), stale_renewal),
    Bug("renewal_without_owner", ["C12"],
        weak("renew", without(HELD, " and job.locked_by = $1", " and job.claim_seq = held.token"), FORWARD),
        foreign_renewal),
    Bug("renewal_moves_back", ["C12"], weak("renew", FORWARD), renewals_cross),
    Bug("renewal_without_guard", ["C5"], weak("renew", without(HELD, STATE)), late_renewal),
    Bug("renewal_spends_an_attempt", ["C9"],
        weak("renew", ("set locked_until = ", "set attempts = attempts + 1, locked_until = ")), renewal),
    Bug("reaper_without_expiry", ["C12"], weak("reap", ("and locked_until < now()", "")), reaper_passes),
    Bug("reaper_without_state", ["C5"], weak("reap", ("state = 'processing' and", "")), reaper_after_the_end),
    Bug("reaper_bumps_attempts", ["C9"], weak("reap", ("available_at = now(),", "available_at = now(), attempts = attempts + 1,")),  # noqa: E501
        reaper_finds),
    Bug("reaper_counts_nothing", ["C9"],
        weak("reap", ("expired_leases = least(expired_leases, 2147483646) + 1,", "")), reaper_finds),
    Bug("reaper_keeps_the_owner", ["C12"], reaper_keeps_the_owner, reaper_finds),
    Bug("reaper_kills", ["C9"], weak("reap", ("set state = 'pending'", "set state = 'dead'")), reaper_finds),
    Bug("reaper_asleep", ["C16"], weak("reap", ("limit $1", "limit $1 * 0")), reaper_finds),
    Bug("retention_takes_failed", ["C5"],
        weak("prune", ("state in ('done', 'dead', 'canceled')", "state in ('done', 'dead', 'canceled', 'failed')")), retention),  # noqa: E501
    Bug("retention_without_age", ["C5"],
        weak("prune", ("updated_at < now() - $1::interval", "$1::interval is not null")), young),
    Bug("cancel_overwrites_the_end", ["C5", "C6"],
        weak("cancel", ("found.state in ('pending', 'failed', 'processing')", "true")), cancel_after_the_end),
    Bug("cancel_of_what_waits_is_a_success", ["C7"],
        weak("cancel", ("set state = 'canceled',", "set state = 'done',")), cancel_waiting),
    Bug("cancel_moves_the_fence", ["C4"],
        weak("cancel", ("set state = 'canceled',", "set state = 'canceled', claim_seq = claim_seq + 1,")), cancel_waiting),
    Bug("key_index_not_unique", ["C13"],
        altered("drop index job_key", "create index job_key on job (topic, idempotency_key)"), same_key),
    Bug("duplicate_answered_with_its_own_id", ["C1"], answers_what_was_sent, same_key),
    Bug("enqueue_commits_by_itself", ["C2"], commits_by_itself, rolled_back),
    Bug("done_jobs_are_tidied", ["C5"], done_jobs_are_tidied, late_renewal),
    Bug("written_round_the_audit", ["C8"], written_round_the_audit, reaper_finds),
    Bug("enqueue_without_durability", ["C1"], async_commit("enqueue_one_new"), acknowledged_job, crashes=True),
    Bug("exchange_without_durability", ["C4"], async_commit("exchange"), acknowledged_outcome, crashes=True),
    Bug("closing_without_durability", ["C4"], async_commit("settle"), acknowledged_closing, crashes=True),
)  # fmt: skip
