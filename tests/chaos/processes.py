"""The worker processes of a chaos run: made, killed, stopped, woken, by their numbers alone."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.chaos.worker import Setup

ROOT = Path(__file__).resolve().parent.parent.parent


class Processes:
    """The nursery and its living children."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        """Nothing is started."""
        self.alive: list[int] = []
        self._folder = folder
        self._setup = setup
        self._skew = setup.skew
        self._lock = asyncio.Lock()
        self._nursery: asyncio.subprocess.Process | None = None

    async def start(self, count: int) -> None:
        """Start the nursery and so many processes."""
        self._nursery = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.chaos.nursery", str(self._folder),
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        for _ in range(count):
            await self.spawn()

    async def spawn(self, **changes: Any) -> int:
        """One more process, with another setup where that is said; answers its number."""
        self._skew = -self._skew
        order = json.dumps(asdict(replace(self._setup, skew=self._skew, **changes))) + "\n"
        nursery = self._nursery
        assert nursery is not None
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        async with self._lock:
            nursery.stdin.write(order.encode())
            await nursery.stdin.drain()
            pid = int(await nursery.stdout.readline())
        self.alive.append(pid)
        return pid

    async def replace(self, pid: int, number: signal.Signals) -> None:
        """End a process and start another one in its place."""
        self.alive.remove(pid)
        self.send(pid, number)
        if number is not signal.SIGKILL:
            while not self.gone(pid):  # noqa: ASYNC110  a foreign child tells nobody of its end
                await asyncio.sleep(0.01)
        await self.spawn()

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process of ours, if it is still there."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    def state(self, pid: int) -> str:
        """As the system has it: R, S, T (stopped), Z; empty when it is gone."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    def gone(self, pid: int) -> bool:
        """Whether a process has ended."""
        return self.state(pid) in {"", "Z"}

    def starve(self, pid: int) -> Callable[[], None]:
        """Let a process open nothing more; answers what lets it again. With a limit of 0 it could not even wait."""
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, limits[1]))

        def feed() -> None:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

        return feed

    def stopped(self) -> list[int]:
        """Those that stand still."""
        return [pid for pid in self.alive if self.state(pid) == "T"]

    async def end(self) -> None:
        """Kill what is left, and the nursery with it."""
        for pid in self.alive:
            self.send(pid, signal.SIGKILL)
        self.alive = []
        if self._nursery is not None:
            assert self._nursery.stdin is not None
            self._nursery.stdin.close()
            await self._nursery.wait()
