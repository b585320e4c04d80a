"""The child processes of a worker: as many as handlers run in them at one time, kept warm, replaced when they are old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from brooq.engine.process.child import Child
from brooq.engine.process.travel import pack_claim, unpack_error, unpack_job
from brooq.engine.runtime import Runtime
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import PayloadError, ProcessDied
from brooq.vocabulary.kind import ResolvedOptions
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES

IDLE = 300.0
"""How many seconds a process without work stays."""

PATIENCE = 5.0
"""How many seconds a process that is dismissed has to exit; and how long one that was killed may take to be gone."""

CLOSING = 1.0
"""How many seconds they have for it when the worker stops."""


class Processes:
    """Runs handlers in child processes. Starts none before the first job."""

    def __init__(self, runtime: Runtime) -> None:
        """Nothing runs yet."""
        self._runtime = runtime
        self._idle: list[Child] = []
        self._busy: dict[Claim[Any], Child] = {}
        self._all: set[Child] = set()
        self._timers: dict[Child, asyncio.TimerHandle] = {}
        self._closed = False

    async def run(self, place: str, options: ResolvedOptions, claim: Claim[Any]) -> str | None:
        """Run the handler at a place; answers its result as JSON where the kind keeps it, and leaves the jobs that it
        chained with the claim. Raises what the handler raised, or ProcessDied."""
        message = {"do": "run", "handler": place, "keep": options.keep_result, **pack_claim(claim)}
        while True:
            child = self._take(options, claim)
            try:
                answer = await self._run_in(child, message, options, claim)
                break
            except ProcessDied:
                if child.begun or child.jobs == 1 or claim.interruption is not None:
                    raise
                # It had died while it waited for work, and nobody had heard of that yet.
        if answer["say"] == "failed":
            raise unpack_error(answer)
        chained = [unpack_job(values) for values in answer["chained"]]
        if chained:
            claim._chained = chained  # noqa: SLF001  the engine made it
        result: str | None = answer["result"]
        if result is not None and len(result) > MAX_BYTES:
            raise PayloadError(text("payload.too_large", size=len(result), limit=MAX_BYTES))
        return result

    async def _run_in(
        self, child: Child, message: dict[str, Any], options: ResolvedOptions, claim: Claim[Any]
    ) -> dict[str, Any]:
        self._busy[claim] = child
        try:
            return await child.run(message, options.max_memory)
        except asyncio.CancelledError:
            child.kill()  # nobody waits for it any more, and what it was told may be cut off
            raise
        finally:
            del self._busy[claim]
            self._give_back(child, options)

    def interrupt(self, claim: Claim[Any], grace: float, last: Callable[[], None]) -> float:
        """The handler hears of it at once, by SIGTERM after half of the grace, and is killed at its end."""
        child = self._busy.get(claim)
        if child is not None and claim.interruption is not None:
            child.interrupt(claim.interruption, grace, last)
        return grace + PATIENCE

    def kill(self, claim: Claim[Any]) -> bool:
        """Kill the process of this handler."""
        child = self._busy.get(claim)
        if child is None:
            return False
        child.kill()
        return True

    async def close(self) -> None:
        """Let all of them exit, and kill those that do not."""
        self._closed = True
        for child in list(self._all):
            self._dismiss(child)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._gone()
        for child in list(self._all):
            child.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._gone()

    async def _gone(self) -> None:
        for child in list(self._all):
            await child.gone.wait()

    def _take(self, options: ResolvedOptions, claim: Claim[Any]) -> Child:
        while self._idle:
            child = self._idle.pop()
            self._timers.pop(child).cancel()
            # What another kind has left in it must not bring this one near its ceiling.
            if child.alive and (options.max_memory is None or child.memory() <= options.max_memory // 2):
                child.claim = claim
                return child
            self._dismiss(child)
        child = Child(self._runtime, self._all.discard)
        child.claim = claim
        self._all.add(child)
        return child

    def _give_back(self, child: Child, options: ResolvedOptions) -> None:
        child.claim = None
        old = child.jobs >= options.recycle_jobs
        large = options.recycle_memory is not None and child.memory() > options.recycle_memory
        if self._closed or not child.alive or child.spoiled or old or large:
            self._dismiss(child)
            return
        self._idle.append(child)
        self._timers[child] = asyncio.get_running_loop().call_later(IDLE, self._retire, child)

    def _retire(self, child: Child) -> None:
        self._idle.remove(child)
        self._timers.pop(child)
        self._dismiss(child)

    def _dismiss(self, child: Child) -> None:
        timer = self._timers.pop(child, None)
        if timer is not None:
            timer.cancel()
            self._idle.remove(child)
        child.dismiss(PATIENCE)
