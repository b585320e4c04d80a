"""psycopg 3 as a driver of the adapter."""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from brooq.postgres.drivers.array import packed, register
from brooq.postgres.session import Rows
from brooq.postgres.trouble import without_password

Connection = psycopg.AsyncConnection[Any]

CURSOR = "_brooq_cursor"
"""Where a connection that is lent to us, or ours, keeps the cursor of its last statement: making one takes as long as half a
round trip."""

_REGISTERED: WeakSet[Connection] = WeakSet()
"""Connections that know our arrays."""


class PsycopgSession:
    """An AsyncConnection as a Session."""

    def __init__(
        self, connection: Connection, pool: AsyncConnectionPool[Any] | None = None, *, own: bool = False
    ) -> None:
        """`pool`: where a borrowed connection goes back to. `own`: nobody else has it meanwhile."""
        self.raw = connection
        self._pool = pool
        self._own = own
        self._autocommit = connection.autocommit
        self._hear: Callable[[str], None] = lambda _: None

    @property
    def pid(self) -> int:
        return self.raw.info.backend_pid

    @property
    def closed(self) -> bool:
        return self.raw.closed or self.raw.broken

    @property
    def in_transaction(self) -> bool:
        return not self.raw.closed and self.raw.pgconn.transaction_status != TransactionStatus.IDLE

    @property
    def begins(self) -> bool:
        return not self.raw.autocommit

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        cursor = vars(self.raw).pop(CURSOR, None) if self._own else None
        if cursor is None:
            if self.raw not in _REGISTERED:
                register(self.raw.adapters)
                _REGISTERED.add(self.raw)
            cursor = psycopg.AsyncRawCursor(self.raw, row_factory=psycopg.rows.tuple_row)
        await cursor.execute(statement, self.packed(parameters), prepare=prepare, binary=True)
        rows: Rows = await cursor.fetchall()
        if self._own and len(rows) <= 1:  # it holds its last answer, which may be large
            setattr(self.raw, CURSOR, cursor)
        return rows

    def packed(self, parameters: Sequence[Any]) -> Sequence[Any]:
        return [packed(each) for each in parameters]

    async def execute(self, command: str) -> None:
        await self.raw.execute(command.encode())

    async def commit(self) -> None:
        await self.raw.commit()

    async def rollback(self) -> None:
        await self.raw.rollback()

    async def listen(self, channel: str, hear: Callable[[str], None]) -> None:
        self._hear = hear
        await self.raw.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    async def heard(self, seconds: float) -> None:
        async for notice in self.raw.notifies(timeout=seconds, stop_after=1):
            self._hear(notice.payload)

    def sever(self) -> None:
        try:
            with socket.socket(fileno=os.dup(self.raw.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):
            pass  # closed already

    async def close(self) -> None:
        await self.raw.close()

    async def give_back(self, *, untouched: bool = False) -> None:
        assert self._pool is not None, "it was not borrowed"
        try:
            if self.in_transaction:
                await self.raw.rollback()
            if not self.raw.closed and self.raw.autocommit != self._autocommit:
                await self.raw.set_autocommit(self._autocommit)
        except psycopg.Error:
            pass  # lost: the pool throws it away, the server rolls back by itself
        finally:
            await self._pool.putconn(self.raw)


class PsycopgDriver:
    """A psycopg pool as a Driver."""

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        """Opens nothing."""
        self._pool = pool

    @property
    def prepares(self) -> bool:
        kwargs = self._pool.kwargs
        return callable(kwargs) or kwargs is None or kwargs.get("prepare_threshold", 5) is not None

    @property
    def opened(self) -> bool:
        return not self._pool.closed

    async def open(self) -> None:
        if not self.opened:
            await self._pool.open(wait=False)

    async def close(self, timeout: float) -> None:
        await self._pool.close(timeout=timeout)

    async def connect(self) -> PsycopgSession:
        conninfo, kwargs = await _resolve(self._pool.conninfo), dict(await _resolve(self._pool.kwargs) or {})
        for name in ("autocommit", "row_factory", "cursor_factory"):
            kwargs.pop(name, None)
        kwargs.setdefault("connect_timeout", 10)
        kwargs.setdefault("application_name", "brooq")
        try:
            connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True, **kwargs)
        except psycopg.Error as error:
            raise without_password(error, str(conninfo)) from None
        return PsycopgSession(connection, own=True)

    async def borrow(self, *, checked: bool) -> PsycopgSession:
        while True:
            session = PsycopgSession(await self._pool.getconn(), self._pool, own=True)
            try:
                if not checked or await self._alive(session.raw):
                    # It must not send a BEGIN of its own before ours.
                    if not session.raw.autocommit:
                        await session.raw.set_autocommit(True)
                    return session
            except BaseException:
                await session.give_back()  # whoever wanted it has given up meanwhile: it must not stay lent for ever
                raise
            await session.give_back()
            await self.mend()

    async def _alive(self, connection: Connection) -> bool:
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.Error:
            return False
        return True

    async def mend(self) -> None:
        # Left alone the pool would find dead connections one by one, with a pause that doubles after each: five of them
        # would outlast the caller's patience (fault 29).
        await self._pool.check()


async def _resolve(value: Any) -> Any:
    """The pool takes its parameters as values or as functions, async ones too."""
    if callable(value):
        value = value()
    return await value if inspect.isawaitable(value) else value
