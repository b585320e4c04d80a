"""Real processes of the examples: servers that answer over HTTP, workers that end at a signal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 60.0


def environment(dsn: str, **more: str) -> dict[str, str]:
    """That of an example: its database, and warnings as errors."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "FLASK_", "BROOQ_P"))}
    return clean | {"DATABASE_URL": dsn, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | more


class Process:
    """One process, killed at the end if it has not ended."""

    def __init__(self, dsn: str, *command: str, log: Path, **more: str) -> None:
        """`command` follows the Python of the tests."""
        self.log = log
        self._file = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment(dsn, **more),
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=self._file,
        )

    @property
    def said(self) -> str:
        """Everything so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def until_said(self, text: str) -> None:
        """Wait until it has said something."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.said:
            assert self.running, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        """Started already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._file.close()


class Site:
    """A server on a port of its own."""

    def __init__(self, port: int, process: Process) -> None:
        self.process = process
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)

    def get(self, path: str) -> httpx.Response:
        """GET."""
        return self._client.get(path)

    def post(self, path: str, value: Any) -> httpx.Response:
        """POST of JSON."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self._client.post(path, content=body, headers={"Content-Type": "application/json"})

    def until(self, path: str, **expected: Any) -> Any:
        """Ask until the JSON has these members; answers it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.get(path)
            if found.status_code == 200 and expected.items() <= found.json().items():
                return found.json()
            assert time.monotonic() < deadline, (found.text, self.process.said)
            time.sleep(0.02)

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()


def free_port() -> int:
    """One that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(dsn: str, *command: str, log: Path, **more: str) -> Iterator[Site]:
    """A server, once it answers; `{port}` in the command is its port."""
    port = free_port()
    with Process(dsn, *(part.format(port=port) for part in command), log=log, **more) as process:
        site = Site(port, process)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                site.get("/")
                break
            except httpx.TransportError:
                assert process.running, process.said
                assert time.monotonic() < deadline, process.said
                time.sleep(0.02)
        try:
            yield site
        finally:
            site.close()
