"""The handlers of a site: decorated functions, in `jobs.py` of each app, which the worker imports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from brooq.contrib.thread import Threads
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.job import Topic
from brooq.vocabulary.kind import KindOptions

H = TypeVar("H", bound=Callable[[Claim], Any])
MODULE = "jobs"
_kinds: dict[str, tuple[Callable[[Claim], Any], KindOptions]] = {}


def kind(topic: str, **options: Any) -> Callable[[H], H]:
    """Register a handler, `def` or `async def`; options as those of KindOptions. A `def` runs in a thread of its own, so
    that the ORM may block there. Registering a topic once more replaces it: Django's autoreload imports twice.

    Raises TopicError.
    """

    def register(handler: H) -> H:
        _kinds[Topic(topic)] = (handler, KindOptions(**options))
        return handler

    return register


def register_all(queue: Queue, threads: Threads) -> None:
    """Register every kind of the site. Raises ConfigError."""
    for topic, (handler, options) in _kinds.items():
        queue.register_kind(topic, with_connections(handler, threads), options)


def with_connections(handler: Callable[[Claim], Any], threads: Threads) -> Handler:
    """The handler between two looks at the database connections, as Django does it around each request: they are not kept
    for longer than CONN_MAX_AGE, nor when they have died."""
    if not inspect.iscoroutinefunction(handler):
        return threads.wrap(handler, _connections)

    async def run(claim: Claim) -> Any:
        await sync_to_async(close_old_connections)()
        try:
            return await handler(claim)
        finally:
            await sync_to_async(close_old_connections)()

    return run


@contextmanager
def _connections() -> Iterator[None]:
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
