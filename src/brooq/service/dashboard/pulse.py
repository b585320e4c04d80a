"""Tells every open page that something has changed: one look a second, however many pages are open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from brooq.service.dashboard.desk import Desk
from brooq.vocabulary.error import BrooqError

EVERY = 1.0
HEARTBEAT = 15.0
"""After how many seconds of silence a stream shows that it is alive; the same time a page is told to look anew at least."""
MOST = 25
"""How many pages may listen at once: each holds a connection of the surface, of which there are a hundred."""


class Pulse:
    """Runs while somebody listens."""

    def __init__(self, desk: Desk) -> None:
        """Nothing runs yet."""
        self._desk = desk
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._listeners = 0
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether nobody more may listen."""
        return self._listeners >= MOST or self._closed

    async def listen(self) -> AsyncIterator[bytes]:
        """The lines of one stream, to its end."""
        self._listeners += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="brooq dashboard")
        try:
            yield b"retry: 3000\n\nevent: hello\ndata: 1\n\n"
            while not self._closed:
                changed = self._changed
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT)
                except TimeoutError:
                    pass
                if not self._closed:
                    yield b"event: change\ndata: 1\n\n"
        finally:
            self._listeners -= 1

    async def _watch(self) -> None:
        last: str | None = None
        while self._listeners and not self._closed:
            board = self._desk.board
            try:
                now = None if board is None else await board.change()
            except BrooqError:
                now = None  # the pages tell when they are asked for
            if now != last:
                last = now
                self._ring()
            await asyncio.sleep(EVERY)

    def _ring(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def end(self) -> None:
        """End every stream; there are no new ones."""
        self._closed = True
        self._ring()

    async def close(self) -> None:
        """End every stream, and the looking."""
        self.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1.0)
