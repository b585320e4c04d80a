"""A pool for consumers who have none."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

import psycopg
from psycopg_pool import AsyncConnectionPool

from brooq.postgres.drivers import driver_of
from brooq.postgres.trouble import translate
from brooq.vocabulary.error import ConfigError, StoreRefused
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    import asyncpg

P = TypeVar("P")
CLOSING = 5.0
"""How many seconds a pool has to close in good order."""

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
    """A pool that is not open yet.

    `prepared=False` for PgBouncer in transaction mode: no prepared statements.
    `timeout` is how many seconds a caller waits for a connection.
    """
    kwargs: dict[str, Any] = {"application_name": application_name, "connect_timeout": 10}
    if not prepared:
        kwargs["prepare_threshold"] = None

    pool: Pool = AsyncConnectionPool(
        dsn,
        kwargs=kwargs,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout,
        open=False,
    )
    return pool


@overload
def open_pool(
    dsn: str,
    *,
    driver: Literal["psycopg"] = "psycopg",
    min_size: int = 1,
    max_size: int = 10,
    prepared: bool = True,
    timeout: float = 30.0,
) -> Opening[Pool]: ...


@overload
def open_pool(
    dsn: str,
    *,
    driver: Literal["asyncpg"],
    min_size: int = 1,
    max_size: int = 10,
    prepared: bool = True,
    timeout: float = 30.0,
) -> Opening[asyncpg.Pool[asyncpg.Record]]: ...


def open_pool(
    dsn: str,
    *,
    driver: str = "psycopg",
    min_size: int = 1,
    max_size: int = 10,
    prepared: bool = True,
    timeout: float = 30.0,
) -> Opening[Any]:
    """A pool, opened: `async with open_pool(dsn) as pool` closes it at the end, `pool = await open_pool(dsn)` leaves that
    to the caller. `driver` is `psycopg`, or `asyncpg` (the extra `asyncpg`), which costs the client half as much.

    Raises StoreUnavailable when no connection could be made within `timeout` seconds; the password is never in the text.
    """
    if driver == "asyncpg":
        return Opening(make_asyncpg_pool(dsn, min_size=min_size, max_size=max_size, prepared=prepared), dsn, timeout)
    return Opening(
        make_pool(dsn, min_size=min_size, max_size=max_size, prepared=prepared, timeout=timeout), dsn, timeout
    )


def make_asyncpg_pool(
    dsn: str, *, min_size: int = 1, max_size: int = 10, prepared: bool = True, application_name: str = "brooq"
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool of asyncpg that is not open yet. Raises ConfigError when asyncpg is not installed, StoreRefused
    for a DSN that cannot be read."""
    try:
        from brooq.postgres.drivers import asyncpg as driver  # noqa: PLC0415  an optional dependency
    except ImportError:
        raise ConfigError([text("postgres.no_asyncpg")]) from None
    try:
        return driver.make_pool(
            dsn, min_size=min_size, max_size=max_size, prepared=prepared, application_name=application_name
        )
    except psycopg.Error:
        # What libpq says of a DSN that it cannot read quotes any word of it.
        raise StoreRefused(text("dsn.invalid")) from None


class Opening(Generic[P]):
    """A pool about to be opened."""

    def __init__(self, pool: P, dsn: str, timeout: float) -> None:
        """Nothing is opened yet."""
        self._pool = pool
        self._dsn = dsn
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, P]:
        """Open the pool."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> P:
        """Open the pool for the length of a block."""
        pool: Any = self._pool
        try:
            if isinstance(pool, AsyncConnectionPool):
                await pool.open(wait=pool.min_size > 0, timeout=self._timeout)
            else:
                async with asyncio.timeout(self._timeout):
                    await pool
        except driver_of(pool).errors as error:
            await self.__aexit__()
            raise translate(error, dsn=self._dsn) from None
        return self._pool

    async def __aexit__(self, *_: object) -> None:
        """Close the pool."""
        await driver_of(self._pool).close(CLOSING)
