"""The event loop of the handlers: chosen by name, and signals are heard under each."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
import uvloop
from tests.service.brooq_process import Table, brooq, worker, write

from brooq import ConfigError
from brooq.service.eventloop import choose

BOTH = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [("auto", uvloop.Loop), ("uvloop", uvloop.Loop), ("asyncio", asyncio.SelectorEventLoop)],
)
def test_a_name_means_a_loop(name: str, kind: type[asyncio.AbstractEventLoop]) -> None:
    loop = choose(name)()
    try:
        assert isinstance(loop, kind)
    finally:
        loop.close()


def test_without_uvloop_auto_is_asyncio_and_its_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    assert choose("auto") is asyncio.new_event_loop
    with pytest.raises(ConfigError, match=r"pip install 'brooq\[uvloop\]'"):
        choose("uvloop")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_uvloop_that_is_missing_is_told_once_with_code_2(tmp_path: Path, processes: str) -> None:
    # What Python finds first is what lies in the current folder.
    (tmp_path / "uvloop.py").write_text("raise ImportError('not for this machine')\n")
    dsn = "postgresql://127.0.0.1/x"
    done = brooq("worker", "--loop", "uvloop", "--processes", processes, dsn=dsn, cwd=tmp_path, HTTP_ADDR="off")
    assert done.returncode == 2
    assert done.stderr.count("not for this machine") == 1
    assert "Traceback" not in done.stderr


@BOTH
@pytest.mark.parametrize("processes", ["1", "2"])
def test_handlers_run_in_the_loop_that_was_chosen(
    dsn: str, table: Table, tmp_path: Path, loop: str, processes: str
) -> None:
    write(tmp_path, """
        @queue.kind("which")
        async def which(claim: Claim) -> None:
            print("loop:", type(asyncio.get_running_loop()).__module__, flush=True)
    """)  # fmt: skip
    id = table.insert("which")
    with worker("--app", "jobs:queue", "--processes", processes, dsn=dsn, cwd=tmp_path, QUEUE_LOOP=loop) as process:
        process.wait_for(f"loop: {loop}")
        table.wait(id, "done")
        process.send()
        assert process.exit_code() == 0


@BOTH
def test_what_an_application_makes_when_it_is_loaded_belongs_to_the_loop_that_runs_it(
    dsn: str, table: Table, tmp_path: Path, loop: str
) -> None:
    write(tmp_path, """
        loaded = asyncio.get_event_loop()  # as a pool of asyncpg looks for it

        @queue.kind("same")
        async def same(claim: Claim) -> None:
            print("same loop:", loaded is asyncio.get_running_loop(), flush=True)
    """)  # fmt: skip
    table.insert("same")
    with worker("--app", "jobs:queue", "--loop", loop, dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("same loop: True")
        assert "DeprecationWarning" not in process.log


@BOTH
def test_signals_of_the_application_are_heard_beside_ours(dsn: str, table: Table, tmp_path: Path, loop: str) -> None:
    write(tmp_path, """
        import signal

        @queue.kind("arm")
        async def arm(claim: Claim) -> None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: print("usr1 heard", flush=True))
            print("armed", flush=True)
    """)  # fmt: skip
    table.insert("arm")
    with worker("--app", "jobs:queue", "--loop", loop, dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("armed")
        for count in (1, 2):
            process.send(signal.SIGUSR1)
            process.wait_for("usr1 heard", count)
        process.send()
        assert process.exit_code() == 0
