"""Where measurements run: a PostgreSQL of its own, or the one that BENCH_DATABASE_URL names."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres

SCHEMA = "brooq_bench"

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
    """A database with brooq's schema in it, and the server's processes where they are on this machine."""

    dsn: str
    version: str
    server: psutil.Process | None

    def empty(self) -> None:
        """Every run starts on an empty, vacuumed table."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'truncate "{SCHEMA}".job')
            connection.execute("checkpoint")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement by hand."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def server_seconds(self) -> float | None:
        """CPU seconds that the server's processes have used so far; None when they are not here."""
        if self.server is None:
            return None
        total = 0.0
        for process in (self.server, *self.server.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        # Backends that have ended are counted by their parent.
        ended = self.server.cpu_times()
        return total + ended.children_user + ended.children_system


@contextmanager
def place() -> Iterator[Place]:
    """The place, for the length of a run."""
    url = os.environ.get("BENCH_DATABASE_URL")
    if url:
        yield _prepare(url, None)
        return
    with LocalPostgres(Path(".brooq/bench/pg"), settings=SETTINGS) as local:
        with psycopg.connect(local.dsn) as connection:
            row = connection.execute("select pid from pg_stat_activity where backend_type = 'checkpointer'").fetchone()
        assert row is not None
        yield _prepare(local.dsn, psutil.Process(row[0]).parent())


def _prepare(dsn: str, server: psutil.Process | None) -> Place:
    with psycopg.connect(dsn, autocommit=True) as connection:
        # Anew for every run: an earlier one may have been of another version.
        connection.execute(f'drop schema if exists "{SCHEMA}" cascade'.encode())
    migrate.up(dsn, schema=SCHEMA)
    with psycopg.connect(dsn) as connection:
        connection.execute("create extension if not exists pg_stat_statements")
        row = connection.execute("show server_version").fetchone()
    assert row is not None
    return Place(dsn, row[0], server)


class Stopwatch:
    """Wall time, and the CPU that client and server use meanwhile."""

    def __init__(self, place: Place) -> None:
        """Starts at once."""
        self._place = place
        self._wall = time.perf_counter()
        self._client = time.process_time()
        self._server = place.server_seconds()

    def stop(self) -> tuple[float, float, float | None]:
        """Seconds, client CPU in percent, server CPU in percent."""
        wall = time.perf_counter() - self._wall
        client = 100 * (time.process_time() - self._client) / wall
        server = self._place.server_seconds()
        if server is None or self._server is None:
            return wall, client, None
        return wall, client, 100 * (server - self._server) / wall
