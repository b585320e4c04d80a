"""A pool for consumers who have none."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

import psycopg
from psycopg_pool import AsyncConnectionPool

from brooq.postgres.trouble import translate

Pool: TypeAlias = AsyncConnectionPool[psycopg.AsyncConnection[Any]]


def make_pool(
    dsn: str,
    *,
    min_size: int = 1,
    max_size: int = 10,
    prepared: bool = True,
    timeout: float = 30.0,
    application_name: str = "brooq",
) -> Pool:
    """A pool that is not open yet; connections are checked before they are lent.

    `prepared=False` for PgBouncer in transaction mode: no prepared statements.
    `timeout` is how many seconds a caller waits for a connection.
    """
    kwargs: dict[str, Any] = {"application_name": application_name, "connect_timeout": 10}
    if not prepared:
        kwargs["prepare_threshold"] = None

    async def check(connection: psycopg.AsyncConnection[Any]) -> None:
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.Error:
            # Where one connection has died all have, most likely. Left alone the pool would find them one by one, with a
            # pause that doubles after each: five dead ones would outlast the caller's patience (fault 29).
            await pool.check()
            raise

    pool: Pool = AsyncConnectionPool(
        dsn,
        kwargs=kwargs,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout,
        open=False,
        check=check,
    )
    return pool


def open_pool(
    dsn: str, *, min_size: int = 1, max_size: int = 10, prepared: bool = True, timeout: float = 30.0
) -> Opening:
    """A pool, opened: `async with open_pool(dsn) as pool` closes it at the end, `pool = await open_pool(dsn)` leaves that
    to the caller.

    Raises StoreUnavailable when no connection could be made within `timeout` seconds; the password is never in the text.
    """
    return Opening(make_pool(dsn, min_size=min_size, max_size=max_size, prepared=prepared, timeout=timeout))


class Opening:
    """A pool about to be opened."""

    def __init__(self, pool: Pool) -> None:
        """Nothing is opened yet."""
        self._pool = pool

    def __await__(self) -> Generator[Any, None, Pool]:
        """Open the pool."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Pool:
        """Open the pool for the length of a block."""
        try:
            await self._pool.open(wait=self._pool.min_size > 0, timeout=self._pool.timeout)
        except psycopg.Error as error:
            await self._pool.close()
            raise translate(error) from None
        return self._pool

    async def __aexit__(self, *_: object) -> None:
        """Close the pool."""
        await self._pool.close()
