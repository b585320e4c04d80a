"""The worker on a store in memory, under virtual time: endings, deadlines, interruptions, shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.parts import memory, queue, row, until, until_state
from tests.simulation.virtual import virtual

from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Cancellation, Job, State
from brooq.vocabulary.kind import KindOptions
from brooq.vocabulary.signal import AttemptTimeout, LeaseLost, MaxExecutionExceeded, MustCancel, ShuttingDown

LONG = KindOptions(max_attempts=2, attempt_timeout=1000, max_execution_timeout=1000)


class Custom(BaseException):
    """No Exception."""


# --- endings ---


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    "make",
    [SystemExit, KeyboardInterrupt, GeneratorExit, Custom, RecursionError, MemoryError, StopIteration,
     asyncio.CancelledError, StopAsyncIteration],
)  # fmt: skip
@pytest.mark.parametrize("waits", [False, True])
def test_whatever_a_handler_raises_is_a_recorded_failure(
    make: type[BaseException], waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Fault 9."""

    async def handler(claim: Claim) -> None:
        if waits:
            await asyncio.sleep(0.1)
        if claim.payload == "bad":
            raise make()

    async def main() -> None:
        store = memory()
        async with queue(store, handler, KindOptions(max_attempts=2)) as made:
            bad = await made.enqueue(Job("t", "bad"))
            await until(lambda: store.jobs[0].state is State.FAILED)
            await until(lambda: store.jobs[0].state is State.DEAD)
            expected = "RuntimeError" if make is StopIteration else make.__name__
            assert (store.jobs[0].last_error or "").startswith(expected)
            assert made.busy() == {"t": 0}
            good = await made.enqueue(Job("t", "good"))
            await until(lambda: store.jobs[1].state is State.DONE)
            assert bad.id != good.id
            assert made.health().well
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 2
        assert all(record.exc_info for record in errors)

    virtual(main)()


@pytest.mark.fault(12)
@virtual
async def test_a_signal_out_of_a_task_group_cancels_the_job() -> None:
    """Fault 12."""

    async def handler(_: Claim) -> None:
        async def part() -> None:
            raise MustCancel("pointless")

        async with asyncio.TaskGroup() as group:
            group.create_task(part())

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue(Job("t"))
        assert (await until_state(store, State.CANCELED)).last_error is None


@pytest.mark.fault(12)
@virtual
async def test_a_handlers_own_timeout_is_an_ordinary_failure() -> None:
    """Fault 12: TimeoutError is not the engine's deadline."""

    async def handler(_: Claim) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)

    store = memory()
    async with queue(store, handler, KindOptions(max_attempts=1)) as made:
        await made.enqueue(Job("t"))
        assert (await until_state(store, State.DEAD)).last_error == "TimeoutError"


@pytest.mark.fault(15)
@virtual
async def test_a_payload_that_cannot_be_read_is_a_failure() -> None:
    async def handler(claim: Claim) -> None:
        assert claim.payload

    store = memory()
    made = queue(store, handler, KindOptions(max_attempts=1))
    await made.enqueue(Job("t", {"a": 1}))
    for each in store._rows.values():
        each.source = "{broken"
    async with made:
        assert "PayloadError" in ((await until_state(store, State.DEAD)).last_error or "")


@virtual
async def test_slots_bound_how_many_run_at_once() -> None:
    running = most = 0

    async def handler(_: Claim) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    store = memory()
    async with queue(store, handler, workers=3) as made:
        await made.enqueue_many([Job("t") for _ in range(10)])
        await until(lambda: made.busy() == {"t": 3})
        await until(lambda: all(job.state is State.DONE for job in store.jobs))
    assert most == 3
    assert all(job.attempts == 1 for job in store.jobs)


@pytest.mark.fault(50)
@virtual
async def test_a_task_that_nobody_keeps_does_not_stop_the_worker() -> None:
    """Fault 50: garbage collection in a handler."""

    async def handler(_: Claim) -> None:
        gc.collect()
        await asyncio.sleep(0.1)
        gc.collect()

    store = memory()
    async with queue(store, handler) as made:
        await made.enqueue_many([Job("t") for _ in range(5)])
        await until(lambda: all(job.state is State.DONE for job in store.jobs))


# --- deadlines ---


@virtual
async def test_an_attempt_that_runs_too_long_is_interrupted_and_has_failed() -> None:
    seen: list[Claim] = []

    async def handler(claim: Claim) -> None:
        seen.append(claim)
        await asyncio.sleep(1000)

    store = memory()
    async with queue(store, handler, KindOptions(max_attempts=2, attempt_timeout=5)) as made:
        await made.enqueue(Job("t"))
        record = await until_state(store, State.FAILED)
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.3)
        assert (record.last_error or "").startswith("AttemptTimeout: ")
        await until_state(store, State.DEAD)
    assert [type(claim.interruption) for claim in seen] == [AttemptTimeout] * 2


