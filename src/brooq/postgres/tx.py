"""Transactions across the border: the consumer's driver on one side, the queue's port on the other."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg

from brooq.postgres.session import Driver, Session, Shared
from brooq.postgres.shared import Blocking, check_shared, shared
from brooq.postgres.trouble import translate
from brooq.vocabulary.error import TxError
from brooq.vocabulary.message import text
from brooq.vocabulary.tx import Tx

if TYPE_CHECKING:
    import asyncpg


class PostgresTx:
    """A transaction of a driver as the queue's `Tx`: the same transaction, never a copy (requirement T2)."""

    def __init__(self, session: Shared) -> None:
        """A session whose transaction somebody else opened and closes."""
        self.session: Shared | None = session

    async def commit(self) -> None:
        """Commit the transaction, for everyone who shares it."""
        if self.session is not None:
            await self.session.commit()

    async def rollback(self) -> None:
        """Roll the transaction back, for everyone who shares it; nothing happens when it has ended."""
        if self.session is not None and self.session.in_transaction:
            await self.session.rollback()

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


class OwnTx(PostgresTx):
    """A transaction that the queue opened on a connection of the consumer's pool, and gives back when it ends."""

    def __init__(self, session: Session, driver: Driver) -> None:
        """`session` is borrowed from the driver's pool."""
        self.session: Session | None = session
        self._driver = driver

    @property
    def broken(self) -> bool:
        """Whether the connection is lost."""
        return self.session is None or self.session.closed

    async def commit(self) -> None:
        """Commit and give the connection back. Raises OutcomeUnknown when the answer was lost."""
        try:
            await super().commit()
        except self._driver.errors as error:
            raise translate(error, writing=True) from None
        finally:
            await self.give_back()

    async def rollback(self) -> None:
        """Roll back and give the connection back; a connection that is lost has rolled back by itself."""
        try:
            await super().rollback()
        except self._driver.errors:
            pass
        finally:
            await self.give_back()

    async def give_back(self, *, untouched: bool = False) -> None:
        """Give the connection back; what is open in it is rolled back. `untouched`: see Session."""
        session, self.session = self.session, None
        if session is not None:
            await session.give_back(untouched=untouched)


def wrap_tx(connection: object) -> PostgresTx:
    """The consumer's transaction as a `Tx` for `Queue.enqueue_tx`.

    Takes a `psycopg.AsyncConnection`, the object that its `transaction()` gives, an asyncpg connection (a pool's too),
    an AsyncConnection or AsyncSession of SQLAlchemy. Nothing is opened or copied: whoever opened the transaction closes
    it. Raises TypeError for anything else; what blocks belongs to `brooq.postgres.producer`.
    """
    session = shared(connection)
    if session is None or isinstance(session, Blocking):
        key = "postgres.wrap_tx" if session is None else "postgres.wrap_tx_blocking"
        raise TypeError(text(key, type=f"{type(connection).__module__}.{type(connection).__qualname__}"))
    return PostgresTx(session)


def as_psycopg(tx: Tx | None) -> psycopg.AsyncConnection[Any] | None:
    """The psycopg connection of a transaction; None for a foreign `Tx`, and for one that has ended or is None."""
    raw = _raw(tx)
    return raw if isinstance(raw, psycopg.AsyncConnection) else None


def as_asyncpg(tx: Tx | None) -> asyncpg.Connection[Any] | None:
    """The asyncpg connection of a transaction; None for a foreign `Tx`, and for one that has ended or is None."""
    raw = _raw(tx)
    return raw if type(raw).__module__.partition(".")[0] == "asyncpg" else None


def _raw(tx: Tx | None) -> Any:
    return tx.session.raw if isinstance(tx, PostgresTx) and tx.session is not None else None


def session_of(tx: Tx) -> Shared:
    """The session of a transaction that is open.

    Raises TxError for a foreign or ended one, and for a connection outside of any transaction that would commit the job
    on its own, not with the caller's rows.
    """
    session = tx.session if isinstance(tx, PostgresTx) else None
    if session is None:
        raise TxError(text("postgres.foreign_tx", type=type(tx).__qualname__))
    check_shared(session)
    return session
