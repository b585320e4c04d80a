"""A connection of the engine's own: made when first needed, severed when it hangs, replaced when it broke.

The engine never waits for the consumer's pool: handlers may hold every connection of it (fault 34).
"""

from __future__ import annotations

import asyncio
import math
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
        self._aloud = False

    async def run(
        self, work: Callable[[Connection], Awaitable[T]], *, writing: bool = False, within: float = math.inf
    ) -> T:
        """Do the work on the connection; `within` shortens the patience, in seconds.

        Raises the engine's StoreError or SchemaError, never the driver's error.
        """
        async with self._lock:
            connection = await self._ready()
            loop = asyncio.get_running_loop()
            # Not asyncio.timeout: on a dead link psycopg spends its cancellation asking the server over that link.
            alarm = loop.call_later(min(self._patience, within), sever, connection)
            try:
                return await self._do(work, connection)
            except psycopg.Error as error:
                await self._roll_back(connection)
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

    async def _do(self, work: Callable[[Connection], Awaitable[T]], connection: Connection) -> T:
        """A single statement is a transaction of its own, and cannot say its isolation level: where the default is
        another than READ COMMITTED, an explicit transaction says it aloud. Never a session SET: behind
        a pooler it would be somebody else's."""
        if not self._aloud:
            return await work(connection)
        await connection.execute("begin isolation level read committed")
        result = await work(connection)
        await connection.execute("commit")
        return result

    async def _roll_back(self, connection: Connection) -> None:
        if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return
        try:
            await connection.rollback()
        except psycopg.Error:
            pass  # lost: the server rolls back by itself

    async def _ready(self) -> Connection:
        if self._connection is None or self._connection.closed:
            try:
                connection = await self._connect()
                self._connection = connection
                cursor = await connection.execute("select current_setting('default_transaction_isolation')")
                row = await cursor.fetchone()
            except psycopg.Error as error:
                await self._drop()
                raise translate(error) from None
            self._aloud = row is None or row[0] != "read committed"
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
