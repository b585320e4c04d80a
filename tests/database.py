"""Databases for tests: a server a worker, a template made by the shipped migrations, a copy of it for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from brooq.postgres import migrate
from brooq.postgres.dsn import describe
from brooq.postgres.local import LocalPostgres

SETTINGS: dict[str, str | int | bool] = {
    "fsync": False,
    "synchronous_commit": False,
    "full_page_writes": False,
    "max_connections": 200,
    "max_prepared_transactions": 20,
    "log_lock_waits": True,
    "shared_buffers": "64MB",
}


ROOM = 6 * 2**30
"""How many bytes the servers of a test run may take together, amply."""


@dataclass
class Server:
    """A server for tests. `databases()` lends; nothing of a test stays behind."""

    dsn: str
    """The superuser's, or that of TEST_DATABASE_URL: it may create databases."""
    description: str
    worker: str
    """Of pytest-xdist ("gw0"), for names: several workers may share one server."""
    local: LocalPostgres | None
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _template: str | None = None
    _connection: psycopg.Connection[Any] | None = None

    def execute(self, query: sql.Composed) -> None:
        """Run one statement outside of any transaction."""
        # Kept open: a login costs as much as a database. A test may have killed the server meanwhile.
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = psycopg.connect(self.dsn, autocommit=True)
        try:
            self._connection.execute(query)
        except psycopg.OperationalError:
            if not self._connection.broken:
                raise
            self._connection.close()
            self._connection = psycopg.connect(self.dsn, autocommit=True)
            self._connection.execute(query)

    @contextmanager
    def database(self, *, migrated: bool) -> Iterator[str]:
        """The DSN of a fresh database, dropped afterwards with whoever is still connected to it."""
        template = self._migrated_template() if migrated else "template0"
        name = self._create(template)
        try:
            yield _with_database(self.dsn, name)
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Drop a database."""
        self.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def close(self) -> None:
        """Drop the template, log out."""
        if self._template:
            self.drop(self._template)
        if self._connection:
            self._connection.close()

    def _create(self, template: str) -> str:
        name = f"brooq_{self.worker}_{os.getpid()}_{next(self._numbers)}"
        query = sql.SQL("create database {} template {}")
        self.execute(query.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def _migrated_template(self) -> str:
        if self._template is None:
            self._template = self._create("template0")
            migrate.up(_with_database(self.dsn, self._template))
        return self._template


def _with_database(dsn: str, name: str) -> str:
    """The same DSN for another database, still a URI when it was one: other drivers take nothing else."""
    if "://" not in dsn:
        return make_conninfo(dsn, dbname=name)
    head, mark, query = dsn.partition("?")
    scheme, _, rest = head.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{name}{mark}{query}"


@contextmanager
def server(worker: str) -> Iterator[Server]:
    """The server of TEST_DATABASE_URL, else one of our own in a short temporary folder that ends with the tests."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        found = Server(given, f"PostgreSQL {_version(given)} ({describe(given)})", worker, None)
        try:
            yield found
        finally:
            found.close()
        return
    folder = Path(tempfile.mkdtemp(prefix="brooq-", dir=_roomy()))
    try:
        with LocalPostgres(folder / "pg", settings=SETTINGS) as local:
            found = Server(local.dsn, f"PostgreSQL {_version(local.dsn)} (local)", worker, local)
            try:
                yield found
            finally:
                found.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _roomy() -> str:
    """Memory, where there is enough of it: each test makes and drops a database, which is three hundred files, and a file
    system that has just seen thousands of them go is slow to find room for the next."""
    memory = Path("/dev/shm")  # noqa: S108
    if memory.is_dir() and os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free >= ROOM:
        return str(memory)
    return "/tmp"  # noqa: S108


def _version(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        row: Any = connection.execute("show server_version").fetchone()
    return str(row[0]).split()[0]
