"""Consumers' objects that block: a connection of psycopg, and Django's. Their methods are coroutines that never wait, so
that one text of every algorithm serves both worlds; whoever has no event loop runs them by `shared.complete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from brooq.postgres.drivers.array import packed, register
from brooq.postgres.placeholder import arguments, named
from brooq.postgres.session import Rows
from brooq.vocabulary.message import text


class BlockingPsycopg:
    """A `psycopg.Connection`."""

    blocking = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """The consumer's, which stays theirs."""
        self.raw = connection

    @property
    def in_transaction(self) -> bool:
        return not self.raw.closed and self.raw.info.transaction_status != TransactionStatus.IDLE

    @property
    def begins(self) -> bool:
        return not self.raw.autocommit

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        with psycopg.RawCursor(self.raw, row_factory=psycopg.rows.tuple_row) as cursor:
            register(cursor.adapters)
            cursor.execute(statement, [packed(each) for each in parameters], prepare=prepare, binary=True)
            return cursor.fetchall()

    async def commit(self) -> None:
        self.raw.commit()

    async def rollback(self) -> None:
        self.raw.rollback()


class BlockingDjango:
    """Django's connection: `django.db.connection`, or one of `django.db.connections`.

    The statements go through its cursor, so that its own checks hold (a transaction that is broken, a database that a
    test may not touch, code that must not block), and they take part in `transaction.atomic`.
    """

    blocking = True

    def __init__(self, connection: Any) -> None:
        """A DatabaseWrapper, or Django's proxy for the one of this thread."""
        self.raw = connection

    @property
    def in_transaction(self) -> bool:
        return bool(self.raw.in_atomic_block)

    @property
    def begins(self) -> bool:
        return not self.raw.get_autocommit()

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        if self.raw.vendor != "postgresql":
            raise TypeError(text("postgres.dialect", dialect=self.raw.display_name))
        with self.raw.cursor() as cursor:
            cursor.execute(named(statement), arguments(parameters))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows

    async def commit(self) -> None:
        self.raw.commit()

    async def rollback(self) -> None:
        self.raw.rollback()
