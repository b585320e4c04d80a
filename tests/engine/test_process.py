"""Handlers in child processes: what travels, how they are interrupted and killed, and what stays of those that die.

In real time, on a store in memory, with real processes.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.engine import process_handlers as handlers

from brooq import (
    Claim,
    Config,
    ConfigError,
    Event,
    Job,
    JobClaimed,
    JobDead,
    JobDone,
    JobRecord,
    KindOptions,
    Queue,
    State,
)
from brooq.testing import MemoryStore

GRACE = 0.6


class Ground:
    """A queue, and what it told."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "workers": 2, "poll_interval": 0.02, "max_attempts": 1, "watchdog_grace": GRACE, "shutdown_grace": 0.1,
        }  # fmt: skip
        self.store = MemoryStore()
        self.queue = Queue(self.store, Config(**(defaults | settings)), name="test")
        self.events: list[Event] = []
        self.queue.listen(self.events.append)

    def kind(self, handler: Callable[[Claim], Any], **options: Any) -> None:
        """The topic is the handler's name."""
        topic = handler.__name__.replace("_", "-")
        self.queue.register_kind(topic, handler, KindOptions(isolation="process", **options))

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Queue]:
        """Work; afterwards nothing is left of any process."""
        async with self.queue:
            yield self.queue
        await until(lambda: not children())

    async def result(self, topic: str, payload: Any = None) -> JobRecord:
        """Enqueue a job, wait for its end."""
        id, _ = await self.queue.enqueue(Job(topic, payload))
        return await self.end(id)

    async def end(self, id: Any) -> JobRecord:
        """The row of a job that has ended, or waits for another attempt."""
        record: JobRecord | None = None

        async def over() -> bool:
            nonlocal record
            record = await self.queue.find(id)
            return record is not None and (record.state.terminal or record.state is State.FAILED)

        async with asyncio.timeout(60):
            while not await over():  # noqa: ASYNC110  the store tells nobody
                await asyncio.sleep(0.01)
        assert record is not None
        return record


def children() -> list[psutil.Process]:
    """Child processes that run handlers, zombies included."""
    return [
        each
        for each in psutil.Process().children()
        if each.status() == psutil.STATUS_ZOMBIE or "brooq.engine.process" in " ".join(each.cmdline())
    ]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_handler_runs_in_another_process_which_is_used_again() -> None:
    """K3. No socket of the worker is inherited, and the process is a child of this one."""
    ground = Ground()
    ground.kind(handlers.tells, keep_result=True)
    ground.kind(handlers.tells_async, keep_result=True)
    ground.kind(handlers.typed, keep_result=True)
    async with ground.started():
        first = (await ground.result("tells", {"a": 2**70})).result
        second = (await ground.result("tells-async", "x")).result
        assert first["pid"] == second["pid"] != os.getpid() == first["parent"]
        assert (first["payload"], first["attempt"], first["current"]) == ({"a": 2**70}, 1, True)
        assert second["current"] is True
        assert len([file for file in first["files"] if file.startswith("socket:")]) == 1
        assert (await ground.result("typed", {"to": "x", "copies": 2})).result == "2 to x"
        record = await ground.result("typed", {"to": 3})
        assert record.last_error == "PayloadError: $.to: expected str, got int"
    kinds = [type(event) for event in ground.events]
    assert kinds == [JobClaimed, JobDone] * 3 + [JobClaimed, JobDead]


async def test_what_a_handler_raises_is_recorded_as_anywhere_else() -> None:
    ground = Ground()
    ground.kind(handlers.fails)
    ground.kind(handlers.wraps, max_attempts=2)
    ground.kind(handlers.calls_back)
    ground.kind(handlers.returns_nonsense, keep_result=True)
    ground.kind(handlers.returns_awaitable)
    async with ground.started() as queue:
        assert (await ground.result("fails", "ValueError")).last_error == "ValueError: no"
        assert (await ground.result("fails", "SystemExit")).last_error == "SystemExit: 3"
        assert (await ground.result("fails", "cancel")).state is State.CANCELED
        given_up = await ground.result("wraps", "give up")
        assert (given_up.state, given_up.attempts, given_up.last_error) == (State.DEAD, 1, "RuntimeError: wrapped")
        delayed = await ground.result("wraps", "delay")
        assert (delayed.available_at - delayed.updated_at).total_seconds() == 7
        assert "claim.chain" in ((await ground.result("calls-back")).last_error or "")
        assert "$.when" in ((await ground.result("returns-nonsense")).last_error or "")
        assert "async def" in ((await ground.result("returns-awaitable")).last_error or "")
        assert queue.health().well


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (handlers.leaves, "exited with code 7"),
        (handlers.crashes, "killed by SIGSEGV"),
        (handlers.kills_itself, "killed by SIGKILL"),
    ],
)
async def test_a_process_that_dies_is_a_recorded_failure(handler: Callable[[Claim], Any], said: str) -> None:
    """I6: with the signal or the code, the peak of memory, and for a crash the Python stack."""
    ground = Ground(workers=1, max_attempts=2, backoff_base=0.01)
    ground.kind(handler)
    ground.kind(handlers.tells)
    topic = handler.__name__.replace("_", "-")
    async with ground.started():
        id, _ = await ground.queue.enqueue(Job(topic))
        await until(lambda: ground.store.jobs[0].state is State.DEAD)
        record = await ground.end(id)
        assert record.attempts == 2
        assert record.last_error is not None
        assert record.last_error.startswith(f"ProcessDied: {said} after ")
        assert "peak memory " in record.last_error
        assert ("it was in string_at" in record.last_error and "crashes (" in record.last_error) == (
            handler is handlers.crashes
        )
        assert (await ground.result("tells")).state is State.DONE


