"""Handlers that are plain functions: in threads of the engine, which nothing stops and everything tells."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from brooq import (
    Claim,
    Config,
    Event,
    Job,
    JobCanceled,
    JobClaimed,
    JobDead,
    JobDone,
    JobFailed,
    JobFilter,
    JobRequeued,
    KindOptions,
    MustCancel,
    Queue,
    State,
    current_claim,
)
from brooq.engine.thread import Threads
from brooq.testing import MemoryStore

SEEN: ContextVar[str] = ContextVar("SEEN", default="nobody")


def made(handler: Callable[[Claim], Any], options: KindOptions | None = None, **settings: Any) -> Queue:
    """A queue with the kind `t`, in real time."""
    defaults: dict[str, Any] = {"poll_interval": 0.02, "max_attempts": 1, "shutdown_grace": 0.1, "watchdog_grace": 5}
    queue = Queue(MemoryStore(), Config(**(defaults | settings)))
    queue.register_kind("t", handler, options)
    return queue


def jobs(queue: Queue) -> list[Any]:
    """Every row."""
    assert isinstance(queue.store, MemoryStore)
    return queue.store.jobs


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_plain_function_blocks_nobody() -> None:
    """K3: as many at once as there are slots, each in a thread of its own that is not asyncio's."""
    barrier = threading.Barrier(3)
    names: set[str] = set()

    def handler(claim: Claim) -> None:
        names.add(threading.current_thread().name)
        assert current_claim() is claim
        barrier.wait(20)  # nobody gets past it alone

    queue = made(handler, workers=3)
    for _ in range(6):
        await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: all(job.state is State.DONE for job in jobs(queue)))
    assert names == {"brooq-handler"}
    await until(lambda: not handler_threads())


def handler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "brooq-handler"]


async def test_threads_are_made_when_they_are_needed_and_end_with_the_worker() -> None:
    queue = made(lambda _: None, workers=8)
    async with queue:
        assert not handler_threads()
        for _ in range(20):
            await queue.enqueue(Job("t"))
            await until(lambda: all(job.state is State.DONE for job in jobs(queue)))
        assert len(handler_threads()) == 1  # one job at a time needs no more
    await until(lambda: not handler_threads())


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration(), MustCancel()])
async def test_whatever_a_plain_function_raises_is_its_outcome(error: BaseException) -> None:
    """C10."""

    def handler(_: Claim) -> None:
        raise error

    queue = made(handler)
    await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: jobs(queue)[0].state.terminal)
        assert queue.health().well
    (record,) = jobs(queue)
    assert record.state is (State.CANCELED if isinstance(error, MustCancel) else State.DEAD)
    if isinstance(error, ValueError):
        assert record.last_error == "ValueError: no"


async def test_the_timeout_is_told_and_decides() -> None:
    """I1, I2: a thread that looks ends early; what it makes of it does not matter."""
    told: list[object] = []

    def handler(claim: Claim) -> str:
        assert not claim.canceled()
        assert not claim.wait_canceled(0.001)
        told.extend((claim.wait_canceled(60), claim.canceled(), type(claim.interruption).__name__))
        return "as if nothing were"

    queue = made(handler, KindOptions(attempt_timeout=0.05))
    await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: jobs(queue)[0].state.terminal)
    assert told == [True, True, "AttemptTimeout"]
    assert jobs(queue)[0].last_error == "AttemptTimeout: the attempt ran longer than 0.05 s"


async def test_a_thread_that_does_not_look_is_hung_and_keeps_its_slot(caplog: pytest.LogCaptureFixture) -> None:
    """I5."""
    let_go = threading.Event()
    queue = made(
        lambda _: let_go.wait(60), KindOptions(attempt_timeout=0.05, max_execution_timeout=0.2), watchdog_grace=0.05
    )
    await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: queue.metrics.hung["t"] == 1)
        await until(lambda: jobs(queue)[0].state is State.DEAD)
        assert queue.busy() == {"t": 1}
        let_go.set()
        await until(lambda: queue.busy() == {"t": 0})
    assert "has not exited" in caplog.text


async def test_a_stop_does_not_wait_for_a_thread_that_does_not_look() -> None:
    """U3."""
    begun, let_go = threading.Event(), threading.Event()

    def handler(_: Claim) -> None:
        begun.set()
        let_go.wait(60)

    queue = made(handler, watchdog_grace=0.1)
    await queue.enqueue(Job("t"))
    await queue.start()
    await until(begun.is_set)
    await queue.close()
    assert [entry.split()[0] for entry in queue.abandoned] == ["t"]
    let_go.set()
    assert jobs(queue)[0].state is State.PENDING


