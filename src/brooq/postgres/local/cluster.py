"""The folder of a local PostgreSQL: what lies in it, and what it tells of a server that runs there."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from brooq.postgres.local.binaries import LocalPostgresError
from brooq.postgres.local.environment import environment
from brooq.vocabulary.message import text

USER = "postgres"
DETACHED = "detached"

_SOCKET_LIMIT = (
    107  # bytes of sun_path on Linux; 103 on macOS, where a longer one makes the start fail with a clear text
)
_LOG_LIMIT = 10_000_000
_NO_PROCESS = 2**31 - 1  # no system gives this number to a process


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that is alive, as its postmaster.pid tells it."""

    pid: int
    port: int
    ready: bool


class Cluster:
    """One folder. Its layout: data/, password, port, owner, lock, server.log, and the socket when the path is short."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.staging = path / "data.new"
        self.password_file = path / "password"
        self.log = path / "server.log"
        self._port_file = path / "port"
        self._owner_file = path / "owner"
        self._lock_file = path / "lock"
        self.files = (self.password_file, self.log, self._port_file, self._owner_file, self._lock_file)

    @property
    def socket_folder(self) -> Path | None:
        """None when the path is too long for a Unix socket: then there is TCP alone."""
        return self.path if len(os.fsencode(self.path / ".s.PGSQL.65535")) <= _SOCKET_LIMIT else None

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Alone in the folder while starting or stopping; the system frees the lock of a process that died."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        deadline = time.monotonic() + timeout
        with self._lock_file.open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise LocalPostgresError(text("local.locked", path=self.path)) from None
                time.sleep(0.02)
            yield

    def major(self) -> int | None:
        """The major version that made the data; None: there are no data yet."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    def postmaster(self) -> Postmaster | None:
        """The server that runs on the data; None: none does, whatever a stale postmaster.pid says."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < 4 or not self._serves(int(lines[0])):
            return None
        return Postmaster(int(lines[0]), int(lines[3]), len(lines) > 7 and lines[7].strip() == "ready")

    def orphaned(self, server: Postmaster) -> bool:
        """Whether it belongs to a process that died: then it has been told to stop, and may not know it yet."""
        owner = self._read(self._owner_file)
        return owner.isdigit() and (not alive(int(owner)) or _parent(server.pid) not in {None, int(owner)})

    def own(self, owner: str) -> None:
        """Note who the server belongs to: a process id, or DETACHED."""
        self._owner_file.write_text(owner)

    def password(self) -> str:
        """The password of the superuser, made with the data and kept with mode 0600."""
        return self.password_file.read_text().strip()

    def new_password(self) -> None:
        """Before the data are made."""
        self.password_file.unlink(missing_ok=True)
        with os.fdopen(os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")

    def dsn(self, port: int) -> str:
        """Over TCP, with the password."""
        return f"postgresql://{USER}:{self.password()}@127.0.0.1:{port}/postgres"

    def port(self, *, fresh: bool = False) -> int:
        """The port of the last start if it is free, else a free one."""
        last = self._read(self._port_file)
        if last.isdigit() and not fresh and _free(int(last)):
            return int(last)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
            return port

    def keep_port(self, port: int) -> None:
        """For the next start."""
        self._port_file.write_text(str(port))

    def tidy(self) -> None:
        """Make the folder ready for a start; only when no server runs in it."""
        shutil.rmtree(self.staging, ignore_errors=True)
        for place in self.path.glob(".s.PGSQL.*"):
            place.unlink()
        # A server killed with -9 may be a zombie that nobody reaps, or its number may be another's by now; PostgreSQL
        # would refuse to start. The file is not removed: it holds the key of the old shared memory, by which
        # PostgreSQL finds sessions that outlived their server.
        pid_file = self.data / "postmaster.pid"
        if pid_file.exists():
            lines = pid_file.read_text().splitlines(keepends=True)
            with pid_file.open("w") as file:
                file.writelines([f"{_NO_PROCESS}\n", *lines[1:]])
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))

    def open_log(self) -> BinaryIO:
        """For appending, by us alone: the log may quote statements with what they hold."""
        return os.fdopen(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")

    def log_size(self) -> int:
        """Where the log of the next start will begin."""
        return self.log.stat().st_size if self.log.exists() else 0

    def log_tail(self, start: int, lines: int = 15) -> str:
        """The last lines of the log since byte `start`."""
        with self.log.open("rb") as file:
            file.seek(start)
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])

    def _read(self, file: Path) -> str:
        try:
            return file.read_text().strip()
        except FileNotFoundError:
            return ""

    def _serves(self, pid: int) -> bool:
        """Whether the process is alive and is a server of these data: a number may be another program's by now.

        What this answers may be killed by `stop_running`, so doubt is never enough for a yes.
        """
        if not alive(pid):
            return False
        words = _command(pid)
        if Path(words[0]).name != "postgres":
            return False
        if f"-D{self.data}" in words or str(self.data) in words:
            return True
        try:
            return Path(f"/proc/{pid}/cwd").samefile(self.data)
        except OSError:
            return False


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _stat(pid)[:1] != ["Z"]


def _command(pid: int) -> list[str]:
    """The command line of a process, word by word; one empty word when it cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="surrogateescape").split("\0")
    except OSError:
        if Path("/proc/self").exists():
            return [""]
    # Without /proc. The words are the ones that `local` gives: the program, the data, the settings.
    line = ["ps", "-o", "args=", "-p", str(pid)]
    answer = subprocess.run(
        line, env=environment(), capture_output=True, text=True, errors="surrogateescape", check=False
    )
    program, _, rest = answer.stdout.partition(" -D")
    return [program, "-D" + rest.partition(" -c ")[0]]


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty when it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
