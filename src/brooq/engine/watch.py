"""The watch: everybody in this process who waits for the end of a job, with one question to the store for all of them."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from brooq.engine.store import Store
from brooq.vocabulary.error import JobNotFound, StoreUnavailable
from brooq.vocabulary.job import JobRecord
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

FIRST = 0.02
"""After how many seconds the store is asked again, at first; each time half as long again, up to the last."""
LAST = 1.0
BATCH = 1000
"""About how many jobs one question is."""


class Watch:
    """Asks while somebody waits, and only then."""

    def __init__(self, store: Store) -> None:
        """Nobody waits yet."""
        self._store = store
        self._waiting: dict[UUID, list[asyncio.Future[JobRecord]]] = {}
        self._pause = FIRST
        self._fresh = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, id: UUID, seconds: float | None) -> JobRecord:
        """The row of the job once it is at its end. Raises JobNotFound, and TimeoutError after so many seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[JobRecord] = loop.create_future()
        self._waiting.setdefault(id, []).append(future)
        self._pause = FIRST  # whoever comes new may wait for a job that is quick
        self._fresh.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._ask_on(), name="brooq watch")
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise TimeoutError(text("job.not_ended", job=id, seconds=seconds)) from None
        finally:
            left = self._waiting.get(id, [])
            if future in left:
                left.remove(future)
                if not left:
                    del self._waiting[id]
            if not self._waiting and self._task is not None:
                self._task.cancel()
                self._task = None  # whoever waits next must not rely on one that is about to end

    async def _ask_on(self) -> None:
        while self._waiting:
            self._fresh.clear()
            ids = list(self._waiting)
            for start in range(0, len(ids), BATCH):
                await self._ask(ids[start : start + BATCH])
            try:
                async with asyncio.timeout(self._pause):
                    await self._fresh.wait()
            except TimeoutError:
                self._pause = min(self._pause * 1.5, LAST)

    async def _ask(self, ids: list[UUID]) -> None:
        try:
            found = await self._store.ended(ids)
        except StoreUnavailable as error:
            log.debug(
                text("engine.still_waiting", count=len(ids), reason=error)
            )  # whoever waits has a timeout for that
            return
        except Exception as error:  # noqa: BLE001  told to everybody who waits
            for id in ids:
                self._tell(id, error)
            return
        for id in ids:
            if id not in found:
                self._tell(id, JobNotFound(text("job.not_found", job=id)))
            elif (record := found[id]) is not None:
                self._tell(id, record)

    def _tell(self, id: UUID, answer: JobRecord | Exception) -> None:
        for future in self._waiting.pop(id, []):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
