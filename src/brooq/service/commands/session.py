"""A queue for the length of one command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from brooq.engine.queue import Queue
from brooq.postgres.dsn import describe
from brooq.postgres.reader import Reader
from brooq.postgres.store import PostgresStore
from brooq.service.settings import Settings, load
from brooq.vocabulary.error import StoreUnavailable
from brooq.vocabulary.message import text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with."""

    settings: Settings
    queue: Queue
    store: PostgresStore
    reader: Reader


@asynccontextmanager
async def session(settings: Settings | None = None) -> AsyncIterator[Session]:
    """Connect, check the schema, and close at the end.

    Raises ConfigError, StoreUnavailable naming the place at once (nobody waits for a pool's time limit), SchemaError.
    """
    settings = settings or load(database=True)
    pool = settings.make_pool(max_size=2, driver="psycopg")
    store = PostgresStore(pool, settings.schema, wakeups=settings.wakeups)
    reader = Reader(store)
    try:
        await reach(store, settings)
        await pool.open(wait=False)
        yield Session(settings, Queue(store, settings.config), store, reader)
    finally:
        await reader.close()
        await store.close()
        await pool.close(timeout=2.0)


async def reach(store: PostgresStore, settings: Settings) -> None:
    """Check that the database answers and its schema is right, naming the place when it does not answer."""
    try:
        await store.open()
    except StoreUnavailable as error:
        raise StoreUnavailable(text("migrate.unreachable", where=describe(settings.dsn), reason=error)) from None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work."""
    return asyncio.run(work)
