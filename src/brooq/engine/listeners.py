"""Listeners: whoever wants to hear of events. One that raises never harms a job (requirement V3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from brooq.vocabulary.event import Event
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

Listener: TypeAlias = Callable[[Event], object]


class Listeners:
    """Tells every listener of every event, in the order of registration."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Tell this one too. It is called in the engine's loop and must not block."""
        self._listeners.append(listener)

    def __bool__(self) -> bool:
        """Whether anybody listens: events are made only for somebody."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception(text("engine.listener_failed", listener=repr(listener), happening=type(event).__name__))
