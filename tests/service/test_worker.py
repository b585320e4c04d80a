"""The worker process: it starts without a database, stops in order, and never stays (requirements U1, U3, C10)."""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.database import Server
from tests.service.brooq_process import Table, brooq, worker, write

from brooq.postgres.local import LocalPostgres
from brooq.service.sentinel import MARGIN


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder for modules of an application."""
    return tmp_path


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_the_demo_kind_logs_its_payload_and_sigterm_ends_it_well(
    dsn: str, table: Table, tmp_path: Path, driver: str
) -> None:
    with worker(dsn=dsn, cwd=tmp_path, QUEUE_DRIVER=driver) as process:
        id = table.insert("demo", '{"hello": "a\\nb"}')
        record = process.wait_for(f"demo job {id}")
        assert (record["job"], record["topic"]) == (str(id), "demo")
        table.wait(id, "done")
        answer = httpx.get(f"http://127.0.0.1:{process.port()}/healthz", trust_env=False)
        assert (answer.status_code, answer.json()["well"]) == (200, True)
        process.send()
        assert process.exit_code() == 0
        assert all(line["level"] == "info" for line in process.lines), process.log


def test_sigint_ends_it_as_sigterm_does(dsn: str, tmp_path: Path) -> None:
    with worker(dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("has started")
        process.send(signal.SIGINT)
        assert process.exit_code() == 0


def test_a_handler_that_ends_within_the_grace_is_done(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        @queue.kind("slow")
        async def slow(claim: Claim) -> None:
            print("begun", flush=True)
            await asyncio.sleep(0.5)
    """)  # fmt: skip
    id = table.insert("slow")
    waiting = table.insert("slow")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        process.send()
        assert process.exit_code() == 0
    assert table.row(id) == ("done", 1, None)
    assert table.row(waiting) == ("pending", 0, None)


def test_a_handler_that_does_not_is_interrupted_and_its_attempt_is_given_back(
    dsn: str, table: Table, app: Path
) -> None:
    write(app, """
        @queue.kind("slow")
        async def slow(claim: Claim) -> None:
            print("begun", flush=True)
            await asyncio.sleep(600)
    """)  # fmt: skip
    id = table.insert("slow")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        sent = process.send()
        assert process.exit_code() == 0
        assert 0.9 < time.monotonic() - sent < 1 + MARGIN
    assert table.row(id) == ("pending", 0, None)


@pytest.mark.fault(36)
def test_five_deploys_cost_no_attempt(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        @queue.kind("slow", max_attempts=5)
        async def slow(claim: Claim) -> None:
            print("begun", flush=True)
            if os.environ.get("FAIL"):
                raise ValueError("once, for real")
            await asyncio.sleep(600)
    """)  # fmt: skip
    id = table.insert("slow")
    others = [table.insert("slow") for _ in range(4)]
    for _ in range(5):
        with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
            process.wait_for("begun")
            process.send()
            process.wait_for("stopping")
            process.send()
            assert process.exit_code(2 + MARGIN) == 1  # a second signal is no clean end
        assert [table.row(each) for each in (id, *others)] == [("pending", 0, None)] * 5
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app, FAIL="1") as process:
        process.wait_for("attempt 1 failed")
        state, attempts, error = table.wait(id, "failed")
    assert (state, attempts) == ("failed", 1)
    assert error == "ValueError: once, for real"


@pytest.mark.fault(36)
def test_a_second_signal_does_not_wait_for_the_grace(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        queue = Queue(PostgresStore(pool), Config(lease=30, poll_interval=0.1, shutdown_grace=300))
        @queue.kind("slow")
        async def slow(claim: Claim) -> None:
            print("begun", flush=True)
            await asyncio.sleep(600)
    """)  # fmt: skip
    id = table.insert("slow")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        process.send()
        process.wait_for("stopping")
        sent = process.send(signal.SIGINT)
        assert process.exit_code() == 1
        assert time.monotonic() - sent < 2 + MARGIN
        process.wait_for("second signal")
    assert table.row(id) == ("pending", 0, None)


STUCK = {
    "sleep": "time.sleep(600)",
    # Deep in C, without a look at Python's signals.
    "in C": "import ctypes; lib = ctypes.CDLL(None); [lib.sleep(600) for _ in range(100)]",
    "busy": "\n        while True: pass",
}


