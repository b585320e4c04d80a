"""The handlers of a site: decorated functions, in `jobs.py` of each app, which the worker imports."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from brooq.engine.kind import is_async
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.job import Topic
from brooq.vocabulary.kind import KindOptions

H = TypeVar("H", bound=Callable[..., Any])
MODULE = "jobs"
_kinds: dict[str, tuple[Handler, KindOptions]] = {}


def kind(topic: str, **options: Any) -> Callable[[H], H]:
    """Register a handler, `def` or `async def`; options as those of KindOptions. A `def` runs in a thread of its own, so
    that the ORM may block there, or in a process that can be killed (`isolation="process"`). Registering a topic once more
    replaces it: Django's autoreload imports twice.

    Raises TopicError.
    """

    def register(handler: H) -> H:
        kept = with_connections(handler)
        _kinds[Topic(topic)] = (kept, KindOptions(**options))
        return kept

    return register


def register_all(queue: Queue) -> None:
    """Register every kind of the site. Raises ConfigError."""
    for topic, (handler, options) in _kinds.items():
        queue.register_kind(topic, handler, options)


def with_connections(handler: H) -> H:
    """The handler between two looks at the database connections, as Django does it around each request: they are not kept
    for longer than CONN_MAX_AGE, nor when they have died."""

    @wraps(handler)
    async def waiting(claim: Claim[Any]) -> Any:
        await sync_to_async(close_old_connections)()
        try:
            return await handler(claim)
        finally:
            await sync_to_async(close_old_connections)()

    @wraps(handler)
    def blocking(claim: Claim[Any]) -> Any:
        close_old_connections()
        try:
            return handler(claim)
        finally:
            close_old_connections()

    return waiting if is_async(handler) else blocking  # type: ignore[return-value]  # called as the handler is
