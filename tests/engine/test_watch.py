"""Waiting for jobs, what they return, and how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.engine.parts import memory, queue, row, until, until_state
from tests.simulation.virtual import virtual

from brooq import Claim, Job, JobNotFound, JobRecord, KindOptions, LeaseLost, State, StoreUnavailable
from brooq.engine.store import Hold
from brooq.testing import MemoryStore
from brooq.vocabulary.payload import MAX_BYTES


@dataclass
class Sum:
    """A typed result."""

    total: int


@virtual
async def test_what_a_handler_returns_is_kept_where_its_kind_asks() -> None:
    async def handler(claim: Claim) -> Any:
        await asyncio.sleep(claim.payload)
        return Sum(42)

    store = memory()
    made = queue(store, handler, KindOptions(keep_result=True))
    made.register_kind("forgets", handler)
    async with made:
        first, _ = await made.enqueue(Job("t", 0))
        second, _ = await made.enqueue(Job("forgets", 0.5))
        record = await made.wait(first)
        assert (record.state, record.result) == (State.DONE, {"total": 42})
        assert (await made.wait(str(second), 60)).result is None


@pytest.mark.parametrize("result", [object(), float("nan"), "x" * MAX_BYTES], ids=["object", "nan", "large"])
def test_a_result_that_cannot_be_kept_is_a_failure(result: Any) -> None:
    async def handler(_: Claim) -> Any:
        return result

    async def main() -> None:
        store = memory()
        async with queue(store, handler, KindOptions(keep_result=True, max_attempts=1)) as made:
            await made.enqueue(Job("t"))
            assert "PayloadError" in ((await until_state(store, State.DEAD)).last_error or "")

    virtual(main)()


@virtual
async def test_a_result_comes_with_callbacks_too() -> None:
    async def handler(claim: Claim) -> str:
        claim.on_succeeded(lambda _: None)
        return "kept"

    store = memory()
    async with queue(store, handler, KindOptions(keep_result=True)) as made:
        id, _ = await made.enqueue(Job("t"))
        assert (await made.wait(id)).result == "kept"


class Counting(MemoryStore):
    """Counts the questions, and does not answer the first ones."""

    asked: list[int]
    silent = 0

    async def ended(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord | None]:
        """Which have ended."""
        self.asked.append(len(ids))
        if len(self.asked) <= self.silent:
            raise StoreUnavailable("gone")
        return await super().ended(ids)


@virtual
async def test_many_who_wait_share_one_question_and_ask_less_and_less_often() -> None:
    store = Counting()
    store.asked, store.silent = [], 3
    made = queue(store)
    ids = [(await made.enqueue(Job("t"))).id for _ in range(50)]
    waits = [asyncio.ensure_future(made.wait(id, 100)) for id in ids for _ in range(2)]
    await asyncio.sleep(60)
    assert set(store.asked) == {50}
    assert len(store.asked) < 80
    for id in ids:
        await made.cancel(id)
    assert {record.state for record in await asyncio.gather(*waits)} == {State.CANCELED}
    await asyncio.sleep(0.1)
    asked = len(store.asked)
    await asyncio.sleep(60)
    assert len(store.asked) == asked  # nobody waits, nobody asks


@virtual
async def test_a_wait_ends_with_its_time_or_for_a_job_that_is_not_there() -> None:
    made = queue(memory())
    id, _ = await made.enqueue(Job("t"))
    with pytest.raises(TimeoutError, match=str(id)):
        await made.wait(id, 2)
    with pytest.raises(JobNotFound, match="retention"):
        await made.wait(uuid4())
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


class Listening(MemoryStore):
    """Writes down what it is told."""

    told: list[Mapping[Hold, str]]

    async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
        """How far claims are."""
        self.told.append(dict(told))
        await super().progress(worker, told)


@virtual
async def test_progress_is_written_at_once_then_at_most_once_a_second() -> None:
    async def handler(claim: Claim) -> None:
        for step in range(1, 101):
            await claim.progress(step / 100, f"step {step}")
            await asyncio.sleep(0.05)

    store = Listening()
    store.told = []
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: row(store).progress is not None)
        first = row(store).progress
        assert first is not None
        assert first.note == "step 1"
        await until_state(store, State.DONE)
        assert 5 <= len(store.told) <= 7
        last = row(store).progress
        assert last is not None
        assert last.done > 0.75


@virtual
async def test_progress_that_cannot_be_written_harms_nothing() -> None:
    class Deaf(MemoryStore):
        async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
            raise StoreUnavailable("gone")

    async def handler(claim: Claim) -> None:
        claim.progress(0.5)
        await asyncio.sleep(3)
        with pytest.raises(ValueError, match="from 0 to 1"):
            claim.progress(1.5)

    store = Deaf()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until_state(store, State.DONE)


@virtual
async def test_a_handler_that_lost_its_claim_cannot_commit() -> None:
    refused: list[BaseException] = []

    async def handler(claim: Claim) -> None:
        tx = await store.begin()
        await claim.assert_held(tx)
        await tx.rollback()
        await store.cancel(claim.id)
        tx = await store.begin()
        try:
            await claim.assert_held(tx)
        except LeaseLost as error:
            refused.append(error)
            raise
        finally:
            await tx.rollback()

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: refused)
        await until(lambda: made.busy() == {"t": 0})
    assert row(store).state is State.CANCELED


@virtual
async def test_a_job_that_kills_its_workers_is_put_away_where_its_kind_asks() -> None:
    """I7."""
    runs: list[int] = []

    async def handler(claim: Claim) -> None:
        runs.append(claim.attempt)

    store = memory()
    made = queue(store, handler, KindOptions(quarantine_after=3, max_attempts=1))
    made.register_kind("patient", handler)
    for topic in ("t", "patient"):
        await made.enqueue(Job(topic))
        for _ in range(3):
            assert len((await store.exchange("dies", [], [topic], 1, made.config.lease_time)).taken) == 1
            await asyncio.sleep(4)
            await store.reap(10)
    async with made:
        await until(lambda: all(job.state.terminal for job in store.jobs))
    quarantined, patient = store.jobs
    assert (quarantined.state, quarantined.expired_leases) == (State.DEAD, 3)
    assert (quarantined.last_error or "").startswith("Quarantined: the leases of this job ran out 3 times")
    assert patient.state is State.DONE
    assert runs == [4]
    assert made.metrics.claimed == {"t": 1, "patient": 1}
