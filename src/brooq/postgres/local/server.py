"""A PostgreSQL of one's own in a folder: for first steps and for tests. Needs no service and no root, works as root."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from psycopg import pq

from brooq.postgres.local import account, launch
from brooq.postgres.local.binaries import Binaries, LocalPostgresError, find
from brooq.postgres.local.cluster import DETACHED, USER, Cluster, alive
from brooq.postgres.local.environment import environment
from brooq.vocabulary.message import text

__all__ = ["LocalPostgres", "LocalPostgresError"]

_STOP_STEPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
"""Fast shutdown, then at once without a checkpoint, then the end; with the seconds given to each."""


class LocalPostgres:
    """A server on 127.0.0.1 and, where the path is short enough, on a Unix socket in `path`.

    The data stay in `path` between starts. The server ends with this process, however that ends, unless it was started
    detached. Access needs the password that is part of `dsn`; it is made with the data.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        port: int | None = None,
        settings: Mapping[str, str | int | bool] | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Nothing is touched before `start`.

        `port`: None takes that of the last start if it is free, else any free one. `settings`: as in postgresql.conf.
        `timeout`: how many seconds a start may take.
        """
        self._cluster = Cluster(Path(path).resolve())
        self._asked_port = port
        self._settings = dict(settings or {})
        self._timeout = timeout
        self._port = 0
        self._version = ""
        self._server: _Server | None = None
        self._process = os.getpid()

    @property
    def path(self) -> Path:
        """The folder, absolute."""
        return self._cluster.path

    @property
    def dsn(self) -> str:
        """How to connect as the superuser, password included. Raises LocalPostgresError when not started."""
        self._started()
        return self._cluster.dsn(self._port)

    @property
    def port(self) -> int:
        """The port on 127.0.0.1. Raises LocalPostgresError when not started."""
        self._started()
        return self._port

    @property
    def pid(self) -> int:
        """The process of the server. Raises LocalPostgresError when not started."""
        return self._started().pid

    @property
    def version(self) -> str:
        """As PostgreSQL writes it, for example "18.6". Raises LocalPostgresError when not started."""
        self._started()
        return self._version

    @property
    def socket_folder(self) -> Path | None:
        """Where the Unix socket is, `host` for libpq; None when the path is too long for one."""
        return self._cluster.socket_folder

    @classmethod
    def running(cls, path: str | os.PathLike[str]) -> str | None:
        """The DSN of the server that runs in `path`, whoever started it; None: none does, or it is not ready."""
        cluster = Cluster(Path(path).resolve())
        try:
            server = cluster.postmaster()
            return cluster.dsn(server.port) if server and server.ready and not cluster.orphaned(server) else None
        except PermissionError:
            raise LocalPostgresError(text("local.no_access", path=cluster.path)) from None

    @classmethod
    def stop_running(cls, path: str | os.PathLike[str]) -> bool:
        """Stop the server that runs in `path`, whoever started it, and wait for its end; False: none runs."""
        cluster = Cluster(Path(path).resolve())
        if not cluster.data.exists():
            return False
        try:
            with cluster.locked(60.0):
                server = cluster.postmaster()
                if server is None:
                    return False
                _end(server.pid, lambda seconds: _wait(lambda: not alive(server.pid), seconds))
                return True
        except PermissionError:
            raise LocalPostgresError(text("local.no_access", path=cluster.path)) from None

    def start(self, *, detached: bool = False) -> Self:
        """Start the server, making the data at the first start, and return when it takes connections.

        `detached`: it goes on after this process, until `stop_running`. Raises LocalPostgresError: no programs found,
        data of another major version, a server that runs in the folder already, a failed start (with its log).
        """
        if self._server is not None:
            raise LocalPostgresError(text("local.started", path=self.path))
        deadline = time.monotonic() + self._timeout
        try:
            with self._cluster.locked(self._timeout):
                self._refuse_second(deadline)
                binaries = find(self._cluster.major())
                self._cluster.tidy()
                if not self._cluster.data.exists():
                    # The password is needed before the account is chosen, which may give it to another user.
                    self._cluster.new_password()
                chosen, binaries = account.choose(self.path, self._cluster.data, binaries)
                account.give(chosen, self._cluster.files)
                if not self._cluster.data.exists():
                    self._init(chosen, binaries)
                self._version = binaries.version
                self._process = os.getpid()
                self._server = self._launch(chosen, binaries, deadline, detached=detached)
                account.give(chosen, self._cluster.files)
        except PermissionError as error:
            raise LocalPostgresError(text("local.no_access", path=error.filename or self.path)) from error
        if not detached:
            atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop the server and wait for its end: a fast shutdown, which cuts open sessions. Twice is no error."""
        # A forked child has this object too; the server is its parent's.
        if self._server is None or self._process != os.getpid():
            return
        with self._cluster.locked(self._timeout) if self.path.exists() else nullcontext():
            server, self._server = self._server, None
            atexit.unregister(self.stop)
            _end(server.pid, server.wait)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def _started(self) -> _Server:
        if self._server is None:
            raise LocalPostgresError(text("local.not_started", path=self.path))
        return self._server

    def _refuse_second(self, deadline: float) -> None:
        """Wait for a server that is on its way out, refuse beside one that stays."""
        while server := self._cluster.postmaster():
            leaving = self._cluster.orphaned(server) or not server.ready
            if not leaving or time.monotonic() > deadline:
                raise LocalPostgresError(text("local.running", path=self.path, pid=server.pid))
            time.sleep(0.01)

    def _init(self, chosen: str, binaries: Binaries) -> None:
        """Make the data beside their place and move them there: a start that is killed leaves nothing half made."""
        staging = self._cluster.staging
        staging.mkdir(mode=0o700)
        account.give(chosen, [staging])
        options = [f"--pgdata={staging}", f"--username={USER}", f"--pwfile={self._cluster.password_file}"]
        # The order of plain bytes, on every machine the same. No sync: a crash now only means to begin anew.
        options += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        if binaries.major >= 17:
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        line = account.command(chosen, "bound", self.path, binaries.initdb, *options)
        answer = subprocess.run(
            line, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            shutil.rmtree(staging, ignore_errors=True)
            raise LocalPostgresError(text("local.init_failed", path=self.path, reason=answer.stderr.strip()[-2000:]))
        staging.rename(self._cluster.data)

    def _launch(self, chosen: str, binaries: Binaries, deadline: float, *, detached: bool) -> _Server:
        """Start until it stays up: another program may take the free port first, old sessions may need a moment."""
        fresh = False
        self._cluster.own(DETACHED if detached else str(os.getpid()))
        while True:
            port = self._asked_port or self._cluster.port(fresh=fresh)
            begin = self._cluster.log_size()
            line = account.command(
                chosen, DETACHED if detached else "bound", self._cluster.data, *self._arguments(binaries, port)
            )
            with self._cluster.open_log() as log:
                server = _Detached(line, log.fileno()) if detached else _Bound(line, log.fileno())
            try:
                up = _wait(lambda: self._ready(server, port) or server.wait(0), max(deadline - time.monotonic(), 1.0))  # noqa: B023 - used at once
                if up and self._ready(server, port):
                    self._port = port
                    self._cluster.keep_port(port)
                    return server
            except BaseException:
                _end(server.pid, server.wait)
                raise
            if not server.wait(0):
                _end(server.pid, server.wait)
            tail = self._cluster.log_tail(begin)
            taken = "could not create any TCP/IP sockets" in tail and self._asked_port is None
            lingering = "pre-existing shared memory block" in tail
            if not (taken or lingering) or time.monotonic() > deadline:
                raise LocalPostgresError(self._failure(server, tail))
            fresh = fresh or taken
            time.sleep(0.05)

    def _arguments(self, binaries: Binaries, port: int) -> tuple[Path, *tuple[str, ...]]:
        folder = self._cluster.socket_folder
        # A list of folders: quotes keep a comma in the path from splitting it.
        sockets = '"{}"'.format(str(folder).replace('"', '""')) if folder else ""
        settings: dict[str, str | int | bool] = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": sockets,
            "logging_collector": False,
            **self._settings,
        }
        options = [f"-D{self._cluster.data}"]
        for name, value in settings.items():
            written = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
            options += ["-c", f"{name}={written}"]
        return (binaries.postgres, *options)

    def _ready(self, server: _Server, port: int) -> bool:
        """As pg_ctl and pg_isready tell it: this very process says so, and a connection is answered."""
        found = self._cluster.postmaster()
        if found is None or not found.ready or found.pid != server.pid:
            return False
        address = f"host=127.0.0.1 port={port} dbname=postgres user={USER} connect_timeout=5"
        return pq.PGconn.ping(address.encode()) == pq.Ping.OK

    def _failure(self, server: _Server, tail: str) -> str:
        if server.code == launch.NO_ACCOUNT:
            return text("local.no_account", path=self.path)
        return text("local.failed", path=self.path, log=self._cluster.log, tail=tail)


