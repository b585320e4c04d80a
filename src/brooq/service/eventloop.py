"""Which event loop the worker runs its handlers in: asyncio's own, or uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

AUTO, ASYNCIO, UVLOOP = "auto", "asyncio", "uvloop"
LOOPS: Final = (AUTO, ASYNCIO, UVLOOP)


def choose(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop of this name; `auto` is uvloop's where that is installed.

    Raises ConfigError when uvloop is asked for by name and cannot be imported.
    """
    if name != ASYNCIO:
        try:
            import uvloop  # noqa: PLC0415  an extra
        except ImportError as error:
            if name == UVLOOP:
                raise ConfigError([text("process.no_uvloop", reason=error)]) from None
        else:
            made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
            return made
    return asyncio.new_event_loop
