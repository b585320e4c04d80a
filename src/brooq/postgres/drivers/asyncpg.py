"""asyncpg as a driver of the adapter: about half of psycopg's work for the client. The extra `asyncpg`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import asyncpg
import psycopg
from asyncpg.pgproto import pgproto
from psycopg.conninfo import conninfo_to_dict

from brooq.postgres.session import Rows
from brooq.postgres.trouble import without_password
from brooq.vocabulary.message import text

ERRORS: tuple[type[Exception], ...] = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""What asyncpg raises: the server's errors, its own, and the socket's."""

POOL_PATIENCE = 30.0
"""How many seconds a caller waits for a connection of the pool: asyncpg's own answer is for ever."""


class AsyncpgSession:
    """An asyncpg connection as a Session."""

    def __init__(self, connection: Any, pool: asyncpg.Pool[Any] | None = None) -> None:
        """`pool`: where a borrowed connection goes back to."""
        self.raw = connection
        self._pool = pool
        self._heard = asyncio.Event()

    @property
    def pid(self) -> int:
        return int(self.raw.get_server_pid())

    @property
    def closed(self) -> bool:
        return bool(self.raw.is_closed())

    @property
    def in_transaction(self) -> bool:
        return not self.closed and bool(self.raw.is_in_transaction())

    @property
    def begins(self) -> bool:
        return False

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        if prepare is False:
            # Planned with its values: a statement of its own each time, which no plan is kept for.
            rows = await (await self.raw.prepare(statement, name="")).fetch(*parameters)
        else:
            rows = await self.raw.fetch(statement, *parameters)
        return rows  # type: ignore[no-any-return]

    def packed(self, parameters: Sequence[Any]) -> Sequence[Any]:
        # asyncpg's own UUID is its bytes; of any other it asks a property that is written in Python.
        return [
            [pgproto.UUID(id.int.to_bytes(16, "big")) for id in each]
            if type(each) is list and each and set(map(type, each)) == {UUID}
            else each
            for each in parameters
        ]

    async def execute(self, command: str) -> None:
        await self.raw.execute(command)

    async def commit(self) -> None:
        await self.raw.execute("commit")

    async def rollback(self) -> None:
        await self.raw.execute("rollback")

    async def listen(self, channel: str, hear: Callable[[str], None]) -> None:
        def tell(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            hear(str(payload))
            self._heard.set()

        self.raw.add_termination_listener(lambda _: self._heard.set())
        await self.raw.add_listener(channel, tell)

    async def heard(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            pass
        if self.closed:
            raise asyncpg.InterfaceError("connection is closed")
        self._heard.clear()

    def sever(self) -> None:
        self.raw.terminate()

    async def close(self) -> None:
        try:
            await self.raw.close(timeout=2.0)
        except ERRORS:
            self.raw.terminate()

    async def give_back(self, *, untouched: bool = False) -> None:
        assert self._pool is not None, "it was not borrowed"
        if untouched and await self._released_as_it_is(self._pool):
            return
        try:
            if self.in_transaction:
                await self.rollback()
        except ERRORS:
            pass  # lost: the pool throws it away, the server rolls back by itself
        finally:
            await self._pool.release(self.raw)

    async def _released_as_it_is(self, pool: asyncpg.Pool[Any]) -> bool:
        """Without RESET ALL and its kin, whose round trip costs as much as the enqueue before it. False: not released.

        asyncpg keeps the text that it resets with on the connection; there is no other way to say that there is no need.
        """
        connection = self.raw._con  # noqa: SLF001
        kept = getattr(connection, "_reset_query", None)
        if kept is None:
            return False  # its first release, or an asyncpg that does it otherwise
        connection._reset_query = ""  # noqa: SLF001
        try:
            await pool.release(self.raw)
        finally:
            connection._reset_query = kept  # noqa: SLF001
        return True


class AsyncpgDriver:
    """An asyncpg pool as a Driver."""

    errors = ERRORS

    def __init__(self, pool: asyncpg.Pool[Any]) -> None:
        """Opens nothing."""
        self._pool = pool

    @property
    def prepares(self) -> bool:
        return bool(self._pool._connect_kwargs.get("statement_cache_size", 1) != 0)  # noqa: SLF001  see connect

    @property
    def opened(self) -> bool:
        return bool(self._pool._initialized)  # noqa: SLF001  asyncpg does not say so otherwise

    async def open(self) -> None:
        if not self.opened:
            await self._pool

    async def close(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def connect(self) -> AsyncpgSession:
        # asyncpg tells nobody how a pool connects; its own way of connecting is used, so that every parameter counts.
        kwargs = dict(self._pool._connect_kwargs)  # noqa: SLF001
        for name in ("connection_class", "record_class"):
            kwargs.pop(name, None)
        kwargs.setdefault("timeout", 10)
        kwargs["server_settings"] = {"application_name": "brooq", **(kwargs.get("server_settings") or {})}
        connect = self._pool._connect or asyncpg.connect  # noqa: SLF001
        try:
            return AsyncpgSession(await connect(*self._pool._connect_args, **kwargs))  # noqa: SLF001
        except self.errors as error:
            raise without_password(error, self._dsn) from None

    async def borrow(self, *, checked: bool) -> AsyncpgSession:
        # asyncpg hears of a connection's end when it comes: what it lends needs no question. Where one is idle there is
        # nothing to wait for, and no timer to set.
        patience = None if self._pool.get_idle_size() else POOL_PATIENCE
        try:
            return AsyncpgSession(await self._pool.acquire(timeout=patience), self._pool)
        except self.errors as error:  # it may have to connect
            raise without_password(error, self._dsn) from None

    @property
    def _dsn(self) -> str:
        return str(next(iter(self._pool._connect_args), None) or "")  # noqa: SLF001  see connect

    async def mend(self) -> None:
        await self._pool.expire_connections()


CLIENT_ONLY = {
    "channel_binding",
    "client_encoding",
    "gssencmode",
    "gssdelegation",
    "krbsrvname",
    "sslcompression",
    "sslsni",
}
"""What libpq does for itself, and asyncpg would ask the server for."""


def make_pool(
    dsn: str, *, min_size: int, max_size: int, prepared: bool, application_name: str
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool of asyncpg that is not open yet, from the same DSN that psycopg takes.

    Raises psycopg.ProgrammingError for a DSN that cannot be read; the text may quote it.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    kwargs: dict[str, Any] = {} if prepared else {"statement_cache_size": 0}
    timeout = parts.pop("connect_timeout", "0")
    if not all(number.isdecimal() for number in [timeout, *parts.get("port", "").split(",")] if number):
        # Asked here: asyncpg's ValueError would quote what may be half of a password.
        raise psycopg.ProgrammingError(text("dsn.malformed"))
    address = parts.pop("hostaddr", "")
    if address:  # libpq connects there and calls it by its host; asyncpg has one word for both
        parts["host"] = address
    user, password, database = (quote(parts.pop(name, ""), safe="") for name in ("user", "password", "dbname"))
    parts = {name: value for name, value in parts.items() if name not in CLIENT_ONLY and "keepalives" not in name}
    parts.setdefault("application_name", application_name)
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return asyncpg.create_pool(
        f"postgresql://{login}/{database}?{urlencode(parts, quote_via=quote)}",
        min_size=min_size,
        max_size=max_size,
        timeout=float(timeout or 0) or 10.0,
        **kwargs,
    )
