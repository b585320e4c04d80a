"""Connections to the surface: a bounded number, each for a bounded time, so that whoever opens ten thousand of them and
sends nothing, or a byte a second, costs the jobs next to nothing and keeps nobody else out.

When there are too many, the one that has waited longest for the end of its request makes room. One whose request is being
answered never does.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 200
"""How many connections are open at a time."""

REQUEST_TIME = 10.0
"""Within how many seconds of its beginning a request has to be there, headers and body."""

READ_TIME = 20.0
"""For how many seconds an answer waits for a client that does not read it."""

MAX_HEADERS = 64 * 1024
"""How large in bytes all the headers of a request may be."""


class Crowd:
    """Who is connected: those that wait for a request, longest first, and how many there are in all."""

    def __init__(self, most: int) -> None:
        """`most` at a time."""
        self.most = most
        self.count = 0
        self.waiting: dict[BoundedProtocol, None] = {}

    def enter(self, who: BoundedProtocol) -> None:
        """One more: when there are too many, one goes. `who` itself only when all others are being answered."""
        self.count += 1
        self.waiting[who] = None
        if self.count > self.most:
            next(iter(self.waiting)).abort()


class BoundedProtocol(H11Protocol):
    """A connection of a crowd."""

    crowd: ClassVar[Crowd]
    request_time: ClassVar[float] = REQUEST_TIME
    read_time: ClassVar[float] = READ_TIME

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _left = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """A client has connected."""
        super().connection_made(transport)
        self._expect()
        self.crowd.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a request, or all of it."""
        if not self._left:
            if self._late is None and self._answered:
                self._expect()
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        """Answered: the next request is waited for, by uvicorn's own timer until it begins."""
        super().on_response_complete()
        if not self._left:
            self.crowd.waiting[self] = None
            self._look()

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_time, self.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        """No further request came. What the client has not read by now, it need not."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(1.0, self.abort)

    def abort(self) -> None:
        """Cut the connection, whatever is under way."""
        self._leave()
        self.transport.abort()

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        """A request that is there in full is no longer waited for."""
        if not self._left and not self._answered and not self.cycle.more_body:
            self.crowd.waiting.pop(self, None)
            self._cancel_late()

    def _expect(self) -> None:
        self._cancel_late()
        self._late = self.loop.call_later(self.request_time, self.abort)

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        self.crowd.count -= 1
        self.crowd.waiting.pop(self, None)
        self._cancel_late()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def bounded(most: int | None = None, **times: Any) -> type[BoundedProtocol]:
    """The protocol of one surface. `most` connections at a time: by default 200, and a quarter of the descriptors that the
    process may have, since the database's connections need some too."""
    if most is None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST if soft == resource.RLIM_INFINITY else max(4, min(MOST, soft // 4))
    return type("Bounded", (BoundedProtocol,), {"crowd": Crowd(most), **times})
