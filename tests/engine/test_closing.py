"""Outcomes on their way: the closing transaction, outages, data that is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from tests.engine.parts import memory, queue, row, until, until_state
from tests.simulation.virtual import virtual

from brooq.engine.metrics import OTHER
from brooq.engine.outcome import Outcome
from brooq.engine.recorder import REFUSED, UNRECORDABLE
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import OutcomeUnknown, StoreRefused, StoreUnavailable
from brooq.vocabulary.event import Event, JobDone
from brooq.vocabulary.job import Job, State
from brooq.vocabulary.kind import KindOptions
from brooq.vocabulary.tx import Tx


class Moody(MemoryStore):
    """Fails as the test says."""

    def __init__(self) -> None:
        super().__init__(memory().clock)
        self.before: Exception | None = None
        """Raised instead of an exchange that has outcomes."""
        self.after: list[Exception] = []
        """Raised after an exchange that has outcomes, or a commit of the closing transaction, each once."""
        self.fates_fail = 0

    async def exchange(self, worker: str, outcomes: Sequence[Outcome], *rest: Any) -> Any:
        if outcomes and self.before is not None:
            raise self.before
        if any("poison" in (outcome.error or "") for outcome in outcomes):
            raise StoreRefused("poison")
        answer = await super().exchange(worker, outcomes, *rest)
        if outcomes and self.after:
            raise self.after.pop(0)
        return answer

    async def fates(self, ids: Any) -> Any:
        if self.fates_fail:
            self.fates_fail -= 1
            raise StoreUnavailable("away")
        return await super().fates(ids)


@virtual
async def test_callbacks_and_chained_jobs_are_in_the_closing_transaction() -> None:
    seen: list[str] = []

    async def handler(claim: Claim) -> None:
        if claim.payload == "child":
            return

        @claim.on_succeeded
        async def first(tx: Tx) -> None:
            await asyncio.sleep(1)
            seen.append("first")
            assert [job.state for job in store.jobs] == [State.PROCESSING]
            await made.enqueue_tx(tx, Job("t", "child"))

        claim.on_succeeded(lambda _: seen.append("second"))
        claim.chain(Job("t", "child"))

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t", "parent"))
        await until(lambda: [job.state for job in store.jobs] == [State.DONE] * 3)
    assert seen == ["first", "second"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), TimeoutError("own"), KeyboardInterrupt()], ids=repr)
def test_a_callback_that_fails_closes_nothing(error: BaseException) -> None:
    async def main() -> None:
        async def handler(claim: Claim) -> None:
            def callback(_: Tx) -> None:
                if claim.attempt == 1:
                    raise error

            claim.on_succeeded(callback)
            claim.chain(Job("other"))

        store = memory()
        async with queue(store, handler) as made:
            await made.enqueue(Job("t"))
            record = await until_state(store, State.FAILED)
            assert (record.last_error or "").startswith(type(error).__name__)
            await until(lambda: [job.state for job in store.jobs] == [State.DONE, State.PENDING])
            assert store.jobs[0].attempts == 2

    virtual(main)()


@virtual
async def test_callbacks_and_chains_of_a_failed_attempt_are_forgotten() -> None:
    seen: list[int] = []

    async def handler(claim: Claim) -> None:
        claim.on_succeeded(lambda _: seen.append(claim.attempt))
        claim.chain(Job("other"))
        if claim.attempt < 3:
            raise ValueError

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: store.jobs[0].state is State.DONE)
    assert seen == [3]
    assert len(store.jobs) == 2


@virtual
async def test_a_callback_has_until_the_ceiling_of_the_attempt() -> None:
    async def handler(claim: Claim) -> None:
        claim.on_succeeded(lambda _: asyncio.sleep(1000))

    store = memory()
    options = KindOptions(max_attempts=1, attempt_timeout=2, max_execution_timeout=8)
    # The row is locked for longer than its lease lasts: whoever comes first behind that has it, the reaper or the outcome.
    async with queue(store, handler, options, reaper_period=60) as made:
        await made.enqueue(Job("t"))
        record = await until_state(store, State.DEAD)
        assert (record.last_error or "").startswith("MaxExecutionExceeded")
        assert asyncio.get_running_loop().time() == pytest.approx(8, abs=0.5)


@virtual
async def test_the_attempts_timeout_is_the_handlers_and_not_the_callbacks() -> None:
    """A handler that never waits, and a callback that takes longer than attempt_timeout."""

    async def handler(claim: Claim) -> None:
        claim.on_succeeded(lambda _: asyncio.sleep(4))

    store = memory()
    options = KindOptions(max_attempts=1, attempt_timeout=2, max_execution_timeout=8)
    async with queue(store, handler, options) as made:
        await made.enqueue(Job("t"))
        await until_state(store, State.DONE)


@virtual
async def test_a_job_canceled_before_its_closing_has_no_effects() -> None:
    seen: list[int] = []

    async def handler(claim: Claim) -> None:
        claim.on_succeeded(lambda _: seen.append(1))
        claim.chain(Job("other"))
        await store.cancel(claim.id)

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: made.metrics.settled["t", REFUSED] == 1)
    assert seen == []
    assert row(store).state is State.CANCELED


@virtual
async def test_an_outcome_refused_by_its_guard_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """C11."""
    caplog.set_level(logging.INFO, "brooq")

    async def handler(claim: Claim) -> None:
        await store.cancel(claim.id)

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: made.metrics.settled["t", REFUSED] == 1)
        assert made.health().well
    assert made.metrics.settled["t", "done"] == 0
    assert max(record.levelno for record in caplog.records) == logging.INFO


@pytest.mark.fault(29)
@pytest.mark.parametrize("closing", [False, True])
def test_an_outcome_survives_an_outage_shorter_than_the_lease(closing: bool) -> None:
    """C12 and fault 29."""

    async def main() -> None:
        runs = 0

        async def handler(claim: Claim) -> None:
            nonlocal runs
            runs += 1
            if closing:
                claim.on_succeeded(lambda _: None)
            store.before = StoreUnavailable("away")

        store = Moody()
        begin = store.begin

        async def away() -> Any:
            if store.before is not None:
                raise store.before
            return await begin()

        store.begin = away  # type: ignore[method-assign]
        async with queue(store, handler) as made:
            await made.enqueue(Job("t"))
            await until(lambda: runs == 1)
            await asyncio.sleep(2)
            assert row(store).state is State.PROCESSING
            store.before = None
            assert (await until_state(store, State.DONE)).attempts == 1
            await asyncio.sleep(5)
            assert runs == 1
            assert made.metrics.settled["t", "done"] == 1

    virtual(main)()


@virtual
async def test_a_lost_answer_is_resolved_by_the_row() -> None:
    events: list[Event] = []

    async def handler(_: Claim) -> None:
        store.after.append(OutcomeUnknown("lost"))

    store = Moody()
    made = queue(store, handler)
    made.listen(events.append)
    async with made:
        await made.enqueue(Job("t"))
        await until(lambda: made.metrics.settled["t", "done"] == 1)
        await asyncio.sleep(3)
    assert made.metrics.settled["t", REFUSED] == 0
    assert [type(event) for event in events].count(JobDone) == 1


@virtual
async def test_looking_up_the_row_may_fail_too() -> None:
    """Neither is an outcome told twice then, nor one forgotten whose lease would be renewed for ever."""
    events: list[Event] = []

    async def handler(claim: Claim) -> None:
        await asyncio.sleep(1)
        if claim.payload == "canceled":
            await store.cancel(claim.id)

    store = Moody()
    store.fates_fail = 3
    made = queue(store, handler, workers=4)
    made.listen(events.append)
    async with made:
        await made.enqueue_many([Job("t"), Job("t", "canceled"), Job("t")])
        await until(lambda: made.metrics.settled["t", REFUSED] == 1)
        await asyncio.sleep(3)
    assert store.fates_fail == 0
    assert made.metrics.settled["t", "done"] == 2
    assert [type(event) for event in events].count(JobDone) == 2


@pytest.mark.fault(13)
@virtual
async def test_an_error_that_the_database_refuses_is_recorded_with_another_text() -> None:
    """Fault 13, the whole kind: and neighbours in the same exchange are recorded as they are."""

    async def handler(claim: Claim) -> None:
        await asyncio.sleep(1)
        if claim.payload == "poison":
            raise ValueError("poison")

    store = Moody()
    async with queue(store, handler, KindOptions(max_attempts=2), workers=4) as made:
        await made.enqueue_many([Job("t"), Job("t", "poison"), Job("t"), Job("t", "poison")])
        await until(lambda: all(job.state.terminal for job in store.jobs))
        assert [job.state for job in store.jobs] == [State.DONE, State.DEAD, State.DONE, State.DEAD]
        assert [job.attempts for job in store.jobs] == [1, 2, 1, 2]
        assert store.jobs[1].last_error == UNRECORDABLE
        assert made.metrics.settled["t", "done"] == 2


@virtual
async def test_a_success_that_the_database_refuses_comes_back_when_its_lease_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(claim: Claim) -> None:
        store.before = StoreRefused("no") if claim.token == 1 else None

    store = Moody()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        await until(lambda: row(store).expired_leases == 1)
        await until_state(store, State.DONE)
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


@virtual
async def test_a_row_that_somebody_holds_locked_does_not_cost_the_neighbours() -> None:
    """F22: a frozen transaction on one row."""
    over = asyncio.Event()

    async def handler(claim: Claim) -> None:
        if claim.payload == "locked":
            tx = await store.begin()
            store._rows[claim.id].locked = tx
            await asyncio.sleep(1)
            asyncio.get_running_loop().create_task(_let_go(tx, over))
        else:
            await asyncio.sleep(1)

    store = memory()
    async with queue(store, handler, workers=4, lease=30) as made:
        await made.enqueue_many([Job("t"), Job("t", "locked"), Job("t")])
        await until(lambda: [job.state for job in store.jobs].count(State.DONE) == 2, 5)
        assert store.jobs[1].state is State.PROCESSING
        over.set()
        await until(lambda: store.jobs[1].state is State.DONE, 10)
        assert made.metrics.settled["t", "done"] == 3
        assert made.metrics.label("x") == OTHER


async def _let_go(tx: Tx, over: asyncio.Event) -> None:
    await over.wait()
    await tx.rollback()
