"""Redactors: the consumer's last word on what `last_error` holds (rule S9)."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from brooq import Claim, Config, Event, Job, JobDead, Queue
from brooq.engine.reason import MAX_BYTES
from brooq.engine.redactor import WITHHELD, Redactor, Redactors
from brooq.testing import MemoryStore

pytestmark = pytest.mark.security("S9")
SECRET = "card 4111111111111111"


def fails(_: str) -> str:
    raise RuntimeError(SECRET)


def answers_nothing(_: str) -> str:
    return cast("str", None)


async def last_error_with(*redactors: Redactor) -> tuple[str | None, list[str]]:
    """What is stored of a failure that quotes a secret, and what listeners hear of it."""
    queue = Queue(MemoryStore(), Config(poll_interval=0.01, max_attempts=1))
    over, heard = asyncio.Event(), list[str]()

    @queue.kind("pay")
    async def pay(claim: Claim) -> None:
        raise ValueError(f"refused: {SECRET}")

    def listen(event: Event) -> None:
        if isinstance(event, JobDead):
            heard.append(event.error)
            over.set()

    queue.listen(listen)
    for redactor in redactors:
        queue.redact(redactor)
    job_id, _ = await queue.enqueue(Job("pay"))
    async with queue, asyncio.timeout(20):
        await over.wait()
    record = await queue.find(job_id)
    assert record is not None
    return record.last_error, heard


async def test_every_redactor_is_asked_in_its_turn() -> None:
    stored, heard = await last_error_with(lambda text: text.replace("4111111111111111", "****"), str.upper)
    assert stored == "VALUEERROR: REFUSED: CARD ****"
    assert heard == [stored]


async def test_without_one_the_text_stays() -> None:
    assert (await last_error_with())[0] == f"ValueError: refused: {SECRET}"


@pytest.mark.parametrize("redactor", [fails, answers_nothing])
async def test_one_that_fails_costs_the_text_and_not_the_job(
    redactor: Redactor, caplog: pytest.LogCaptureFixture
) -> None:
    stored, heard = await last_error_with(redactor)
    assert stored == WITHHELD
    assert heard == [WITHHELD]
    told = [record.getMessage() for record in caplog.records if "redactor" in record.getMessage()]
    assert len(told) == 1
    assert SECRET not in told[0]


def test_what_a_redactor_makes_is_made_storable() -> None:
    redactors = Redactors()
    redactors.add(lambda text: text + "\0\udcff" + "x" * 10_000)
    made = redactors("reason")
    assert "\0" not in made
    assert len(made.encode()) <= MAX_BYTES
