"""Planted bugs in what keeps pauses and limits: each is seen by the checker of histories."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
from tests.planted.stage import HOUR, TOPIC, Bug, Stage
from tests.planted.statements import waiting_or_done, weak

from brooq import Job, Limits, State
from brooq.engine.store import Taken
from brooq.postgres import limited
from brooq.vocabulary.error import StoreBusy

LOCK = "\nfor no key update\n"
HELD = "(select clock_timestamp() as now) as clock\n    where held.topic = $2::text and held.paused_at is null\n"


async def limit(stage: Stage, limits: Limits) -> None:
    """Limits by hand."""
    await stage.store.limit(TOPIC, limits, "ann")


async def take(stage: Stage, limit: int = 1, worker: str = "w") -> list[Taken]:
    """A claim within limits, whose handlers start."""
    taken = (await stage.store.claim_limited(worker, TOPIC, limit, HOUR)).taken
    for each in taken:
        stage.begin(each, worker)
    return taken


async def rival_claims(stage: Stage) -> None:
    """Two claims of one moment: the second one begins while the first one holds what it has taken, uncommitted."""
    await limit(stage, Limits(max_running=1))
    await stage.enqueue(priority=5)
    statements = stage.store._statements
    async with (
        await psycopg.AsyncConnection.connect(stage.dsn) as rival,
        psycopg.AsyncRawCursor(rival) as cursor,
    ):
        await cursor.execute(statements.lock_topic, [TOPIC])
        parameters = ["rival", TOPIC, 1, HOUR, limited.WALK, limited.KEYS, limited.LINE, "", *limited.BEGINNING]
        await cursor.execute(statements.claim_limited, parameters)
        await stage.enqueue()  # more urgent: the second claim has another job in mind
        second = asyncio.ensure_future(take(stage))
        await waiting_or_done(stage, second)
        await rival.commit()
        try:
            await second
        except StoreBusy:
            await take(stage)  # this machine stood still for longer than a claim waits


async def two_workers(stage: Stage) -> None:
    await limit(stage, Limits(max_running=1))
    for worker in ("w", "v"):
        await stage.enqueue()
        await take(stage, 5, worker)


async def one_key(stage: Stage) -> None:
    await limit(stage, Limits(max_running_per_key=1))
    for _ in range(3):
        await stage.enqueue(concurrency_key="k")
    for _ in range(2):
        await take(stage, 5)


async def a_line(stage: Stage) -> None:
    """The first of the line fails, and the next one is ready before it."""
    await limit(stage, Limits(ordered=True))
    for _ in range(2):
        await stage.enqueue(concurrency_key="k")
    (first,) = await take(stage)
    await stage.end(first, State.FAILED)
    await stage.alter("update job set available_at = now() + interval '1 hour' where state = 'failed'")
    await take(stage)


async def by_priority(stage: Stage) -> None:
    await limit(stage, Limits(ordered=True))
    first = Job(TOPIC, concurrency_key="k", priority=5)
    await stage.enqueue(first)
    await stage.enqueue(concurrency_key="k")
    await take(stage)


async def at_a_rate(stage: Stage) -> None:
    await limit(stage, Limits(rate=2, rate_period=HOUR))
    for _ in range(6):
        await stage.enqueue(available_at=datetime.now(UTC) - timedelta(minutes=1))
    for _ in range(6):
        await take(stage)


async def in_a_pause(stage: Stage) -> None:
    await stage.store.pause(TOPIC, "ann")
    await stage.enqueue()
    await stage.claim()


async def limited_by_the_way(stage: Stage) -> None:
    """A worker that has not heard of the limits claims as always."""
    await limit(stage, Limits(max_running=1))
    for _ in range(2):
        await stage.enqueue()
    await stage.claim(limit=5)


def counted_where_it_is_locked(stage: Stage) -> None:
    """One statement locks and counts: its snapshot is older than the lock it has waited for."""
    stage.weaken("lock_topic", (LOCK, "\n"))
    stage.weaken("claim_limited", (HELD, HELD + "    for no key update of held\n"))


ONE_STEERED = "not exists (select from steered)"
STEERED = "asked.topic <> all (array(select topic from steered))"
BUGS = (
    Bug("limit_counted_where_it_is_locked", ["C17"], counted_where_it_is_locked, rival_claims),
    Bug("limit_counted_without_a_lock", ["C17"], weak("lock_topic", (LOCK, "\n")), rival_claims),
    Bug("limit_of_each_worker", ["C17"],
        weak("claim_limited", ("where job.state = 'processing' and job.topic = $2::text",
                                   "where job.state = 'processing' and job.topic = $2::text and job.locked_by = $1")),
        two_workers),
    Bug("limit_of_a_key_by_one_more", ["C17"],
        weak("claim_limited", ("ranked.nth + coalesce(running.jobs, 0) <= limits.per_key",
                                   "ranked.nth + coalesce(running.jobs, 0) <= limits.per_key + 1")), one_key),
    Bug("line_without_those_that_wait_for_a_retry", ["C17"],
        weak("claim_limited", ("and head.state in ('pending', 'failed')", "and head.state = 'pending'")), a_line),
    Bug("line_by_priority", ["C17"],
        weak("claim_limited", ("walked.key is null or not limits.ordered", "true or not limits.ordered")), by_priority),
    Bug("rate_without_spending", ["C17"],
        weak("claim_limited", ("set tokens = limits.tokens - counted.jobs", "set tokens = limits.tokens")), at_a_rate),
    Bug("claim_in_a_pause", ["C17"], weak("exchange", (STEERED, "true")), in_a_pause),
    Bug("claim_of_one_topic_in_a_pause", ["C17"], weak("claim_topic", (ONE_STEERED, "true")), in_a_pause),
    Bug("exchange_of_limited_topics", ["C17"], weak("exchange", (STEERED, "true")), limited_by_the_way),
    Bug("claim_of_one_limited_topic", ["C17"], weak("claim_topic", (ONE_STEERED, "true")), limited_by_the_way),
)  # fmt: skip
