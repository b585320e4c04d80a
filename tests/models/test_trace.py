"""Histories of real workers go through the rules; histories with one thing wrong do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.database import Server
from tests.models.recording import record, recorded
from tests.models.trace import EPOCH, Version, replay
from tests.models.variant import CountingReaper

from brooq import Claim, Config, Job, MustCancel, MustDelay, MustGiveUp, MustPreserveAttempt, Queue, State
from brooq.engine.outcome import Outcome
from brooq.postgres import PostgresStore, open_pool

pytestmark = pytest.mark.xdist_group("history")

LEASE = timedelta(seconds=1)
KINDS = ("succeed", "long", "chain", "fail", "delay", "preserve", "cancel", "give up", "hang", "succeed")
JOBS = 6 * len(KINDS)
Doctor = Callable[[list[Version]], list[Version]]


async def work(claim: Claim) -> None:
    """A handler that ends in every way there is."""
    do, first = claim.payload, claim.token == 1
    if do == "long":
        await asyncio.sleep(1.4 * LEASE.total_seconds())
    elif do == "chain":
        claim.chain(Job("t", "succeed"))
    elif do == "fail":
        raise ValueError
    elif do == "delay" and first:
        raise MustDelay(0.2)
    elif do == "preserve" and first:
        raise MustPreserveAttempt
    elif do == "cancel":
        raise MustCancel
    elif do == "give up":
        raise MustGiveUp
    elif do == "hang" and first:
        await asyncio.sleep(60)


async def live(dsn: str, connection: psycopg.Connection[Any]) -> None:
    """Jobs of all kinds, workers that are stopped, one that dies with jobs in its hands, and people who meddle."""
    config = Config(
        workers=8, lease=LEASE, poll_interval=0.05, reaper_period=0.1, max_attempts=3, backoff_base=0.05, shutdown_grace=0.1
    )  # fmt: skip
    async with open_pool(dsn, max_size=8) as pool:
        store = PostgresStore(pool)
        await store.enqueue(None, [Job("t", KINDS[number % len(KINDS)]) for number in range(JOBS)])
        await store.exchange("dead", [], ["t"], 5, timedelta(seconds=0.1))
        for left in (JOBS // len(KINDS), 0):
            queues = [Queue(PostgresStore(pool), config, name=f"worker {number}") for number in range(2)]
            for queue in queues:
                queue.register_kind("t", work)
            async with queues[0], queues[1]:
                await until(lambda: unfinished(connection) <= left)  # noqa: B023  awaited within the turn
        await meddle(store, connection)
        await store.close()


async def meddle(store: PostgresStore, connection: psycopg.Connection[Any]) -> None:
    """What people do to jobs that wait, and retention to those that do not."""
    for job in (Job("other", 1), Job("other", 2)):
        await store.enqueue(None, [job])
    (taken,) = (await store.exchange("hands", [], ["other"], 1, LEASE)).taken
    await store.exchange("hands", [Outcome(taken.id, taken.token, State.FAILED, "e", 60.0)], [], 0, LEASE)
    connection.execute("update job set available_at = now() where state = 'failed'")
    connection.execute("update job set attempts = 0, available_at = now() where state = 'failed'")
    connection.execute("update job set tags = array['seen'] where state = 'failed'")
    await store.cancel(taken.id)
    assert len(await store.prune(timedelta(0), 5)) == 5


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the database says."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the database has no event to wait for
            await asyncio.sleep(0.02)


def unfinished(connection: psycopg.Connection[Any]) -> int:
    """How many jobs wait or are held."""
    ((count,),) = connection.execute("select count(*) from job where state in ('pending', 'processing', 'failed')")
    return int(count)


@pytest.fixture(scope="module")
def history(postgres: Server) -> Iterator[list[Version]]:
    """Recorded from real workers."""
    with postgres.database(migrated=True) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        record(connection)
        asyncio.run(live(dsn, connection))
        yield recorded(connection)


def test_the_history_of_real_workers_is_one_that_the_rules_allow(history: list[Version]) -> None:
    found = replay(history, lease=LEASE)
    assert not found.faults, "\n\n".join(map(str, found.faults))
    assert set(found.verbs) == {
        "enqueue", "claim", "renew", "reap", "done", "failed", "dead", "canceled", "pending", "cancel", "hasten", "reset",
        "untouched", "prune",
    }  # fmt: skip
    assert sum(found.verbs.values()) == len(history) > 4 * JOBS


def test_an_audit_that_is_younger_than_the_jobs_is_replayed_from_where_it_begins(history: list[Version]) -> None:
    late = history[JOBS + 10 :]
    assert not replay(late, from_the_start=False).faults
    assert replay(late, from_the_start=False).verbs["known before"] > 0
    assert replay(late).faults


# --- doctored: the first version that fits is altered, and every later one of that job follows it ---


def altered(history: list[Version], fits: Callable[[Version], bool], **columns: Any) -> list[Version]:
    """One version with other columns."""
    at = next(number for number, each in enumerate(history) if fits(each))
    return [*history[:at], history[at]._replace(**columns), *history[at + 1 :]]


def without(history: list[Version], fits: Callable[[Version], bool]) -> list[Version]:
    """One version fewer."""
    at = next(number for number, each in enumerate(history) if fits(each))
    return [*history[:at], *history[at + 1 :]]


def followed(history: list[Version], fits: Callable[[Version], bool], **columns: Any) -> list[Version]:
    """One more version after one that fits: the same row with other columns."""
    at = next(number for number, each in enumerate(history) if fits(each))
    last = history[at]
    return [*history[: at + 1], last._replace(op="UPDATE", old_state=last.new_state, **columns), *history[at + 1 :]]


def change(old: str | None, new: str | None) -> Callable[[Version], bool]:
    """A version between these states."""
    return lambda version: (version.old_state, version.new_state) == (old, new)


CLAIM, RENEWAL, DONE = change("pending", "processing"), change("processing", "processing"), change("processing", "done")
REAPED = change("processing", "pending")
LONG_AGO, FAR = EPOCH, EPOCH + timedelta(days=36500)

DOCTORS: dict[str, Doctor] = {
    "a claim that did not move the fence": lambda old: altered(old, CLAIM, claim_seq=0),
    "a claim that moved the fence by two": lambda old: altered(old, CLAIM, claim_seq=2),
    "a claim that cost no attempt": lambda old: altered(old, CLAIM, attempts=0),
    "a claim without an owner": lambda old: altered(old, CLAIM, locked_by=None, locked_until=None),
    "a claim of the future": lambda old: altered(old, change(None, "pending"), available_at=FAR),
    "a lease longer than any worker takes": lambda old: altered(old, CLAIM, locked_until=FAR),
    "a second claim of a held job": lambda old: followed(old, CLAIM, locked_by="another", claim_seq=2, attempts=2),
    "a renewal that shortened the lease": lambda old: altered(old, RENEWAL, locked_until=LONG_AGO),
    "a renewal by another": lambda old: altered(old, RENEWAL, locked_by="another"),
    "a renewal that cost an attempt": lambda old: altered(old, RENEWAL, attempts=9),
    "a terminal row overwritten": lambda old: followed(old, DONE, new_state="failed", locked_by=None, locked_until=None),
    "a terminal row canceled": lambda old: followed(old, DONE, new_state="canceled"),
    "an outcome that gave an attempt back": lambda old: altered(old, DONE, attempts=0),
    "an outcome that moved the fence": lambda old: altered(old, DONE, claim_seq=9),
    "an outcome without a claim": lambda old: without(old, CLAIM),
    "a waiting job that keeps its lease": lambda old: altered(
        old, change("processing", "failed"), locked_by="w", locked_until=LONG_AGO
    ),
    "an expired lease that cost two attempts": lambda old: altered(old, REAPED, attempts=9),
    "a lease reaped before its end": lambda old: altered(
        old, lambda version: CLAIM(version) and version.locked_by == "dead", locked_until=old[-1].at + timedelta(seconds=1)
    ),
    "a job that died of an expired lease": lambda old: altered(old, REAPED, new_state="dead"),
    "an active job deleted": lambda old: altered(old, CLAIM, op="DELETE", new_state=None),
    "a job made as done": lambda old: altered(old, change(None, "pending"), new_state="done"),
    "a job made twice": lambda old: [old[0], old[0], *old[1:]],
    "a job that nobody made": lambda old: without(old, change(None, "pending")),
    "a version missing": lambda old: without(old, lambda version: REAPED(version) or DONE(version)),
    "an attempt added to a waiting job": lambda old: followed(old, change(None, "pending"), attempts=3),
}  # fmt: skip


@pytest.mark.parametrize("doctor", DOCTORS.values(), ids=DOCTORS)
def test_a_doctored_history_is_refused(history: list[Version], doctor: Doctor) -> None:
    doctored = doctor(history)
    assert doctored != history
    faults = replay(doctored).faults or replay(doctored, lease=LEASE).faults
    assert faults
    assert f"job {faults[0].version.job_id}" in str(faults[0])


def test_other_rules_refuse_what_is_right_by_these(history: list[Version]) -> None:
    faults = replay(history, rules=CountingReaper()).faults
    assert faults
    assert {(fault.version.old_state, fault.version.new_state) for fault in faults} == {("processing", "pending")}