@pytest.mark.fault(39)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("body", STUCK.values(), ids=STUCK.keys())
def test_a_handler_that_blocks_the_loop_does_not_keep_the_process(
    dsn: str, table: Table, app: Path, body: str, loop: str
) -> None:
    write(app, f"""
@queue.kind("stuck")
async def stuck(claim: Claim) -> None:
    print("begun", flush=True)
    if True: {body}
    """)  # fmt: skip
    id = table.insert("stuck")
    with worker("--app", "jobs:queue", "--loop", loop, dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        sent = process.send()
        assert process.exit_code() == 1
        assert time.monotonic() - sent < 1 + MARGIN + 5
        record = process.wait_for("the event loop is blocked")
        assert record["level"] == "error"
        assert f"stuck {id}" in record["message"]


@pytest.mark.fault(39)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_third_signal_ends_it_at_once_whatever_it_does(dsn: str, table: Table, app: Path, loop: str) -> None:
    write(app, """
        queue = Queue(PostgresStore(pool), Config(lease=60, poll_interval=0.1, shutdown_grace=300))
        @queue.kind("stuck")
        async def stuck(claim: Claim) -> None:
            print("begun", flush=True)
            time.sleep(600)
    """)  # fmt: skip
    id = table.insert("stuck")
    with worker("--app", "jobs:queue", "--loop", loop, dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        deadline = time.monotonic() + 30
        # Nobody answers, and two that come at once may be one: so until it hears the third.
        while process.process.poll() is None:
            process.send()
            time.sleep(0.05)
            assert time.monotonic() < deadline
        assert process.exit_code() == 1
        assert f"stuck {id}" in process.wait_for("third signal")["message"]


@pytest.mark.fault(39)
def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_process(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        @queue.kind("stubborn")
        async def stubborn(claim: Claim) -> None:
            print("begun", flush=True)
            while True:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    pass
    """)  # fmt: skip
    id = table.insert("stubborn")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        sent = process.send()
        assert process.exit_code() == 1
        assert time.monotonic() - sent < 1 + MARGIN + 3
        record = process.wait_for("abandoned")
        assert record["level"] == "error"
        assert f"stubborn {id}" in record["message"]
        process.wait_for("has not exited")
    assert table.row(id) == ("pending", 0, None)


@pytest.mark.fault(39)
def test_a_thread_that_is_stuck_does_not_keep_the_process(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        @queue.kind("threaded")
        async def threaded(claim: Claim) -> None:
            asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
            print("begun", flush=True)
    """)  # fmt: skip
    id = table.insert("threaded")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app) as process:
        process.wait_for("begun")
        table.wait(id, "done")
        sent = process.send()
        assert process.exit_code() == 0
        assert time.monotonic() - sent < 1 + MARGIN + 3


@pytest.mark.fault(9)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_an_exit_raised_in_a_stray_task_ends_nothing(dsn: str, table: Table, app: Path, error: str, loop: str) -> None:
    write(app, f"""
        async def stray() -> None:
            raise {error}

        @queue.kind("astray")
        async def astray(claim: Claim) -> None:
            queue.task = asyncio.get_running_loop().create_task(stray())

        @queue.kind("direct")
        async def direct(claim: Claim) -> None:
            raise {error}

        @queue.kind("well")
        async def well(claim: Claim) -> None:
            await asyncio.sleep(0)
    """)  # fmt: skip
    ids = [table.insert("astray") for _ in range(3)]
    direct = table.insert("direct")
    with worker("--app", "jobs:queue", "--loop", loop, dsn=dsn, cwd=app) as process:
        for id in ids:
            table.wait(id, "done")
        last = table.insert("well")
        table.wait(last, "done")
        table.wait(direct, "failed")
        assert httpx.get(f"http://127.0.0.1:{process.port()}/healthz", trust_env=False).status_code == 200
        process.send()
        assert process.exit_code() == 0


def test_no_database_then_sigterm_ends_it_well(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        dsn = f"postgresql://user:pa55-canary@127.0.0.1:{taken.getsockname()[1]}/x"
        with worker(dsn=dsn, cwd=tmp_path) as process:
            record = process.wait_for("does not answer")
            assert record["level"] == "warning"
            assert httpx.get(f"http://127.0.0.1:{process.port()}/healthz", trust_env=False).status_code == 200
            answer = httpx.get(f"http://127.0.0.1:{process.port()}/readyz", trust_env=False)
            assert answer.status_code == 503
            assert answer.json()["database"] == "no answer"
            assert httpx.get(f"http://127.0.0.1:{process.port()}/metrics", trust_env=False).status_code == 200
            process.send()
            assert process.exit_code() == 0
            assert len(process.lines) < 8, process.log
            assert "canary" not in process.log


def test_a_database_that_never_answers_then_sigterm_ends_it_well(tmp_path: Path) -> None:
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()  # takes connections and says nothing
        with worker(dsn=f"postgresql://127.0.0.1:{hole.getsockname()[1]}/x", cwd=tmp_path) as process:
            process.port()
            with hole.accept()[0]:
                sent = process.send()
                assert process.exit_code() == 0
                assert time.monotonic() - sent < 5


def test_a_database_that_comes_later_is_found(tmp_path: Path, postgres: Server) -> None:
    local = LocalPostgres(tmp_path / "pg").start()
    dsn = local.dsn
    try:
        assert brooq("migrate", "up", dsn=dsn).returncode == 0
        local.stop()
        with worker(dsn=dsn, cwd=tmp_path) as process:
            process.wait_for("does not answer")
            local.start()
            assert local.dsn == dsn
            process.wait_for("has started")
            table = Table(dsn)
            try:
                table.wait(table.insert("demo"), "done")
            finally:
                table.close()
            process.send()
            assert process.exit_code() == 0
    finally:
        local.stop()


def test_a_schema_that_is_missing_is_a_clear_error(empty_dsn: str, tmp_path: Path) -> None:
    with worker(dsn=empty_dsn, cwd=tmp_path) as process:
        assert process.exit_code() == 1
        (record,) = [line for line in process.lines if line["level"] != "info"]
        assert record["level"] == "error"
        assert "brooq migrate up" in record["message"]
        assert "exception" not in record


def test_a_function_may_open_the_queue_and_close_what_it_needs(dsn: str, table: Table, app: Path) -> None:
    write(app, """
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def opened():
            made = Queue(PostgresStore(pool), Config(poll_interval=0.1))

            @made.kind("mail")
            async def mail(claim: Claim) -> None:
                await asyncio.sleep(0)

            await pool.open(wait=False)
            print("opened", flush=True)
            yield made
            await pool.close()
            print("closed", flush=True)
    """)  # fmt: skip
    id = table.insert("mail")
    with worker("--app", "jobs:opened", dsn=dsn, cwd=app, QUEUE_WORKERS="7") as process:
        table.wait(id, "done")
        process.wait_for("these settings have no effect: QUEUE_LEASE")
        process.send()
        assert process.exit_code() == 0
        process.wait_for("closed")
        assert process.log.count("opened") == 1


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_settings_can_be_taken_over_by_the_application(dsn: str, table: Table, app: Path, driver: str) -> None:
    write(app, """
        from brooq.service.settings import load
        settings = load(database=True)
        queue = Queue(PostgresStore(settings.make_pool(), settings.schema), settings.config)

        @queue.kind("mail")
        async def mail(claim: Claim) -> None:
            await queue.enqueue(__import__("brooq").Job("other"))
            print("pool of", type(queue.store.pool).__module__, flush=True)
    """)  # fmt: skip
    id = table.insert("mail")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app, QUEUE_WORKERS="7", QUEUE_DRIVER=driver) as process:
        process.wait_for(f"pool of {driver}")
        assert "7 slots" in process.wait_for("has started")["message"]
        table.wait(id, "done")
        process.send()
        assert process.exit_code() == 0
        assert "no effect" not in process.log


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("jobs", "is no path to a queue"),
        ("jobs:", "is no path to a queue"),
        ("nowhere.to.be:found", "there is no module nowhere.to.be"),
        ("jobs:queu", "did you mean jobs:queue?"),
        ("jobs:pool", "needed is a Queue"),
        ("jobs.more:queue", "there is no module jobs.more"),
    ],
)
def test_a_wrong_app_is_wrong_usage(app: Path, path: str, told: str) -> None:
    write(app, "")
    done = brooq("worker", "--app", path, dsn="postgresql://127.0.0.1/x", cwd=app, HTTP_ADDR="off")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_app_that_cannot_be_imported_is_told_without_secrets(app: Path) -> None:
    (app / "broken.py").write_text("import os\nraise ValueError(os.environ['DATABASE_URL'])\n")
    dsn = "postgresql://user:pa55-canary@127.0.0.1/x"
    done = brooq("worker", "--app", "broken:queue", dsn=dsn, cwd=app, LOG_FORMAT="json")
    assert done.returncode == 1
    assert "broken:queue could not be imported" in done.stderr
    assert "canary" not in done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 1


