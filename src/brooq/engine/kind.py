"""A kind: what is registered for a topic."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from brooq.engine.reading import PLAIN, Reading, call_of
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.kind import ResolvedOptions
from brooq.vocabulary.message import text
from brooq.vocabulary.steering import Limits

Call: TypeAlias = Callable[[Claim[Any]], Awaitable[Any]]
"""Runs a handler to its end, in whatever it runs."""

Wrap: TypeAlias = Callable[[Call], Call]
"""Puts something around every call: spans of a trace, for example."""


class Runner(Protocol):
    """Where handlers run that are not coroutines of the worker's loop, as far as interrupting them goes."""

    def interrupt(self, claim: Claim[Any], grace: float, last: Callable[[], None]) -> float:
        """`claim.interruption` has been set: see to it that the handler hears. Where a handler can be killed, it is
        `grace` seconds later, and `last` is called just before. Answers how long to wait until it counts as hung."""

    def kill(self, claim: Claim[Any]) -> bool:
        """End the handler now; answers whether that can be done."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A topic's handler with its options."""

    topic: str
    handler: Handler
    options: ResolvedOptions
    limits: Limits | None = None
    call: Call = None  # type: ignore[assignment]  # what the handler is, unless it is told
    runner: Runner | None = None
    """None: a coroutine of the worker's loop, interrupted by canceling its task."""
    reading: Reading = PLAIN

    def __post_init__(self) -> None:
        """A coroutine function is its own call."""
        if self.call is None:
            object.__setattr__(self, "call", self.handler)


def refuse_awaitable(result: Any, handler: Handler) -> None:
    """A plain function that answers something to be awaited has done nothing yet. Raises TypeError."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(text("engine.awaitable", handler=getattr(handler, "__qualname__", repr(handler))))


def is_async(handler: Handler) -> bool:
    """Whether a handler is a coroutine function, also as an object with such a `__call__`."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call_of(handler))


def can_handle(handler: object) -> bool:
    """Whether this can be a handler: no generator, and to be called with one argument."""
    if not callable(handler) or inspect.isclass(handler):
        return False
    bodies = (handler, call_of(handler))
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in bodies):
        return False
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        return False
    except ValueError:
        pass  # a builtin that tells nothing of its arguments
    return True
