"""A connection beside the store under test, for what only the database can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from brooq.postgres import PostgresStore, open_pool
from brooq.postgres.pool import Pool


class Observer:
    """Reads and writes by hand, in autocommit."""

    def __init__(self, dsn: str) -> None:
        """Connects at once."""
        self.dsn = dsn
        self._connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)

    def run(self, query: LiteralString | sql.Composed, *parameters: object) -> list[tuple[Any, ...]]:
        """Run one statement; its rows, if it has any."""
        cursor = self._connection.execute(query, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: LiteralString, *parameters: object) -> Any:
        """The one value that a query answers."""
        return self.run(query, *parameters)[0][0]

    def set(self, name: LiteralString, value: LiteralString) -> None:
        """A default of this database, for sessions that begin after this."""
        database = sql.Identifier(str(self.value("select current_database()")))
        self.run(sql.SQL("alter database {} set {} = {}").format(database, sql.Identifier(name), sql.Literal(value)))

    def sessions(self) -> int:
        """How many other sessions of this database there are."""
        return int(
            self.value(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
            )
        )

    def cut(self) -> int:
        """End every other session of this database; how many there were."""
        return len(
            self.run(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
            )
        )

    async def until(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  the database has no event to wait for
                await asyncio.sleep(0.01)

    def close(self) -> None:
        """Log out."""
        self._connection.close()


class Opened(AbstractAsyncContextManager[PostgresStore]):
    """A store with a pool of its own: `async with Opened(dsn) as store`."""

    def __init__(self, dsn: str, schema: str = "public", *, patience: float = 30.0, **options: Any) -> None:
        """`options` are those of `open_pool`."""
        self._opening = open_pool(dsn, **({"min_size": 0, "max_size": 5} | options))
        self._schema, self._patience = schema, patience
        self.pool: Pool

    async def __aenter__(self) -> PostgresStore:
        """Open both."""
        self.pool = await self._opening.__aenter__()
        self._store = PostgresStore(self.pool, self._schema, patience=self._patience)
        return self._store

    async def __aexit__(self, *_: object) -> None:
        """Close both."""
        await self._store.close()
        await self.pool.close()