def test_a_taken_port_is_told_at_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = brooq("worker", dsn="postgresql://127.0.0.1/x", cwd=tmp_path, HTTP_ADDR=address)
    assert done.returncode == 1
    assert f"{address} is taken" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_settings_end_it_with_code_2_and_all_of_them(tmp_path: Path) -> None:
    done = brooq("worker", cwd=tmp_path, QUEUE_WORKERS="0", QUEUE_LEASE="30", HTTP_ADDR="0.0.0.0:8090")
    assert done.returncode == 2
    for name in ("DATABASE_URL", "QUEUE_WORKERS", "QUEUE_LEASE", "HTTP_ADDR"):
        assert name in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.security("S22")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_others_cannot_read_its_secrets_and_it_leaves_no_core(dsn: str, tmp_path: Path) -> None:
    # What is not dumpable belongs to root in /proc; to root everything looks alike, so the kernel's own word is asked.
    write(tmp_path, "import ctypes; print('dumpable:', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)")
    with worker("--app", "jobs:queue", dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("dumpable: 0")
        process.wait_for("has started")
        proc = Path("/proc") / str(process.process.pid)
        limits = (proc / "limits").read_text()
        assert [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core")] == [["0", "0"]]
        assert dsn not in (proc / "cmdline").read_bytes().decode()
        assert dsn not in (proc / "comm").read_text()


def test_an_idle_worker_is_small(dsn: str, tmp_path: Path) -> None:
    with worker(dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("has started")
        httpx.get(f"http://127.0.0.1:{process.port()}/metrics", trust_env=False)
        status = (Path("/proc") / str(process.process.pid) / "status").read_text()
        (resident,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
        assert resident < 60 * 1024