class _Bound:
    """A server that ends with this process.

    The system ties its end to the *thread* that started it, so that is a thread that lives as long as the server does.
    """

    def __init__(self, line: list[str], log: int) -> None:
        box: SimpleQueue[subprocess.Popen[bytes] | OSError] = SimpleQueue()
        self.code: int | None = None

        def keep() -> None:
            try:
                # A session of its own: Ctrl-C in the terminal is for us, and a worker still needs its database then.
                process = subprocess.Popen(
                    line,
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                box.put(error)
                return
            box.put(process)
            self.code = process.wait()

        self._thread = threading.Thread(target=keep, name="brooq local postgres", daemon=True)
        self._thread.start()
        started = box.get()
        if isinstance(started, OSError):
            raise started
        self.pid = started.pid

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, within some seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


class _Detached:
    """A server that goes on after this process; its parent is init from the start."""

    def __init__(self, line: list[str], log: int) -> None:
        answer = subprocess.run(
            line, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, check=False
        )
        self.code: int | None = answer.returncode
        self.pid = int(answer.stdout or 0)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, within some seconds."""
        return self.pid == 0 or _wait(lambda: not alive(self.pid), seconds)


_Server = _Bound | _Detached


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Look until it holds; False after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return True


def _end(pid: int, ended: Callable[[float], bool]) -> None:
    """Stop a server, ever more firmly. Raises LocalPostgresError when even SIGKILL does not end it."""
    if ended(0):
        return
    for step, seconds in _STOP_STEPS:
        try:
            os.kill(pid, step)
        except ProcessLookupError:
            return
        if ended(seconds):
            return
    raise LocalPostgresError(text("local.will_not_stop", pid=pid))
