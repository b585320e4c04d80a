"""Handlers that block, in threads of their own, with what a framework wants around each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any

from brooq.vocabulary.claim import Claim, Handler


class Threads:
    """As many threads as a worker has slots."""

    def __init__(self, size: int) -> None:
        """Starts none yet."""
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="handler of brooq")

    def wrap(self, handler: Callable[[Claim], Any], around: Callable[[], AbstractContextManager[Any]]) -> Handler:
        """A handler for the engine that runs a `def` in a thread, inside of `around()`."""

        def call(claim: Claim) -> Any:
            with around():
                return handler(claim)

        async def run(claim: Claim) -> Any:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._executor, copy_context().run, call, claim)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be stopped: its slot stays taken until it ends, and the watchdog tells of it.
                await asyncio.wait([work])
                raise

        return run

    def close(self) -> None:
        """Let go of the threads, without waiting for one that does not end."""
        self._executor.shutdown(wait=False, cancel_futures=True)
