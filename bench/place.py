"""Where measurements run: a PostgreSQL of its own, or the one that BENCH_DATABASE_URL names; a database a system."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg

from brooq.postgres.local import LocalPostgres
from brooq.postgres.local.binaries import find

FOLDER = Path(".brooq/bench")

# What a server on a machine of this size would be given; commits stay durable.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_preload_libraries": "pg_stat_statements",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and its processes where they are on this machine."""

    dsn: str
    version: str
    server: psutil.Process | None

    def database(self, name: str) -> str:
        """The DSN of a database: always a URI, which every driver takes."""
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{name}"))

    def create(self, name: str, template: str = "template0") -> str:
        """A fresh database, a copy of its template; the DSN."""
        self.drop(name)
        # Copied by pages, not through the WAL, where the server can be asked: a grown table is copied for every measurement.
        strategy = "strategy file_copy" if int(self.version.split(".", maxsplit=1)[0]) >= 15 else ""
        self.sql(f'create database "{name}" template "{template}" {strategy}')
        return self.database(name)

    def drop(self, name: str) -> None:
        """Drop a database with whoever is still connected to it."""
        self.sql(f'drop database if exists "{name}" with (force)')

    def sql(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement by hand, in a transaction of its own."""
        dsn = self.dsn if database is None else self.database(database)
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def settle(self, database: str) -> None:
        """What filling has left to do is done before the clock starts: statistics, visibility, dirty pages."""
        self.sql("vacuum analyze", database)
        self.sql("checkpoint")

    @contextmanager
    def set(self, name: str, value: str) -> Iterator[None]:
        """A setting of the server for the length of a block, where the server is ours."""
        if self.server is None:
            yield
            return
        self.sql(f"alter system set {name} = '{value}'")
        self.sql("select pg_reload_conf()")
        try:
            yield
        finally:
            self.sql(f"alter system reset {name}")
            self.sql("select pg_reload_conf()")

    def wal(self) -> int:
        """How many bytes of WAL the server has written so far."""
        return int(self.sql("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0][0])

    def server_seconds(self) -> float | None:
        """CPU seconds that the server's processes have used so far; None when they are not here."""
        if self.server is None:
            return None
        total = seconds(self.server)
        # Backends that have ended are counted by their parent.
        ended = self.server.cpu_times()
        return total + ended.children_user + ended.children_system


def seconds(root: psutil.Process) -> float:
    """CPU seconds of a process and its descendants."""
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


@contextmanager
def place(folder: Path = FOLDER) -> Iterator[Place]:
    """The place, for the length of a run."""
    url = os.environ.get("BENCH_DATABASE_URL")
    if url:
        if "://" not in url:
            sys.exit("BENCH_DATABASE_URL has to be a URI: not every driver takes another form")
        yield Place(url, _version(url), None)
        return
    with LocalPostgres(folder / "pg", settings=SETTINGS) as local:
        # The tree of the server itself, whichever account and launcher stand in between.
        with psycopg.connect(local.dsn) as connection:
            row = connection.execute("select pid from pg_stat_activity where backend_type = 'checkpointer'").fetchone()
        assert row is not None
        yield Place(local.dsn, _version(local.dsn), psutil.Process(row[0]).parent())


def pgbench() -> str | None:
    """The program, from the server's binaries or from PATH."""
    beside = find().folder / "pgbench"
    return str(beside) if beside.exists() else shutil.which("pgbench")


def _version(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("show server_version").fetchone()
    assert row is not None
    return str(row[0])
