"""Transactions across the border: the consumer's driver on one side, the queue's port on the other."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg_pool import AsyncConnectionPool

from brooq.postgres.trouble import translate
from brooq.vocabulary.error import TxError
from brooq.vocabulary.message import text
from brooq.vocabulary.tx import Tx


class PsycopgTx:
    """A psycopg transaction as the queue's `Tx`: the same transaction, never a copy (requirement T2)."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Wrap a connection whose transaction somebody else opened and closes."""
        self.connection: psycopg.AsyncConnection[Any] | None = connection

    async def commit(self) -> None:
        """Commit the transaction, for everyone who shares it."""
        if self.connection is not None:
            await self.connection.commit()

    async def rollback(self) -> None:
        """Roll the transaction back, for everyone who shares it; nothing happens when it has ended."""
        if self.connection is not None and not self.connection.closed:
            await self.connection.rollback()

    async def __aenter__(self) -> Self:
        """The transaction itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back when the block raised."""
        if error is None:
            await self.commit()
        else:
            await self.rollback()


class OwnTx(PsycopgTx):
    """A transaction that the queue opened on a connection of the consumer's pool, and gives back when it ends."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], pool: AsyncConnectionPool[Any], autocommit: bool
    ) -> None:
        """`autocommit` is how the pool lent the connection, and gets it back."""
        super().__init__(connection)
        self._pool = pool
        self._autocommit = autocommit

    @property
    def broken(self) -> bool:
        """Whether the connection is lost."""
        return self.connection is None or self.connection.closed

    async def commit(self) -> None:
        """Commit and give the connection back. Raises OutcomeUnknown when the answer was lost."""
        try:
            await super().commit()
        except psycopg.Error as error:
            raise translate(error, writing=True) from None
        finally:
            await self._give_back()

    async def rollback(self) -> None:
        """Roll back and give the connection back; a connection that is lost has rolled back by itself."""
        try:
            await super().rollback()
        except psycopg.Error:
            pass
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        connection, self.connection = self.connection, None
        if connection is None:
            return
        idle = psycopg.pq.TransactionStatus.IDLE
        if not connection.closed and connection.info.transaction_status == idle:
            await connection.set_autocommit(self._autocommit)
        await self._pool.putconn(connection)


def wrap_tx(connection: object) -> PsycopgTx:
    """The consumer's transaction as a `Tx` for `Queue.enqueue_tx`.

    Takes a `psycopg.AsyncConnection`, or the object that its `transaction()` gives. Nothing is opened or copied:
    whoever opened the transaction closes it. Raises TypeError for anything else.
    """
    if isinstance(connection, psycopg.AsyncTransaction):
        connection = connection.connection
    if not isinstance(connection, psycopg.AsyncConnection):
        raise TypeError(text("postgres.wrap_tx", type=f"{type(connection).__module__}.{type(connection).__qualname__}"))
    return PsycopgTx(connection)


def as_psycopg(tx: Tx | None) -> psycopg.AsyncConnection[Any] | None:
    """The psycopg connection of a transaction; None for a foreign `Tx`, and for one that has ended or is None."""
    return tx.connection if isinstance(tx, PsycopgTx) else None


def connection_of(tx: Tx) -> psycopg.AsyncConnection[Any]:
    """The connection of a transaction that is open.

    Raises TxError for a foreign or ended one, and for an autocommit connection outside of any transaction: the job
    would be committed on its own, not with the caller's rows.
    """
    connection = as_psycopg(tx)
    if connection is None:
        raise TxError(text("postgres.foreign_tx", type=type(tx).__qualname__))
    if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        raise TxError(text("postgres.no_transaction"))
    return connection
