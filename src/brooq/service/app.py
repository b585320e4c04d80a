"""The application that `brooq worker --app package.module:attribute` names: where its queue comes from.

The attribute is one of
- a `Queue`. The pool of its `PostgresStore` may be one that is not open yet (`AsyncConnectionPool(…, open=False)`):
  the process opens it at its start and closes it at its end.
- a function without parameters that answers an async context manager of a `Queue` (`@asynccontextmanager`), or a
  `Queue`. It is called in the worker's event loop: here an application opens and closes whatever it needs.
Without `--app` there is a queue with the kind `demo` alone, which logs its payload.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from brooq.engine.queue import Queue
from brooq.engine.store import Store
from brooq.postgres.session import Driver
from brooq.postgres.store import PostgresStore
from brooq.postgres.trouble import ReadOnlyServer
from brooq.service.health import Probe
from brooq.service.line import shorten
from brooq.service.settings import Settings
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import BrooqError
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode

log = logging.getLogger("brooq")

App: TypeAlias = Callable[[], AbstractAsyncContextManager[Queue]]
"""Opens the queue for the length of a block. Called anew after a start that failed for want of a database."""

PROBE_PATIENCE = 2.0
DEMO = "demo"


class AppError(BrooqError):
    """`--app` does not lead to a queue."""


def load_app(path: str) -> App:
    """The application by its path. Raises AppError, and whatever its module raises while it is imported."""
    name, colon, attribute = path.partition(":")
    if not (name and colon and attribute):
        raise AppError(text("process.app_path", path=path))
    here = str(os.getcwd())  # noqa: PTH109  as Python writes it in sys.path
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself, or a package above it; what the module imports in turn is its own business.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppError(text("process.app_module", module=name, folder=here)) from None
        raise
    found = getattr(module, attribute, None)
    if found is None:
        close = difflib.get_close_matches(attribute, dir(module), 1)
        hint = text("setting.did_you_mean", name=f"{name}:{close[0]}") if close else ""
        raise AppError(text("process.app_attribute", module=name, attribute=attribute) + hint)
    if not isinstance(found, Queue) and not callable(found):
        raise AppError(text("process.app_kind", path=path, type=type(found).__name__))
    return _Named(found, path).open


class _Named:
    """What `--app` names; opened once for every try to start."""

    def __init__(self, found: Any, path: str) -> None:
        self._found = found
        self._path = path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Queue]:
        found = self._found
        if not isinstance(found, Queue):
            found = found()
        if isinstance(found, Queue):
            await self._open_pool(found)
            yield found
        elif isinstance(found, AbstractAsyncContextManager):
            async with found as queue:
                if not isinstance(queue, Queue):
                    raise self._wrong(queue)
                yield queue
        else:
            raise self._wrong(found)

    async def _open_pool(self, queue: Queue) -> None:
        """Open a pool that is closed: the process is the consumer here (T6). It stays open to the process's end, over the
        tries of a start too: a pool cannot be opened twice."""
        driver = driver_of(queue)
        if driver is not None:
            # Without waiting: the engine tells by itself whether the database answers.
            await driver.open()

    def _wrong(self, found: object) -> AppError:
        return AppError(text("process.app_kind", path=self._path, type=type(found).__name__))


def driver_of(queue: Queue) -> Driver | None:
    """The driver of the queue's pool; None for another store."""
    return queue.store.driver if isinstance(queue.store, PostgresStore) else None


def probe_of(queue: Queue) -> Probe:
    """What asks the database for its schema, over a connection that the engine's upkeep never holds up."""
    store = queue.store
    if isinstance(store, PostgresStore):
        return _Writable(PostgresStore(store.pool, store.schema, patience=PROBE_PATIENCE))
    return _Borrowed(store)


class _Writable:
    """A store of PostgreSQL, asked whether it can do what a worker needs."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def open(self) -> None:
        await self._store.open()
        if self._store.read_only:
            raise ReadOnlyServer(text("postgres.read_only"))

    async def close(self) -> None:
        await self._store.close()


class _Borrowed:
    """A store of another kind, which is the engine's to close."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        pass


def demo_app(settings: Settings) -> App:
    """The queue without an application."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Queue]:
        store = PostgresStore(settings.make_pool(), settings.schema, wakeups=settings.wakeups)
        queue = Queue(store, settings.config)
        queue.register_kind(DEMO, demo)
        await store.driver.open()
        try:
            yield queue
        finally:
            await store.driver.close(2.0)

    return opened


async def demo(claim: Claim) -> None:
    """The built-in kind: logs its payload."""
    payload = shorten(encode(claim.payload), 500)
    log.info(text("process.demo", job=claim.id, payload=payload), extra={"job": str(claim.id), "topic": claim.topic})
    await asyncio.sleep(0)
