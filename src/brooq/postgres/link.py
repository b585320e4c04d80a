"""A connection of the engine's own: made when first needed, severed when it hangs, replaced when it broke.

The engine never waits for the consumer's pool: handlers may hold every connection of it (fault 34).
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import psycopg

from brooq.postgres.trouble import translate

Connection: TypeAlias = psycopg.AsyncConnection[Any]
Connect: TypeAlias = Callable[[], Awaitable[Connection]]
T = TypeVar("T")


class Link:
    """One connection at a time, one piece of work at a time, in one event loop."""

    def __init__(self, connect: Connect, patience: float) -> None:
        """`patience`: after how many seconds without an answer the connection is given up."""
        self._connect = connect
        self._patience = patience
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, writing: bool = False) -> T:
        """Do the work on the connection. Raises the engine's StoreError or SchemaError, never the driver's error."""
        async with self._lock:
            connection = await self._ready()
            loop = asyncio.get_running_loop()
            # Not asyncio.timeout: on a dead link psycopg spends its cancellation asking the server over that link.
            alarm = loop.call_later(self._patience, sever, connection)
            try:
                return await work(connection)
            except psycopg.Error as error:
                raise translate(error, writing=writing) from None
            except BaseException:
                # Canceled in the middle: what the server does now is unknown, so the connection cannot be used again.
                sever(connection)
                raise
            finally:
                alarm.cancel()
                if connection.broken:
                    await self._drop()

    async def close(self) -> None:
        """Close the connection; `run` would make a new one."""
        async with self._lock:
            await self._drop()

    async def _ready(self) -> Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = await self._connect()
            except psycopg.Error as error:
                raise translate(error) from None
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def sever(connection: Connection) -> None:
    """Shut the socket down under the connection: whoever waits on it gets an error at once, even from a dead peer."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        pass  # closed already
