"""A connection of the engine's own: made when first needed, severed when it hangs, replaced when it broke.

The engine never waits for the consumer's pool: handlers may hold every connection of it (fault 34).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from brooq.postgres.session import BEGIN, ISOLATION, Driver, Session
from brooq.postgres.trouble import reads_only, translate
from brooq.vocabulary.error import StoreUnavailable
from brooq.vocabulary.message import text

T = TypeVar("T")

POINTED = """select current_setting('default_transaction_isolation'),
                    case when pg_backend_pid() = $1 then set_config('enable_seqscan', 'off', false) end"""
"""The first question of a connection. A plan is kept for as long as the statistics stay: one that was made while the table
was small would walk through all that came afterwards, until the next analyze. The setting is for the session, so it is left
alone where another process answers than the server named at login: behind a pooler it would be somebody else's."""


class Link:
    """One connection at a time, one piece of work at a time, in one event loop."""

    def __init__(self, driver: Driver, patience: float, *, pointed: bool = False) -> None:
        """`patience`: after how many seconds without an answer the connection is given up. `pointed`: its statements touch
        as many rows as they are asked for, whatever the table holds, so no plan of theirs may walk through a table."""
        self._driver = driver
        self._pointed = pointed
        self._patience = patience
        self._lock = asyncio.Lock()
        self._session: Session | None = None
        self._aloud = False
        self._closed = False

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

        Raises the engine's StoreError or SchemaError, never the driver's error; StoreUnavailable once it is closed.
        """
        async with self._lock:
            if self._closed:
                raise StoreUnavailable(text("postgres.closed"))
            patience = min(self._patience, within)
            session = await self._ready(patience)
            alarm = self._alarm(session, patience)
            try:
                return await self._do(work, session, together)
            except self._driver.errors as error:
                await self._roll_back(session)
                if reads_only(error):
                    await self._drop()
                raise translate(error, writing=writing) from None
            except BaseException:
                # Canceled in the middle: what the server does now is unknown, so the connection cannot be used again.
                # The driver does not notice that it is severed before it uses it again: whoever came next would.
                session.sever()
                await self._drop()
                raise
            finally:
                alarm.cancel()
                if session.closed:
                    await self._drop()

    async def close(self) -> None:
        """Close the connection, for good. What is under way is waited for; whoever stands behind it is refused: nobody would
        close what was opened for them."""
        self._closed = True
        async with self._lock:
            await self._drop()

    async def _do(self, work: Callable[[Session], Awaitable[T]], session: Session, together: bool) -> T:
        """A single statement is a transaction of its own, and cannot say its isolation level: where the default is
        another than READ COMMITTED, an explicit transaction says it aloud. Never a session SET: behind
        a pooler it would be somebody else's."""
        if not self._aloud and not together:
            return await work(session)
        await session.execute(BEGIN)
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

    async def _ready(self, patience: float) -> Session:
        if self._session is not None and not self._session.closed:
            return self._session
        await self._drop()
        try:
            session = self._session = await self._driver.connect()
            alarm = self._alarm(session, patience)
            try:
                rows = await (session.fetch(POINTED, [session.pid]) if self._pointed else session.fetch(ISOLATION))
            finally:
                alarm.cancel()
        except self._driver.errors as error:
            await self._drop()
            raise translate(error) from None
        except BaseException:
            # Canceled before it is known how its transactions begin: whoever comes next has to ask.
            await self._drop()
            raise
        self._aloud = rows[0][0] != "read committed"
        return session

    def _alarm(self, session: Session, patience: float) -> asyncio.TimerHandle:
        """Not asyncio.timeout: on a dead link psycopg spends its cancellation asking the server over that link."""
        return asyncio.get_running_loop().call_later(patience, session.sever)

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