async def test_callbacks_and_chained_jobs_work_from_a_thread() -> None:
    """C9."""
    told: list[str] = []

    def handler(claim: Claim) -> None:
        claim.on_succeeded(lambda tx: told.append(type(tx).__name__))
        claim.chain(Job("next"))

    queue = made(handler)
    await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: jobs(queue)[0].state is State.DONE)
    assert told == ["MemoryTx"]
    assert [job.topic for job in jobs(queue)] == ["t", "next"]


async def test_a_function_that_answers_a_coroutine_has_failed() -> None:
    async def inner(_: Claim) -> None:
        """Never runs."""

    queue = made(lambda claim: inner(claim))  # noqa: PLW0108  a plain function
    await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: jobs(queue)[0].state.terminal)
    assert "async def" in jobs(queue)[0].last_error


@pytest.mark.parametrize("waits", [False, True])
async def test_the_claim_is_in_the_context_of_coroutines_and_their_tasks(waits: bool) -> None:
    """V3: and of nobody else's, not of the handler that comes next in the same task."""
    seen: list[object] = []

    async def part() -> None:
        seen.append(current_claim())

    async def handler(claim: Claim) -> None:
        late.append(asyncio.create_task(part()))
        if waits:
            await asyncio.sleep(0.001)
        seen.append(current_claim() is claim)

    late: list[asyncio.Task[None]] = []
    queue = made(handler, workers=1)
    await queue.enqueue_many([Job("t"), Job("t")])
    async with queue:
        await until(lambda: all(job.state is State.DONE for job in jobs(queue)))
        await asyncio.gather(*late)
    claims = [each for each in seen if isinstance(each, Claim)]
    assert [claim.id for claim in claims] == [job.id for job in jobs(queue)]
    assert seen.count(True) == 2
    assert current_claim() is None


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_records_made_in_a_handler_are_bound_to_its_job(kind: str) -> None:
    """V3."""
    records: list[logging.LogRecord] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    log, collector = logging.getLogger("consumer"), Collector()
    collector.addFilter(JobFilter())
    log.addHandler(collector)

    def in_thread(claim: Claim) -> None:
        log.error("here")

    async def in_loop(claim: Claim) -> None:
        log.error("here")

    queue = made(in_thread if kind == "thread" else in_loop)
    id, _ = await queue.enqueue(Job("t"))
    async with queue:
        await until(lambda: jobs(queue)[0].state is State.DONE)
    log.error("outside")
    log.removeHandler(collector)
    assert [(getattr(each, "job", None), getattr(each, "attempt", None)) for each in records] == [
        (str(id), 1),
        (None, None),
    ]


async def test_every_event_of_a_jobs_life_is_told() -> None:
    """V3: of a kind in threads, a listener that raises in between."""
    events: list[Event] = []
    begun = threading.Event()

    def handler(claim: Claim) -> None:
        if claim.payload == "fails":
            raise ValueError
        if claim.payload == "cancels":
            raise MustCancel
        if claim.payload == "stops":
            begun.set()
            claim.wait_canceled(60)

    def breaks(event: Event) -> None:
        raise RuntimeError("a listener")

    queue = made(handler, KindOptions(max_attempts=2, backoff_base=0.01))
    queue.listen(breaks)
    queue.listen(events.append)
    await queue.enqueue_many([Job("t", payload) for payload in ("fails", "cancels", "well", "stops")])
    async with queue:
        await until(lambda: sum(job.state.terminal for job in jobs(queue)) == 3 and begun.is_set())
    told = {type(event) for event in events}
    assert told == {JobClaimed, JobDone, JobFailed, JobDead, JobCanceled, JobRequeued}


async def test_a_thread_is_not_lost_when_work_comes_as_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle threads leave after a while; work put at that very moment is done all the same."""
    monkeypatch.setattr("brooq.engine.thread.IDLE", 0.001)
    threads = Threads("brooq-handler")
    for number in range(300):
        assert await threads.run(lambda n: n, number) == number
        if number % 3 == 0:
            time.sleep(0.001)  # noqa: ASYNC251  the race itself
    await until(lambda: not handler_threads())
    with contextlib.suppress(asyncio.CancelledError):
        threads.close()
