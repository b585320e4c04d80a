"""What the engine does for claims while their handlers run: progress on its way to the rows, and the fence."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

from brooq.engine.reason import sanitize
from brooq.engine.store import Hold, Store
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import StoreError
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import LeaseLost
from brooq.vocabulary.tx import Tx

log = logging.getLogger("brooq")

PERIOD = 1.0
"""At most every so many seconds something is written."""

MAX_NOTE = 500
"""How many bytes of a note are kept."""


class ClaimHands:
    """Serves the claims of one worker. Of what handlers tell, the latest word of each is written, all in one statement."""

    def __init__(self, store: Store, worker: str) -> None:
        """In the worker's loop. Nothing runs while nobody tells anything."""
        self._store = store
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._told: dict[Hold, str] = {}
        self._task: asyncio.Task[None] | None = None

    def progress(self, claim: Claim[Any], done: float, note: str) -> None:
        """Keep it for the next write; from any thread."""
        told = json.dumps({"done": done, "note": sanitize(note, MAX_NOTE)})
        with self._lock:
            first = not self._told
            self._told[Hold(claim.id, claim.token)] = told
        if first:
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                pass  # the loop is closed, and the worker with it

    async def assert_held(self, claim: Claim[Any], tx: Tx) -> None:
        """Ask the store in the consumer's transaction."""
        if not await self._store.assert_held(tx, Hold(claim.id, claim.token)):
            raise LeaseLost(text("engine.not_held", job=claim.id, token=claim.token))

    async def close(self) -> None:
        """Write nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._write(), name="brooq progress")

    async def _write(self) -> None:
        """The first word at once, then at most one write a period."""
        while True:
            with self._lock:
                told, self._told = self._told, {}
            if not told:
                return
            try:
                await self._store.progress(self._worker, told)
            except StoreError as error:
                log.debug(text("engine.progress_lost", count=len(told), reason=error))
            except Exception as error:  # noqa: BLE001  a hint must harm nothing
                log.warning(text("engine.progress_failed", reason=repr(error)))
            await asyncio.sleep(PERIOD)