@pytest.mark.parametrize("handler", [handlers.deaf, handlers.pauses])
async def test_what_ignores_everything_is_killed_within_its_grace_and_costs_no_neighbour(
    handler: Callable[[Claim], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """I5: C code that never returns, with every signal blocked; once it holds the interpreter's lock, once not."""
    ground = Ground()
    ground.kind(handler, attempt_timeout=1, max_attempts=2, backoff_base=60)
    ground.kind(handlers.waits, attempt_timeout=30)
    ground.kind(handlers.tells)
    neighbour, victim = tmp_path / "neighbour", tmp_path / "victim"
    async with ground.started() as queue:
        await queue.enqueue(Job("waits", str(neighbour)))
        await until(neighbour.exists)
        await ground.result("tells")  # now there is a process that has started already
        record = await ground.result(handler.__name__, str(victim))
        assert victim.exists()
        assert record.state is State.FAILED
        assert record.last_error is not None
        assert record.last_error.startswith("AttemptTimeout: the attempt ran longer than 1 s; killed by SIGKILL after ")
        assert f"{handler.__name__} ({handlers.__file__}:" in record.last_error
        # The slot works again, and the other one lost nothing.
        assert (await ground.result("tells")).state is State.DONE
        assert [each.state for each in ground.store.jobs if each.topic == "waits"] == [State.PROCESSING]
        assert queue.metrics.hung[handler.__name__] == 1
        assert queue.busy() == {"waits": 1, handler.__name__: 0, "tells": 0}
    assert any("is killed" in record.message for record in caplog.records if record.levelno == logging.ERROR)


@pytest.mark.parametrize("handler", [handlers.looks, handlers.waits, handlers.sleeps])
async def test_an_interruption_is_asked_for_before_anything_is_killed(
    handler: Callable[[Claim], Any], tmp_path: Path
) -> None:
    """I1, I3: `wait_canceled` and a coroutine's cancellation come at once, SIGTERM after half of the grace. Here the job
    was canceled: the lease is lost, and nothing is written."""
    ground = Ground(lease=0.6, watchdog_grace=2 if handler is handlers.sleeps else 600)
    ground.kind(handler)
    topic, place = handler.__name__, tmp_path / "place"
    async with ground.started() as queue:
        id, _ = await queue.enqueue(Job(topic, str(place)))
        await until(place.exists)
        assert (await queue.cancel(id)).canceled
        await until(lambda: queue.busy() == {topic: 0})
        assert place.read_text() == ("" if handler is handlers.sleeps else "LeaseLost")
        assert queue.metrics.hung[topic] == 0
        assert (await ground.end(id)).state is State.CANCELED


async def test_a_stop_hands_jobs_back_and_leaves_no_process(tmp_path: Path) -> None:
    """U3, also of a handler that does not hear of it."""
    ground = Ground(watchdog_grace=2)
    ground.kind(handlers.pauses, attempt_timeout=60)
    async with ground.started() as queue:
        await queue.enqueue(Job("pauses", str(tmp_path / "x")))
        await until((tmp_path / "x").exists)
        await queue.stop()
        assert not queue.abandoned
        assert not children()
    (record,) = ground.store.jobs
    assert (record.state, record.attempts, record.last_error) == (State.PENDING, 0, None)


async def test_the_ceiling_kills_what_its_timeout_did_not_end(tmp_path: Path) -> None:
    """I2."""
    ground = Ground(watchdog_grace=60)
    ground.kind(handlers.pauses, attempt_timeout=0.2, max_execution_timeout=0.5)
    async with ground.started():
        record = await ground.result("pauses", str(tmp_path / "x"))
        assert (record.last_error or "").startswith("MaxExecutionExceeded: ")
        assert "killed by SIGKILL" in (record.last_error or "")


async def test_a_handler_over_its_ceiling_of_memory_is_killed() -> None:
    ground = Ground()
    ground.kind(handlers.eats, max_memory=64 * 1024 * 1024)
    async with ground.started():
        record = await ground.result("eats")
        assert record.last_error is not None
        assert "max_memory is 64 MiB; killed by SIGKILL" in record.last_error
        assert "eats (" in record.last_error


async def test_what_a_killed_handler_has_started_goes_with_it(tmp_path: Path) -> None:
    ground = Ground(lease=0.6, watchdog_grace=0.2)
    ground.kind(handlers.breeds)
    place = tmp_path / "pid"
    async with ground.started() as queue:
        id, _ = await queue.enqueue(Job("breeds", str(place)))
        await until(lambda: place.exists() and place.read_text())
        pid = int(place.read_text())
        await queue.cancel(id)
        await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


async def test_a_process_is_replaced_after_so_many_jobs() -> None:
    ground = Ground(workers=1)
    ground.kind(handlers.tells, keep_result=True, recycle_jobs=2)
    async with ground.started():
        pids = [(await ground.result("tells")).result["pid"] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_a_process_that_died_while_it_waited_costs_no_job() -> None:
    ground = Ground(workers=1)
    ground.kind(handlers.tells, keep_result=True)
    async with ground.started():
        pid = (await ground.result("tells")).result["pid"]
        psutil.Process(pid).kill()
        record = await ground.result("tells")
        assert record.state is State.DONE
        assert record.result["pid"] != pid


async def test_records_of_the_log_come_to_the_worker_bound_to_their_job(caplog: pytest.LogCaptureFixture) -> None:
    """V3."""
    ground = Ground()
    ground.kind(handlers.logs)
    async with ground.started():
        record = await ground.result("logs", "reader")
    first, second = (each for each in caplog.records if each.name == "tests.process")
    assert first.getMessage() == "dear reader"
    assert (first.job, first.topic, first.attempt, first.letters) == (str(record.id), "logs", 1, 3)  # type: ignore[attr-defined]
    assert first.process != os.getpid()
    assert second.exc_info
    assert "as an example" in caplog.text


async def test_chained_jobs_come_back_whole() -> None:
    """C9."""
    ground = Ground()
    ground.kind(handlers.chains)
    async with ground.started():
        assert (await ground.result("chains")).state is State.DONE
    chained = next(each for each in ground.store.jobs if each.topic == "next")
    assert chained.payload == {"big": 2**100, "float": 1e16}
    assert (chained.idempotency_key, chained.tags, chained.metadata) == ("one", ("a",), {"b": 1})


async def test_what_a_worker_denies_to_others_its_processes_deny_too() -> None:
    """S4."""
    ground = Ground()
    ground.kind(handlers.hides, keep_result=True)
    libc = ctypes.CDLL(None)
    before = libc.prctl(3, 0, 0, 0, 0)
    async with ground.started():
        assert (await ground.result("hides")).result == before
    ground = Ground()
    ground.kind(handlers.hides, keep_result=True)
    libc.prctl(4, 0, 0, 0, 0)
    try:
        async with ground.started():
            assert (await ground.result("hides")).result == 0
    finally:
        libc.prctl(4, before, 0, 0, 0)


WORKER = """
import asyncio, sys
from tests.engine import process_handlers as handlers
from brooq import Config, Job, KindOptions, Queue
from brooq.testing import MemoryStore

async def main():
    queue = Queue(MemoryStore(), Config(poll_interval=0.02))
    queue.register_kind("deaf", handlers.deaf, KindOptions(isolation="process"))
    await queue.enqueue(Job("deaf", sys.argv[1]))
    async with queue:
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_handler_that_hears_nothing_dies_with_its_worker(tmp_path: Path) -> None:
    """SIGKILL to the worker: nobody is left to kill anything."""
    place = tmp_path / "place"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(place)], cwd=Path(__file__).parents[2])  # noqa: ASYNC220
    try:
        await until(place.exists)
        (child,) = psutil.Process(worker.pid).children()
    finally:
        worker.kill()
        worker.wait()
    await until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


class Holder:
    """An object with a method."""

    def handle(self, claim: Claim) -> None:
        """Bound to its object."""


@pytest.mark.parametrize(
    "handler", [lambda claim: None, partial(handlers.tells), Holder().handle], ids=["lambda", "partial", "method"]
)
async def test_what_has_no_import_path_is_refused_at_the_start(handler: Any) -> None:
    ground = Ground()
    ground.queue.register_kind("t", handler, KindOptions(isolation="process"))
    with pytest.raises(ConfigError, match=r"import path|would not find"):
        await ground.queue.start()
    assert not ground.queue.health().running


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "thread"}, "isolation"),
        ({"isolation": "process", "max_memory": 512}, "max_memory"),
        ({"isolation": "process", "recycle_jobs": 0}, "recycle_jobs"),
        ({"recycle_jobs": 5}, "isolation='process'"),
        ({"keep_result": 1}, "keep_result"),
        ({"quarantine_after": 0}, "quarantine_after"),
    ],
)
def test_wrong_options_are_refused_at_registration(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Queue(MemoryStore()).register_kind("t", handlers.tells, KindOptions(**options))