@virtual
async def test_the_ceiling_is_recorded_while_the_handler_still_runs() -> None:
    over = asyncio.Event()
    seen: list[Claim] = []

    async def handler(claim: Claim) -> None:
        seen.append(claim)
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                pass

    store = memory()
    options = KindOptions(max_attempts=1, attempt_timeout=5, max_execution_timeout=8)
    async with queue(store, handler, options, watchdog_grace=20) as made:
        await made.enqueue(Job("t"))
        record = await until_state(store, State.DEAD)
        assert asyncio.get_running_loop().time() == pytest.approx(8, abs=0.3)
        assert (record.last_error or "").startswith("MaxExecutionExceeded: ")
        assert isinstance(seen[0].interruption, MaxExecutionExceeded)
        assert made.busy() == {"t": 1}
        over.set()
        await until(lambda: made.busy() == {"t": 0})
        await asyncio.sleep(5)
        assert row(store) == record
        assert made.metrics.hung["t"] == 0


@pytest.mark.fault(42)
@virtual
async def test_a_hung_handler_is_told_of_and_its_late_outcome_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Fault 42."""
    over, runs = asyncio.Event(), 0

    async def handler(_: Claim) -> None:
        nonlocal runs
        runs += 1
        while runs == 1 and not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                pass

    store = memory()
    options = KindOptions(max_attempts=3, attempt_timeout=5, max_execution_timeout=8)
    async with queue(store, handler, options, workers=1, watchdog_grace=6) as made:
        await made.enqueue(Job("t"))
        await until_state(store, State.FAILED)
        await until(lambda: made.metrics.hung["t"] == 1)
        assert asyncio.get_running_loop().time() == pytest.approx(11, abs=0.3)
        assert made.health().slots_hung
        assert not made.health().well
        assert made.busy() == {"t": 1}
        hung = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert str(row(store).id) in hung[-1].getMessage()
        over.set()
        record = await until_state(store, State.DONE)
        assert (runs, record.attempts, record.claim_seq) == (2, 2, 2)
        assert made.health().well
        assert made.metrics.settled["t", "done"] == 1


# --- lost leases and cancellation ---


@virtual
async def test_a_handler_whose_lease_is_lost_is_interrupted_and_writes_nothing() -> None:
    seen: list[Claim] = []

    async def handler(claim: Claim) -> None:
        seen.append(claim)
        await asyncio.sleep(1000 if claim.token == 1 else 0)

    store = memory()
    async with queue(store, handler, LONG, workers=1) as made:
        await made.enqueue(Job("t"))
        await until_state(store, State.PROCESSING)
        each = store._rows[row(store).id]
        each.record = replace(each.record, state=State.PENDING, locked_by=None, locked_until=None)
        record = await until_state(store, State.DONE, 3)
        assert (record.claim_seq, record.last_error) == (2, None)
        assert isinstance(seen[0].interruption, LeaseLost)
        assert made.metrics.lease_lost["t"] == 1


async def _honours(_: Claim) -> None:
    await asyncio.sleep(1000)


async def _raises(_: Claim) -> None:
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        raise ValueError("while canceled") from None


async def _returns(_: Claim) -> None:
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        return


async def _ignores(_: Claim) -> None:
    for _again in range(3):
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            continue


@pytest.mark.fault(40)
@pytest.mark.parametrize("handler", [_honours, _raises, _returns, _ignores], ids=lambda each: each.__name__)
def test_a_canceled_job_stays_canceled_whatever_its_handler_does(handler: Callable[[Claim], Awaitable[None]]) -> None:
    """Fault 40."""

    async def main() -> None:
        store = memory()
        async with queue(store, handler, LONG) as made:
            id = (await made.enqueue(Job("t"))).id
            await until_state(store, State.PROCESSING)
            await asyncio.sleep(5.2)
            assert await made.cancel(id) == Cancellation(True, State.PROCESSING, "t")
            assert await made.cancel(id) == Cancellation(False, State.CANCELED, "t")
            at = asyncio.get_running_loop().time()
            await until(lambda: made.metrics.lease_lost["t"] == 1)
            assert asyncio.get_running_loop().time() - at <= 1.02
            canceled = row(store)
            await until(lambda: made.busy() == {"t": 0})
            await asyncio.sleep(10)
            assert row(store) == canceled
            assert canceled.last_error is None

    virtual(main)()


@pytest.mark.fault(40)
@virtual
async def test_a_terminal_job_is_not_canceled() -> None:
    """Fault 40."""

    async def handler(claim: Claim) -> None:
        if claim.payload == "bad":
            raise ValueError

    store = memory()
    async with queue(store, handler, KindOptions(max_attempts=1)) as made:
        for payload, state in (("good", State.DONE), ("bad", State.DEAD)):
            id = (await made.enqueue(Job("t", payload))).id
            await until(lambda: store.jobs[-1].state.terminal)
            before = store.jobs[-1]
            assert await made.cancel(id) == Cancellation(False, state, "t")
            assert store.jobs[-1] == before


class LateAnswer(MemoryStore):
    """Claims at once, and answers when the lease is over."""

    late = True

    async def exchange(self, *arguments: Any) -> Any:
        answer = await super().exchange(*arguments)
        if answer.taken and self.late:
            self.late = False
            await asyncio.sleep(4)
        return answer


@virtual
async def test_a_job_whose_lease_is_over_when_its_claim_is_answered_is_not_started() -> None:
    runs: list[int] = []

    async def handler(claim: Claim) -> None:
        runs.append(claim.token)

    store = LateAnswer(memory().clock)
    async with queue(store, handler, reaper_period=100) as made:
        await asyncio.sleep(0.1)
        await made.enqueue(Job("t"))
        record = await until_state(store, State.DONE)
        assert runs == [2]
        assert (record.attempts, record.expired_leases) == (1, 0)
        assert made.metrics.lease_lost["t"] == 0


# --- shutdown ---


@virtual
async def test_a_stop_lets_handlers_end_within_the_grace() -> None:
    async def handler(_: Claim) -> None:
        await asyncio.sleep(5)

    store = memory()
    made = queue(store, handler)
    await made.start()
    await made.enqueue(Job("t"))
    await until_state(store, State.PROCESSING)
    await made.enqueue(Job("t"))
    await made.enqueue(Job("t"))
    await until(lambda: made.busy() == {"t": 2})
    await made.stop(10)
    assert [job.state for job in store.jobs] == [State.DONE, State.DONE, State.PENDING]
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.5)
    assert made.abandoned == []


@pytest.mark.fault(36)
@virtual
async def test_five_deploys_and_one_failure_are_one_attempt() -> None:
    """Fault 36."""
    seen: list[Claim] = []

    async def handler(claim: Claim) -> None:
        seen.append(claim)
        if len(seen) > 5:
            raise ValueError("for real")
        await asyncio.sleep(60)

    store = memory()
    made = queue(store, handler, KindOptions(max_attempts=5))
    await made.enqueue(Job("t"))
    for _ in range(5):
        await made.start()
        await until_state(store, State.PROCESSING)
        begun = asyncio.get_running_loop().time()
        await made.stop(2)
        assert asyncio.get_running_loop().time() - begun == pytest.approx(2, abs=0.1)
        assert (row(store).state, row(store).attempts, row(store).locked_by) == (State.PENDING, 0, None)
    assert all(isinstance(claim.interruption, ShuttingDown) for claim in seen)
    await made.start()
    record = await until_state(store, State.FAILED)
    assert (record.attempts, record.claim_seq) == (1, 6)
    await made.close()


@pytest.mark.fault(36)
@virtual
async def test_a_second_stop_ends_the_grace() -> None:
    """Fault 36: the second signal."""

    async def handler(_: Claim) -> None:
        await asyncio.sleep(1000)

    store = memory()
    made = queue(store, handler, LONG)
    await made.start()
    await made.enqueue(Job("t"))
    await until_state(store, State.PROCESSING)
    begun = asyncio.get_running_loop().time()
    first = asyncio.ensure_future(made.stop(500))
    await asyncio.sleep(1)
    await made.stop()
    await first
    assert asyncio.get_running_loop().time() - begun == pytest.approx(1, abs=0.1)
    assert (row(store).state, row(store).attempts) == (State.PENDING, 0)


class SlowClaim(MemoryStore):
    """Its answers take time; what it takes is taken before."""

    async def exchange(self, *arguments: Any) -> Any:
        answer = await super().exchange(*arguments)
        await asyncio.sleep(0.5)
        return answer


@pytest.mark.fault(36)
@virtual
async def test_what_was_claimed_and_never_started_goes_straight_back() -> None:
    """Fault 36."""
    runs = 0

    async def handler(_: Claim) -> None:
        nonlocal runs
        runs += 1

    store = SlowClaim(memory().clock)
    made = queue(store, handler)
    await store.enqueue(None, [Job("t"), Job("t")])
    await made.start()
    await until(lambda: all(job.state is State.PROCESSING for job in store.jobs))
    await made.stop()
    assert runs == 0
    assert [(job.state, job.attempts) for job in store.jobs] == [(State.PENDING, 0)] * 2


@pytest.mark.fault(39)
@virtual
async def test_a_handler_that_ignores_the_shutdown_does_not_keep_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Fault 39: the variant with a coroutine."""
    over = asyncio.Event()

    async def handler(_: Claim) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                pass

    store = memory()
    made = queue(store, handler, LONG)
    await made.start()
    await made.enqueue(Job("t"))
    await until_state(store, State.PROCESSING)
    begun = asyncio.get_running_loop().time()
    await made.stop(3)
    assert asyncio.get_running_loop().time() - begun <= 3 + 2 + 0.5
    assert made.abandoned == [f"t {row(store).id}"]
    assert made.metrics.hung["t"] == 1
    assert (row(store).state, row(store).attempts) == (State.PENDING, 0)
    assert [record.levelno for record in caplog.records if "t)" in record.getMessage()] == [logging.ERROR]
    before = row(store)
    over.set()
    await asyncio.sleep(10)
    assert row(store) == before
