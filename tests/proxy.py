"""A faulty network between a client and PostgreSQL: a TCP proxy that passes, delays, swallows, resets, or eats an answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Mode(Enum):
    """What happens to the bytes of every connection."""

    PASS = "pass"
    BLACK_HOLE = "black hole"
    """Nothing arrives any more, in either direction, and nobody is told."""
    REFUSE = "refuse"
    """New connections are reset at once."""


@dataclass(eq=False)
class _Wire:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    eating: bool = False


@dataclass
class Proxy:
    """Listens on loopback between `async with`; `dsn` leads through it."""

    target: str
    mode: Mode = Mode.PASS
    delay: float = 0.0
    """Seconds added to every piece, in each direction."""
    marker: bytes = b""
    """A statement whose text holds this loses its answer (`eat`) or never arrives (`drop`); then the line is cut."""
    eat: int = 0
    """How many answers are still to be eaten: the statement is done, and the client never hears of it."""
    drop: int = 0
    """How many statements are still to be lost on their way to the server."""
    eaten: int = 0
    dropped: int = 0
    _wires: set[_Wire] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def dsn(self) -> str:
        """The DSN of the target, through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return make_conninfo(self.target, host="127.0.0.1", hostaddr="127.0.0.1", port=port, sslmode="disable")

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close everything."""
        assert self._server is not None
        self._server.close()
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """Cut every connection, as a peer that has crashed does."""
        for wire in list(self._wires):
            self._cut(wire)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode is Mode.REFUSE:
            writer.transport.abort()
            return
        place = conninfo_to_dict(self.target)
        host, port = str(place.get("hostaddr") or place.get("host") or "127.0.0.1"), int(place.get("port") or 5432)
        try:
            if host.startswith("/"):
                answers, server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                answers, server = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()  # nobody is there now
            return
        wire = _Wire(writer, server)
        self._wires.add(wire)
        for source, forth in ((reader, True), (answers, False)):
            task = asyncio.ensure_future(self._pump(wire, source, forth=forth))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, wire: _Wire, source: asyncio.StreamReader, *, forth: bool) -> None:
        try:
            while data := await source.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.mode is Mode.BLACK_HOLE:
                    continue
                if forth:
                    if not self._request(wire, data):
                        break
                    wire.server.write(data)
                elif wire.eating:
                    # The answer is complete with ReadyForQuery: what was asked for is done now.
                    if data[-6:-1] == b"Z\x00\x00\x00\x05":
                        self.eaten += 1
                        break
                else:
                    wire.client.write(data)
        except ConnectionError:
            pass
        finally:
            self._cut(wire)

    def _request(self, wire: _Wire, data: bytes) -> bool:
        """Look at what the client sends; False when it is to be lost."""
        if self.marker and self.marker in data:
            if self.drop:
                self.drop -= 1
                self.dropped += 1
                return False
            if self.eat:
                self.eat -= 1
                wire.eating = True
        return True

    def _cut(self, wire: _Wire) -> None:
        self._wires.discard(wire)
        for writer in (wire.client, wire.server):
            end = writer.get_extra_info("socket")
            if end is not None and end.family != socket.AF_UNIX and not writer.is_closing():
                # No lingering: the peer gets a reset, not an orderly end.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
