"""What the service manager hears: a real datagram socket, as systemd has it, and a real process."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.service.brooq_process import Table, worker, write

from brooq.service.notify import Notifier

SLOW = """
    @queue.kind("slow")
    async def slow(claim: Claim) -> None:
        print("begun", flush=True)
        time.sleep(claim.payload)
"""


class Manager:
    """Who listens at NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        """Listen."""
        self.address = str(path)
        self.said: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.settimeout(30)

    def hear(self, word: str) -> str:
        """The next message that begins with it; the others are kept too."""
        while True:
            said = self._socket.recv(4096).decode()
            self.said.append(said)
            if said.startswith(word):
                return said

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()


@contextmanager
def manager() -> Iterator[Manager]:
    """A socket with a short path: its length is limited."""
    path = Path(f"/tmp/brooq-notify-{os.getpid()}-{threading.get_ident()}")  # noqa: S108
    found = Manager(path)
    try:
        yield found
    finally:
        found.close()
        path.unlink()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_says_that_it_works_that_it_lives_and_that_it_stops(
    dsn: str, table: Table, tmp_path: Path, processes: int
) -> None:
    write(tmp_path, SLOW)
    with manager() as hearing:
        arguments = ["--app", "jobs:queue", "--processes", str(processes)]
        notify = {"NOTIFY_SOCKET": hearing.address, "WATCHDOG_USEC": "600000"}
        with worker(*arguments, dsn=dsn, cwd=tmp_path, **notify) as process:
            assert "STATUS=" in hearing.hear("READY=1")
            # A handler that blocks the event loop starves nobody: leases are kept all the same.
            table.insert("slow", "2")
            process.wait_for("begun")
            for _ in range(8):
                hearing.hear("WATCHDOG=1")
            process.send()
            stopping = hearing.hear("STOPPING=1")
            assert int(stopping.partition("EXTEND_TIMEOUT_USEC=")[2].split()[0]) >= 1_000_000
            process.exit_code()
        # Nobody but the worker itself has the right to speak.
        assert all(said.startswith(("READY=1", "WATCHDOG=1", "STOPPING=1", "EXTEND_")) for said in hearing.said)


def test_a_start_that_waits_for_its_database_asks_for_more_time(tmp_path: Path) -> None:
    with (
        manager() as hearing,
        worker(dsn="postgresql://127.0.0.1:1/x", cwd=tmp_path, NOTIFY_SOCKET=hearing.address) as process,
    ):
        assert "waiting for the database" in hearing.hear("EXTEND_TIMEOUT_USEC=")
        assert not [said for said in hearing.said if said.startswith("READY")]
        process.send()
        assert process.exit_code() == 0


def test_without_a_manager_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notifier = Notifier()
    notifier.ready("x")
    assert notifier.period is None


@pytest.mark.parametrize(
    ("usec", "pid", "period"),
    [
        ("3000000", "", 1.0),
        ("3000000", "me", 1.0),
        ("3000000", "1", None),
        ("0", "", None),
        ("", "", None),
        ("x", "", None),
    ],
)
def test_the_watchdog_is_fed_three_times_in_its_period_when_it_asks_for_it(
    usec: str, pid: str, period: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@brooq-nobody")
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "me" else pid)
    notifier = Notifier()
    assert notifier.period == period
    notifier.alive()  # nobody listens there: no error
    # Programs that handlers start must not speak for the worker.
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)
    notifier._socket.close()  # type: ignore[union-attr]
