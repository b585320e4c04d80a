"""SQLAlchemy 2: Connection, Session, AsyncConnection and AsyncSession, SQLModel's and the scoped ones among them.

Statements go through `exec_driver_sql`, never to the driver's own connection: SQLAlchemy begins its transactions when
it executes something, so what went past it could be committed on its own (asyncpg) before there is a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from brooq.postgres.placeholder import arguments, named
from brooq.postgres.session import Rows
from brooq.vocabulary.error import TxError
from brooq.vocabulary.message import text


class _Sqlalchemy:
    """What blocks and what does not have in common."""

    raw: Any
    begins = True
    """SQLAlchemy begins by itself; autocommit is seen once there is a connection."""

    @property
    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction())


class BlockingSqlalchemy(_Sqlalchemy):
    """A Connection or a Session."""

    blocking = True

    def __init__(self, raw: Connection | Session) -> None:
        """The consumer's, which stays theirs."""
        self.raw = raw

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        connection = self.raw.connection() if isinstance(self.raw, Session) else self.raw
        return connection.exec_driver_sql(*_for_dialect(connection, statement, parameters)).all()

    async def commit(self) -> None:
        self.raw.commit()

    async def rollback(self) -> None:
        self.raw.rollback()


class AsyncSqlalchemy(_Sqlalchemy):
    """An AsyncConnection or an AsyncSession."""

    def __init__(self, raw: AsyncConnection | AsyncSession) -> None:
        """The consumer's, which stays theirs."""
        self.raw = raw

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        connection = await self.raw.connection() if isinstance(self.raw, AsyncSession) else self.raw
        started = connection.sync_connection
        if started is None:
            raise TxError(text("postgres.foreign_tx", type=type(connection).__qualname__))
        asked = _for_dialect(started, statement, parameters)
        return (await connection.exec_driver_sql(*asked)).all()

    async def commit(self) -> None:
        await self.raw.commit()

    async def rollback(self) -> None:
        await self.raw.rollback()


def sqlalchemy_session(raw: object) -> BlockingSqlalchemy | AsyncSqlalchemy | None:
    """The object as a session; None for what carries no transaction, such as an engine or a sessionmaker."""
    if isinstance(raw, (scoped_session, async_scoped_session)):
        raw = raw()
    if isinstance(raw, (Connection, Session)):
        return BlockingSqlalchemy(raw)
    if isinstance(raw, (AsyncConnection, AsyncSession)):
        return AsyncSqlalchemy(raw)
    return None


def _for_dialect(connection: Connection, statement: str, parameters: Sequence[Any]) -> tuple[str, Any]:
    """The statement in the words of the driver below. Raises TxError for a connection that commits every statement on its
    own, TypeError for a driver that nobody has tried."""
    dialect = connection.dialect
    style = dialect.paramstyle if dialect.name == "postgresql" else ""
    if style not in ("pyformat", "numeric_dollar"):
        raise TypeError(text("postgres.dialect", dialect=f"{dialect.name}+{dialect.driver}"))
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise TxError(text("postgres.no_transaction"))
    if style == "pyformat":
        return named(statement), arguments(parameters)
    return statement, tuple(parameters)
