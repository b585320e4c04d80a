"""A consumer's view (requirement A2): a queue from public names alone, a job driven to `done`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import brooq
from brooq import Claim, Config, Event, Job, JobClaimed, JobDone, Queue, State
from brooq.postgres import PostgresStore, open_pool
from brooq.testing import MemoryStore


async def drive_to_done(queue: Queue) -> None:
    """Enqueue, work, look: what a consumer does first."""
    seen: list[dict[str, str]] = []
    events: list[Event] = []
    done = asyncio.Event()

    @queue.kind("email.send", max_attempts=3, attempt_timeout=timedelta(seconds=10))
    async def send(claim: Claim) -> None:
        seen.append(claim.payload)

    def told(event: Event) -> None:
        events.append(event)
        if isinstance(event, JobDone):
            done.set()

    queue.listen(told)
    answer = await queue.enqueue(Job("email.send", {"to": "anna@example.org"}, idempotency_key="order-42"))
    assert answer.created
    assert await queue.enqueue(Job("email.send", {}, idempotency_key="order-42")) == (answer.id, False)
    async with queue:
        async with asyncio.timeout(30):
            await done.wait()
    record = await queue.find(answer.id)
    assert record is not None
    assert (record.state, record.attempts, record.last_error) == (State.DONE, 1, None)
    assert seen == [{"to": "anna@example.org"}]
    assert [type(event) for event in events] == [JobClaimed, JobDone]
    assert {event.id for event in events} == {answer.id}


async def test_a_job_is_driven_to_done_on_postgres(dsn: str) -> None:
    async with open_pool(dsn) as pool:
        await drive_to_done(Queue(PostgresStore(pool), Config(workers=4, lease=timedelta(seconds=30))))


async def test_a_job_is_driven_to_done_in_memory() -> None:
    await drive_to_done(Queue(MemoryStore(), Config(workers=4)))


@pytest.mark.parametrize("name", brooq.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(brooq, name) is not None
