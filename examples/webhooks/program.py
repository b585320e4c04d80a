"""A program of the demo: started, watched, killed and ended by its own process id, never by a name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_BOUND = Path(__file__).with_name("bound.py")
PATIENCE = 15.0


class Program:
    """One program at a time; it may be started again after its end."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], fds: Sequence[int] = ()
    ) -> None:
        """Starts nothing. What it writes goes to `log`; the folder of the log is its working folder."""
        self.name = name
        self.log = log
        self._command = [sys.executable, "-I", str(_BOUND), str(os.getpid()), *command]
        self.environment = dict(environment)
        """What it gets to see, from the next start on."""
        self._fds = fds
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, *arguments: str) -> None:
        """More arguments, from the next start on."""
        self._command += arguments

    def drop(self, *arguments: str) -> None:
        """Without these arguments, which stand there in this order, from the next start on."""
        at = self._command.index(arguments[0])
        assert self._command[at : at + len(arguments)] == list(arguments)
        del self._command[at : at + len(arguments)]

    def start(self) -> None:
        """Start it, in a session of its own: Ctrl-C in the terminal is for the demo, which then ends the rest."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self.environment,
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self._fds,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        """Its process id; 0 before the first start."""
        return 0 if self._process is None else self._process.pid

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that is not enough."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        try:
            written = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            written = []
        return "\n".join(written[-lines:])

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
