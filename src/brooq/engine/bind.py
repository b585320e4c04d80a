"""Binds a kind to what its handler runs in: the event loop, a thread, or a child process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brooq.engine.kind import Call, Kind, is_async, refuse_awaitable
from brooq.engine.reading import Reading
from brooq.engine.runtime import Runtime
from brooq.engine.thread import Threads
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode

if TYPE_CHECKING:
    from brooq.engine.process.pool import Processes


class Grounds:
    """What the handlers of one worker run in, beside its event loop. Nothing starts before it is needed."""

    def __init__(self, runtime: Runtime) -> None:
        """Threads and processes are made by the first handler that asks for them."""
        self.threads = Threads()
        self._runtime = runtime
        self._processes: Processes | None = None

    def bind(self, kind: Kind) -> Kind:
        """The kind with a call that runs its handler. Raises ConfigError for one that a child process cannot find."""
        if kind.options.isolation == "process":
            return self._in_process(kind)
        call: Call
        if is_async(kind.handler):
            call = kind.handler
            if kind.reading.typed or kind.options.keep_result:
                call = _wrapped(kind.handler, kind.reading, keeps=kind.options.keep_result)
            return replace(kind, call=call)
        return replace(kind, call=self._in_thread(kind), runner=_InThread())

    async def close(self) -> None:
        """Let threads and processes end."""
        self.threads.close()
        if self._processes is not None:
            await self._processes.close()

    def _in_thread(self, kind: Kind) -> Call:
        handler, reading, keeps = kind.handler, kind.reading, kind.options.keep_result

        def work(claim: Claim[Any]) -> None:
            reading.open(claim)
            result = handler(claim)
            refuse_awaitable(result, handler)
            if keeps:
                claim._result = encode(result)  # noqa: SLF001  the engine made the claim

        async def call(claim: Claim[Any]) -> None:
            await self.threads.run(work, claim)

        return call

    def _in_process(self, kind: Kind) -> Kind:
        lacks = _lacks(kind)
        if lacks:
            raise ConfigError([text("config.kind", topic=kind.topic, problem=lacks)])
        # Only here: half of what it is made of exists on POSIX alone, and takes time to import.
        from brooq.engine.process.place import place_of  # noqa: PLC0415
        from brooq.engine.process.pool import Processes  # noqa: PLC0415

        if self._processes is None:
            self._processes = Processes(self._runtime)
        processes, place, options = self._processes, place_of(kind.topic, kind.handler), kind.options

        async def call(claim: Claim[Any]) -> None:
            claim._result = await processes.run(place, options, claim)  # noqa: SLF001  the engine made the claim

        return replace(kind, call=call, runner=processes)


def _lacks(kind: Kind) -> str:
    """What this system cannot do that the kind asks for."""
    if not hasattr(os, "wait4"):
        return text("config.no_isolation", platform=sys.platform)
    if kind.options.max_memory is not None and not Path("/proc/self/statm").exists():
        return text("config.no_memory", platform=sys.platform)
    return ""


def _wrapped(handler: Handler, reading: Reading, *, keeps: bool) -> Call:
    async def call(claim: Claim[Any]) -> None:
        reading.open(claim)
        result = await handler(claim)
        if keeps:
            claim._result = encode(result)  # noqa: SLF001  the engine made the claim

    return call


class _InThread:
    """Nothing stops a thread: it has to look, and is told when it waits."""

    def interrupt(self, claim: Claim[Any], grace: float, last: Callable[[], None]) -> float:
        """Wake it if it waits for that."""
        claim._interrupted()  # noqa: SLF001  the engine made the claim
        return grace

    def kill(self, claim: Claim[Any]) -> bool:
        """It cannot be killed."""
        return False
