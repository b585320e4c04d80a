"""`brooq explain` on a real database: every cause is brought about, and told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.postgres.roles import place
from tests.service.brooq_process import inside as brooq

from brooq import Claim, Config, Event, Job, JobFailed, Limits, Queue
from brooq.postgres import PostgresStore, open_pool
from brooq.service.explanation import Cause

SOON = 0.05


def execute(dsn: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def ask(dsn: str, id: UUID, **settings: Any) -> dict[str, Any]:
    """What the command says, for a program and for a person."""
    done = brooq("explain", str(id), "--json", dsn=dsn, **settings)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    spoken = brooq("explain", str(id), dsn=dsn, **settings)
    assert spoken.returncode == 0, spoken.stderr
    assert spoken.stdout.startswith(f"{id}  {read['topic']}  {read['state']}")
    return read | {"spoken": spoken.stdout}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  what is asked is a database
            await asyncio.sleep(SOON)


@asynccontextmanager
async def working(dsn: str, slots: int = 1) -> AsyncIterator[tuple[Queue, asyncio.Event, asyncio.Event]]:
    """A worker of the topics `hold`, whose handlers wait for the second event, and `fail`, whose handlers fail."""
    held, release = asyncio.Event(), asyncio.Event()
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool), Config(workers=slots, lease=60, poll_interval=SOON, shutdown_grace=5))

        @queue.kind("hold")
        async def hold(claim: Claim) -> None:
            held.set()
            await release.wait()

        @queue.kind("fail", max_attempts=2, backoff_base=3600, backoff_max=7200)
        async def fail(claim: Claim) -> None:
            raise ValueError("no such customer")

        async with queue:
            try:
                yield queue, held, release
            finally:
                release.set()


@pytest.mark.parametrize(
    ("limits", "key", "cause", "part"),
    [
        (Limits(max_running=1), "", Cause.LIMITED, "1 of 1"),
        (Limits(max_running_per_key=1), "ada", Cause.KEY_LIMITED, "concurrency key ada"),
        (Limits(rate=1, rate_period=3600), "", Cause.RATE_LIMITED, "may begin 1 jobs in 1h"),
    ],
)
async def test_a_limit_is_reached(dsn: str, limits: Limits, key: str, cause: Cause, part: str) -> None:
    async with working(dsn, slots=3) as (queue, held, _):
        await queue.limit("hold", limits)
        await queue.enqueue(Job("hold", concurrency_key=key))
        await held.wait()
        id, _ = await queue.enqueue(Job("hold", concurrency_key=key))
        read = await asyncio.to_thread(ask, dsn, id)
    assert (read["cause"], read["also"]) == (cause, [])
    assert part in read["spoken"]


async def test_in_an_ordered_topic_a_job_waits_for_the_one_before_it(dsn: str) -> None:
    async with working(dsn) as (queue, _, _):
        await queue.limit("fail", Limits(ordered=True))
        first, _ = await queue.enqueue(Job("fail", concurrency_key="ada", max_attempts=2))
        await until(lambda: execute(dsn, "select state from job where id = %s", first) == [("failed",)])
        second, _ = await queue.enqueue(Job("fail", concurrency_key="ada"))
        other, _ = await queue.enqueue(
            Job("fail", concurrency_key="eve", available_at=datetime.now(UTC) + timedelta(hours=1))
        )
        read = await asyncio.to_thread(ask, dsn, second)
        beside = await asyncio.to_thread(ask, dsn, other)
    assert (read["cause"], read["behind"]) == (Cause.BEHIND, str(first))
    assert f"brooq explain {first}" in read["spoken"]
    assert (beside["cause"], beside["also"]) == (Cause.NOT_DUE, [])


def made(dsn: str, topic: str, *more: str) -> UUID:
    return UUID(brooq("enqueue", topic, "{}", *more, dsn=dsn).stdout.strip())


def test_not_due(dsn: str) -> None:
    read = ask(dsn, made(dsn, "t", "--at", "+3h"))
    assert (read["cause"], read["also"]) == (Cause.NOT_DUE, [Cause.NO_WORKER])
    assert "not due until" in read["spoken"]
    assert "(in 2h59m)" in read["spoken"]
    due = datetime.fromisoformat(read["available_at"]) - datetime.now(UTC)
    assert timedelta(hours=2.9) < due <= timedelta(hours=3)


def test_nobody_has_its_topic(dsn: str) -> None:
    read = ask(dsn, made(dsn, "t"))
    assert (read["cause"], read["workers"], read["starts_at"]) == (Cause.NO_WORKER, [], None)
    assert "no worker has been seen lately" in read["spoken"]


async def test_held_by_a_worker(dsn: str) -> None:
    async with working(dsn) as (queue, held, _):
        id, _ = await queue.enqueue(Job("hold"))
        await held.wait()
        read = await asyncio.to_thread(ask, dsn, id, QUEUE_LEASE="60s")
        ((owner, since, until_),) = execute(
            dsn, "select locked_by, updated_at, locked_until from job where id = %s", id
        )
    assert (read["cause"], read["locked_by"], read["attempts"]) == (Cause.RUNNING, owner, 1)
    assert datetime.fromisoformat(read["claimed_at"]) == since
    assert datetime.fromisoformat(read["renewed_at"]) == datetime.fromisoformat(read["locked_until"]) - timedelta(
        seconds=60
    )
    assert datetime.fromisoformat(read["locked_until"]) <= until_
    for part in ("running: held by", "lease until", "last renewal about"):
        assert part in read["spoken"]


async def test_waiting_for_a_retry_then_used_up(dsn: str) -> None:
    failed = asyncio.Event()

    def told(event: Event) -> None:
        if isinstance(event, JobFailed):
            failed.set()

    async with working(dsn) as (queue, _, _):
        queue.listen(told)
        id, _ = await queue.enqueue(Job("fail", max_attempts=2))
        await failed.wait()
        await until(lambda: execute(dsn, "select state from job where id = %s", id) == [("failed",)])
        read = await asyncio.to_thread(ask, dsn, id)
        assert (read["cause"], read["attempts"], read["max_attempts"]) == (Cause.RETRY, 1, 2)
        assert "attempt 1 failed" in read["spoken"]
        assert "ValueError: no such customer" in read["spoken"]
        execute(dsn, "update job set available_at = now() where id = %s", id)
        await until(lambda: execute(dsn, "select state from job where id = %s", id) == [("dead",)])
    read = await asyncio.to_thread(ask, dsn, id)
    assert (read["cause"], [each["attempt"] for each in read["failures"]]) == (Cause.DEAD, [1, 2])
    assert "all 2 attempts are used up" in read["spoken"]
    assert read["spoken"].count("ValueError: no such customer") == 2
    assert f"brooq retry {id}" in read["spoken"]


async def test_done(dsn: str) -> None:
    async with working(dsn) as (queue, _, release):
        release.set()
        id, _ = await queue.enqueue(Job("hold"))
        await until(lambda: execute(dsn, "select state from job where id = %s", id) == [("done",)])
    read = await asyncio.to_thread(ask, dsn, id)
    assert read["cause"] == Cause.DONE
    assert "not running any more: done since" in read["spoken"]


def test_canceled_by_whom_and_why(dsn: str) -> None:
    id = made(dsn, "t")
    assert brooq("cancel", str(id), "--reason", "asked for", dsn=dsn).returncode == 0
    read = ask(dsn, id)
    assert (read["cause"], read["cancel_reason"]) == (Cause.CANCELED, "asked for")
    assert read["canceled_by"]
    assert f"by {read['canceled_by']}: asked for" in read["spoken"]
    other = made(dsn, "t")
    execute(dsn, "update job set state = 'canceled' where id = %s", other)
    read = ask(dsn, other)
    assert (read["cause"], read["canceled_by"]) == (Cause.CANCELED, None)


async def test_a_lease_that_ran_out(dsn: str) -> None:
    """A worker that was killed writes nothing; nobody is there to put its job back."""
    async with open_pool(dsn) as pool:
        store = PostgresStore(pool)
        ((id, _),) = await store.enqueue(None, [Job("t")])
        assert (await store.exchange("gone", [], ["t"], 1, timedelta(milliseconds=10))).taken
        await store.close()
    await until(lambda: execute(dsn, "select locked_until < now() from job") == [(True,)])
    read = await asyncio.to_thread(ask, dsn, id)
    assert (read["cause"], read["locked_by"]) == (Cause.EXPIRED, "gone")
    assert "no worker is there whose reaper could do it" in read["spoken"]


def test_no_such_job_and_no_id(dsn: str, tmp_path: Path) -> None:
    absent = brooq("explain", str(uuid4()), dsn=dsn, cwd=tmp_path)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "there is no job" in absent.stderr
    assert brooq("explain", "7", dsn=dsn, cwd=tmp_path).returncode == 2


def test_whoever_may_look_may_ask(empty_dsn: str) -> None:
    with place(empty_dsn) as made_roles:
        viewer, worker = made_roles.login("eve", "viewer"), made_roles.login("wim", "worker")
        made_roles.ask("insert into job (topic) values ('t')")
        ((id,),) = made_roles.ask("select id from job")
        assert ask(viewer, id, QUEUE_SCHEMA="jobs")["cause"] == Cause.NO_WORKER
        assert brooq("cancel", str(id), "--reason", "r", dsn=worker, QUEUE_SCHEMA="jobs").returncode == 0
        assert ask(viewer, id, QUEUE_SCHEMA="jobs")["cancel_reason"] == "r"
        # Who may work may not read the trail.
        assert ask(worker, id, QUEUE_SCHEMA="jobs")["cancel_reason"] is None


@pytest.mark.parametrize("topic", ["t", "foreign"])
def test_what_comes_before_it_is_counted_within_a_bound(dsn: str, topic: str) -> None:
    execute(dsn, "insert into job (topic, priority) select 't', n % 3 from generate_series(1, 12000) as n")
    execute(
        dsn, "insert into job (topic, available_at) select 't', now() + interval '1 day' from generate_series(1, 5)"
    )
    id = made(dsn, topic)
    execute(dsn, "update job set priority = 1, available_at = now() where id = %s", id)
    read = ask(dsn, id)
    expected = (8000, True) if topic == "t" else (0, True)
    assert (read["before"], read["before_exact"]) == expected
    execute(dsn, "update job set priority = 9 where id = %s", id)
    read = ask(dsn, id)
    assert (read["before"], read["before_exact"]) == ((10_000, False) if topic == "t" else (0, True))
