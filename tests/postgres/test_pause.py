"""A pause on PostgreSQL: valid for claims that began before it, and free for topics that nobody has paused."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from tests.postgres.observer import Observer, Opened

from brooq import Claim, Config, Job, Queue, State, StoreBusy
from brooq.postgres import steering
from brooq.postgres.operator import Operator

HOUR = timedelta(hours=1)
NOTHING: list[list[object]] = [[]] * 6


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_pause_is_answered_when_no_claim_is_left_that_has_not_seen_it(
    driver: str, dsn: str, observer: Observer
) -> None:
    """A claim whose snapshot is older than the pause may still take jobs: the answer waits for its end, and for no one
    else's."""
    async with Opened(dsn, driver=driver) as store:
        early, late = await store.enqueue(None, [Job("t"), Job("t")])
        async with (
            await psycopg.AsyncConnection.connect(dsn) as claim,
            psycopg.AsyncRawCursor(claim) as cursor,
            await psycopg.AsyncConnection.connect(dsn) as backup,
            await psycopg.AsyncConnection.connect(dsn) as producer,
        ):
            await backup.execute("select count(*) from brooq_topic, job")
            await producer.execute("insert into job (topic) values ('t')")
            await cursor.execute(store._statements.exchange, ["rival", *NOTHING, ["t"], 1, HOUR, [], [], [], [], []])
            pausing = asyncio.ensure_future(store.pause("t", "ann"))
            await observer.until(lambda: observer.value("select count(*) from brooq_topic where paused_at is not null"))
            done, _ = await asyncio.wait([pausing], timeout=0.2)
            assert not done
            await claim.commit()
            assert await pausing is True
        assert (await store.exchange("w", [], ["t"], 10, HOUR)).taken == []
        assert observer.run("select id, state from job order by id")[:2] == [
            (early.id, "processing"),
            (late.id, "pending"),
        ]


async def test_a_claim_that_does_not_end_is_told(dsn: str, monkeypatch: pytest.MonkeyPatch, observer: Observer) -> None:
    monkeypatch.setattr(steering, "PATIENCE", 0.1)
    async with Opened(dsn) as store:
        async with await psycopg.AsyncConnection.connect(dsn) as claim, psycopg.AsyncRawCursor(claim) as cursor:
            await cursor.execute(store._statements.exchange, ["rival", *NOTHING, ["t"], 1, HOUR, [], [], [], [], []])
            with pytest.raises(StoreBusy, match=r"t is set, but a claim from before has not ended within 0\.1 s"):
                await store.pause("t", "ann")
        assert observer.value("select paused_by from brooq_topic") == "ann"


async def test_a_queue_pauses_for_every_worker_and_resumes_at_once(dsn: str, observer: Observer) -> None:
    """The other process is another queue here, with its own store; it is told by nothing but the database."""
    seen: list[int] = []
    beside: list[int] = []

    async def handler(claim: Claim) -> None:
        seen.append(claim.payload)

    async def other(claim: Claim) -> None:
        beside.append(claim.payload)

    async with Opened(dsn) as one, Opened(dsn) as two:
        queues = [
            Queue(store, Config(workers=4, poll_interval=60), name=name) for name, store in (("a", one), ("b", two))
        ]
        for queue in queues:
            queue.register_kind("t", handler)
            queue.register_kind("u", other)
        async with queues[0], queues[1]:
            assert await queues[0].pause("t", "look\x00 into it") is True
            await queues[1].enqueue_many([Job(topic, number) for number in range(50) for topic in ("t", "u")])
            await observer.until(lambda: len(beside) == 50)  # both have looked again and again by then
            assert seen == []
            assert [(each.paused_by, each.pause_reason) for each in await queues[1].topics()] == [
                ("a", r"look\x00 into it")
            ]
            assert await queues[0].resume("t", by="ann") is True
            await observer.until(lambda: len(seen) == 50)
    assert observer.run("select actor, action from brooq_operation order by id") == [("a", "pause"), ("ann", "resume")]


async def test_an_operator_pauses_in_his_own_name(dsn: str, observer: Observer) -> None:
    async with Opened(dsn) as store:
        (job,) = await store.enqueue(None, [Job("t")])
        operator = Operator(store, "ann@host")
        assert await operator.pause("t", "lunch") is True
        assert await operator.pause("t") is False
        assert (await store.exchange("w", [], ["t"], 10, HOUR)).taken == []
        assert await operator.resume("t") is True
        assert [each.id for each in (await store.exchange("w", [], ["t"], 10, HOUR)).taken] == [job.id]
        await operator.close()
    assert observer.value("select state from job") == State.PROCESSING
    assert {row[0] for row in observer.run("select actor from brooq_operation")} == {"ann@host"}
