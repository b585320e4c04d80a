"""A real `brooq` process, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import UUID

import psycopg
from click.testing import CliRunner

from brooq.service.cli import run
from brooq.service.environment import NAMES

HEAD = """
    import asyncio, os, sys, time
    from brooq import Claim, Config, KindOptions, Queue
    from brooq.postgres import PostgresStore
    from brooq.postgres.pool import make_pool
    pool = make_pool(os.environ["DATABASE_URL"], min_size=0)
    queue = Queue(
        PostgresStore(pool),
        Config(lease=3, poll_interval=0.1, reaper_period=0.5, shutdown_grace=1, workers=1, backoff_base=0.1),
    )
"""

SHORT = {
    "QUEUE_LEASE": "3s",
    "QUEUE_POLL_INTERVAL": "100ms",
    "QUEUE_REAPER_PERIOD": "500ms",
    "QUEUE_SHUTDOWN_GRACE": "1s",
    "HTTP_ADDR": "127.0.0.1:0",
    "LOG_FORMAT": "json",
}


def environment(dsn: str | None, **values: str) -> dict[str, str]:
    """The environment of this process without a developer's settings, and with these."""
    bare = {name: value for name, value in os.environ.items() if name not in NAMES and not name.startswith("QUEUE_")}
    given = {"BROOQ_LANG": "en", "NO_COLOR": "1", "COLUMNS": "200", **values}
    return bare | given | ({} if dsn is None else {"DATABASE_URL": dsn})


def brooq(
    *arguments: str, dsn: str | None = None, cwd: Path | None = None, stdin: bytes = b"", **values: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "brooq", *arguments],
        env=environment(dsn, **values),
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def inside(
    *arguments: str, dsn: str | None = None, cwd: Path | None = None, stdin: bytes = b"", **values: str
) -> subprocess.CompletedProcess[str]:
    """The same within this process: a tenth of the time."""
    wanted = environment(dsn, **values)
    changes = {name: wanted.get(name) for name in {*os.environ, *wanted}}
    runner = CliRunner()
    with chdir(cwd or Path.cwd()), runner.isolation(stdin, changes) as (stdout, stderr, _):
        code = run(list(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        return subprocess.CompletedProcess(arguments, code, stdout.getvalue().decode(), stderr.getvalue().decode())


class Worker:
    """`brooq worker` with its log as it comes."""

    def __init__(self, arguments: list[str], env: Mapping[str, str], cwd: Path) -> None:
        """Start it."""
        self.lines: list[dict[str, Any]] = []
        self._arrived = threading.Condition()
        self.process = subprocess.Popen(
            self.command(arguments),
            env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def command(self, arguments: list[str]) -> list[str]:
        """How it is started."""
        return [sys.executable, "-m", "brooq", "worker", *arguments]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            try:
                line: dict[str, Any] = json.loads(raw)
            except ValueError:
                line = {"message": raw.decode(errors="replace"), "level": "raw"}
            with self._arrived:
                self.lines.append(line)
                self._arrived.notify_all()
        with self._arrived:
            self._arrived.notify_all()

    @property
    def log(self) -> str:
        """Everything so far."""
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in self.lines)

    def wait_for(self, part: str, count: int = 1, seconds: float = 60.0) -> dict[str, Any]:
        """The record in whose message this stands, the `count`-th of them."""
        deadline = time.monotonic() + seconds
        with self._arrived:
            while True:
                found = [line for line in self.lines if part in str(line["message"])]
                if len(found) >= count:
                    return found[count - 1]
                left = deadline - time.monotonic()
                assert left > 0, f"{part!r} did not come:\n{self.log}"
                assert self.process.poll() is None or self._thread.is_alive(), f"{part!r} did not come:\n{self.log}"
                self._arrived.wait(min(left, 0.5))

    def port(self) -> int:
        """Where its surface listens."""
        return int(str(self.wait_for("health and metrics on")["message"]).rpartition(":")[2])

    def send(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Send a signal; answers when."""
        self.process.send_signal(number)
        return time.monotonic()

    def exit_code(self, seconds: float = 60.0) -> int:
        """Wait for its end."""
        code = self.process.wait(seconds)
        self._thread.join(10)
        return code


@contextmanager
def worker(*arguments: str, dsn: str | None, cwd: Path, **values: str) -> Iterator[Worker]:
    """A worker for the length of a block."""
    started = Worker(list(arguments), environment(dsn, **{**SHORT, **values}), cwd)
    try:
        yield started
    finally:
        started.process.kill()
        started.exit_code()
        if started.process.stdout is not None:
            started.process.stdout.close()


def write(folder: Path, source: str, name: str = "jobs") -> None:
    """A module of an application, with a queue that is fast."""
    (folder / f"{name}.py").write_text(dedent(HEAD) + dedent(source))


class Table:
    """The table of jobs, from outside."""

    def __init__(self, dsn: str) -> None:
        """Look at this database."""
        self._connection = psycopg.connect(dsn, autocommit=True)

    def insert(self, topic: str, payload: str = "{}") -> UUID:
        """Enqueue as any program may."""
        row: Any = self._connection.execute(
            "insert into job (topic, payload) values (%s, %s) returning id", (topic, payload)
        ).fetchone()
        return UUID(str(row[0]))

    def row(self, id: UUID) -> tuple[str, int, str | None]:
        """State, attempts and last error."""
        row: Any = self._connection.execute(
            "select state, attempts, last_error from job where id = %s", (id,)
        ).fetchone()
        return row[0], row[1], row[2]

    def wait(self, id: UUID, state: str, seconds: float = 20.0) -> tuple[str, int, str | None]:
        """The row once it is in this state."""
        deadline = time.monotonic() + seconds
        while (row := self.row(id))[0] != state:
            assert time.monotonic() < deadline, row
            time.sleep(0.02)
        return row

    def close(self) -> None:
        """Look no more."""
        self._connection.close()
