"""The drivers that the adapter speaks through: whichever made the consumer's pool."""

from __future__ import annotations

from psycopg_pool import AsyncConnectionPool

from brooq.postgres.drivers.psycopg import PsycopgDriver
from brooq.postgres.session import Driver
from brooq.vocabulary.message import text


def driver_of(pool: object) -> Driver:
    """The driver that a pool belongs to. Raises TypeError for anything but a pool of psycopg or asyncpg."""
    if isinstance(pool, AsyncConnectionPool):
        return PsycopgDriver(pool)
    if type(pool).__module__.partition(".")[0] == "asyncpg":
        from brooq.postgres.drivers.asyncpg import AsyncpgDriver  # noqa: PLC0415  an optional dependency

        return AsyncpgDriver(pool)
    raise TypeError(text("postgres.pool_type", type=f"{type(pool).__module__}.{type(pool).__qualname__}"))
