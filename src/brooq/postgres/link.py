"""A connection of the engine's own: made when first needed, severed when it hangs, replaced when it broke.

The engine never waits for the consumer's pool: handlers may hold every connection of it (fault 34).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from brooq.postgres.session import Driver, Session
from brooq.postgres.trouble import reads_only, translate

T = TypeVar("T")


class Link:
    """One connection at a time, one piece of work at a time, in one event loop."""

    def __init__(self, driver: Driver, patience: float) -> None:
        """`patience`: after how many seconds without an answer the connection is given up."""
        self._driver = driver
        self._patience = patience
        self._lock = asyncio.Lock()
        self._session: Session | None = None
        self._aloud = False

    async def run(
        self,
        work: Callable[[Session], Awaitable[T]],
        *,
        writing: bool = False,
        within: float = math.inf,
        together: bool = False,
    ) -> T:
        """Do the work on the connection; `within` shortens the patience, in seconds. `together`: all of it is one
        transaction; else each of its statements is one.

        Raises the engine's StoreError or SchemaError, never the driver's error.
        """
        async with self._lock:
            session = await self._ready()
            loop = asyncio.get_running_loop()
            # Not asyncio.timeout: on a dead link psycopg spends its cancellation asking the server over that link.
            alarm = loop.call_later(min(self._patience, within), session.sever)
            try:
                return await self._do(work, session, together)
            except self._driver.errors as error:
                await self._roll_back(session)
                if reads_only(error):
                    await self._drop()
                raise translate(error, writing=writing) from None
            except BaseException:
                # Canceled in the middle: what the server does now is unknown, so the connection cannot be used again.
                session.sever()
                raise
            finally:
                alarm.cancel()
                if session.closed:
                    await self._drop()

    async def close(self) -> None:
        """Close the connection; `run` would make a new one."""
        async with self._lock:
            await self._drop()

    async def _do(self, work: Callable[[Session], Awaitable[T]], session: Session, together: bool) -> T:
        """A single statement is a transaction of its own, and cannot say its isolation level: where the default is
        another than READ COMMITTED, an explicit transaction says it aloud. Never a session SET: behind
        a pooler it would be somebody else's."""
        if not self._aloud and not together:
            return await work(session)
        await session.execute("begin isolation level read committed")
        result = await work(session)
        await session.commit()
        return result

    async def _roll_back(self, session: Session) -> None:
        if not session.in_transaction:
            return
        try:
            await session.rollback()
        except self._driver.errors:
            pass  # lost: the server rolls back by itself

    async def _ready(self) -> Session:
        if self._session is None or self._session.closed:
            try:
                self._session = await self._driver.connect()
                rows = await self._session.fetch("select current_setting('default_transaction_isolation')")
            except self._driver.errors as error:
                await self._drop()
                raise translate(error) from None
            self._aloud = rows[0][0] != "read committed"
        return self._session

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
