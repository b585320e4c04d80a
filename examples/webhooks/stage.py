"""What the demo needs around it: a folder, a PostgreSQL, a database that is empty, the two programs."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres
from examples.webhooks.app import GONE
from examples.webhooks.program import Program

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "demo"
OURS = "demo"
"""How the demo's own connections are called; the worker's have another name."""


class StageError(Exception):
    """The demo cannot be set up here; the text says why."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything is ready; the programs are not started yet."""

    dsn: str
    version: str
    folder: Path
    """Of this run: mailbox, journal, logs."""
    worker: Program
    mail_server: Program
    dashboard: str
    """Where the worker shows its dashboard, with the token that opens it behind the #."""

    @property
    def mailbox(self) -> Path:
        """The Maildir that the mail server fills."""
        return self.folder / "mailbox"

    @property
    def journal(self) -> Path:
        """What the worker writes at every claim."""
        return self.folder / "claims.jsonl"

    @property
    def misdeeds(self) -> Path:
        """What the mail server writes whenever it misbehaves."""
        return self.folder / "misdeeds.jsonl"


@contextmanager
def stage(folder: Path, database: str | None, seed: str) -> Iterator[Stage]:
    """Set everything up; whatever was started has ended when the block is left.

    `database`: an empty database to use instead of a PostgreSQL of our own. Raises StageError.
    """
    with _alone(folder), _database(folder / "pg", database) as dsn, _listener() as listener, _port() as port:
        migrate.up(dsn)
        version = _look(dsn, owned=database is None)
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir()
        worker = Program("the worker", _brooq("worker", "--app", "examples.webhooks.app:queue"), run / "worker.log", {})
        fd = listener.fileno()
        module = [sys.executable, "-m", "examples.webhooks.mail_server", "--fd", str(fd), "--refuse", GONE]
        mail_server = Program("the mail server", module, run / "mail_server.log", _environment(), [fd])
        token = secrets.token_urlsafe(32)
        found = Stage(dsn, version, run, worker, mail_server, f"http://127.0.0.1:{port}/login#{token}")
        mail_server.add("--mailbox", str(found.mailbox), "--log", str(found.misdeeds), "--seed", seed)
        worker.environment = _environment(
            DATABASE_URL=dsn,
            HTTP_ADDR=f"127.0.0.1:{port}",
            HTTP_TOKEN=token,
            HTTP_PAYLOADS="on",
            LOG_FORMAT="console",
            DEMO_SMTP="{}:{}".format(*listener.getsockname()),
            DEMO_JOURNAL=str(found.journal),
        )
        yield found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One demo in a folder at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StageError(f"another demo runs in {folder}; --folder names another place") from None
        yield


@contextmanager
def _database(folder: Path, given: str | None) -> Iterator[str]:
    """A database of this run alone: jobs of an earlier one are gone."""
    if given:
        yield make_conninfo(given)
        return
    with LocalPostgres(folder) as postgres:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"drop database if exists {DATABASE} with (force)")
            connection.execute(f"create database {DATABASE}")
        yield make_conninfo(postgres.dsn, dbname=DATABASE)


def _look(dsn: str, *, owned: bool) -> str:
    """The server's version. Raises StageError when somebody else's jobs are there: a worker would take them."""
    with psycopg.connect(dsn) as connection:
        busy = connection.execute("select exists (select from job)").fetchone()
        if not owned and busy and busy[0]:
            raise StageError("the database has jobs already; the demo needs an empty one")
        return str(connection.info.parameter_status("server_version")).split()[0]


@contextmanager
def _listener() -> Iterator[socket.socket]:
    """Where mail is delivered. It listens before the mail server is up: early connections wait instead of failing."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener


@contextmanager
def _port() -> Iterator[int]:
    """The port that the guide names, or a free one: the worker is started twice and is to be found at the same place."""
    with socket.socket() as holder:
        try:
            holder.bind(("127.0.0.1", 8090))
        except OSError:
            holder.bind(("127.0.0.1", 0))
        # From now on the worker may bind it beside us, and nobody who asks as we have asked.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield int(holder.getsockname()[1])


def _brooq(*arguments: str) -> list[str]:
    """The command beside this Python."""
    beside = Path(sys.executable).with_name("brooq")
    return [str(beside), *arguments] if beside.exists() else [sys.executable, "-m", "brooq", *arguments]


def _environment(**more: str) -> dict[str, str]:
    """Ours, without settings of another queue that this machine may have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUEUE_", "HTTP_", "LOG_", "PG"))}
    for name in ("DATABASE_URL", "CREDENTIALS_DIRECTORY"):
        kept.pop(name, None)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, **more}
