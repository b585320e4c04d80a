"""An adapter in a process of its own, spoken to in JSON lines (see peers/protocol.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import psutil

from bench.place import seconds

TEXT = 2000
"""How much of an adapter's last words goes into an error."""


class PeerError(Exception):
    """A system could not be measured."""


class Peer:
    """One running adapter. Leaving the block ends it with everything it started."""

    def __init__(self, command: list[str], spec: dict[str, Any]) -> None:
        """Starts at once; `ready` comes when it has."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__
        self._process = subprocess.Popen(
            [*command, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            # Adapters are modules of the bench in interpreters that know nothing of it.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        self._events: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            try:
                self._process.wait(0 if _type else 10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: nobody else is in the group
        except ProcessLookupError:
            pass
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # a word that nobody was left to read

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Libraries print too; a line of ours is an object with an event.
            if line.startswith('{"event"'):
                self._events.put(json.loads(line))
        self._events.put(None)

    def say(self, word: str) -> None:
        """`go` or `stop`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(self.last_words()) from None

    def expect(self, event: str, within: float) -> dict[str, Any] | None:
        """The next event of that name, others passed over; None: not within so many seconds. Raises PeerError when it has
        ended before."""
        deadline = time.monotonic() + within
        while True:
            try:
                found = self._events.get(timeout=max(deadline - time.monotonic(), 0.001))
            except Empty:
                return None
            if found is None:
                raise PeerError(self.last_words())
            if found["event"] == event:
                return found

    def need(self, event: str, within: float) -> dict[str, Any]:
        """As `expect`; raises PeerError when it does not come."""
        found = self.expect(event, within)
        if found is None:
            raise PeerError(f"no {event!r} within {within:g} s. {self.last_words()}")
        return found

    def cpu(self) -> float:
        """CPU seconds of the process and its descendants so far."""
        try:
            return seconds(psutil.Process(self._process.pid))
        except psutil.NoSuchProcess:
            return 0.0

    def memory(self) -> float:
        """Resident MB of the process and its descendants."""
        root = psutil.Process(self._process.pid)
        return sum(float(process.memory_info().rss) for process in (root, *root.children(recursive=True))) / 1e6

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - TEXT, 0))
        return self._errors.read().decode(errors="replace").strip()
