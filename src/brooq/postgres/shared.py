"""Whatever object a consumer's transaction hangs on, as the session that the queue shares with them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar, runtime_checkable

import psycopg

from brooq.postgres.drivers.blocking import BlockingDjango, BlockingPsycopg
from brooq.postgres.drivers.psycopg import PsycopgSession
from brooq.postgres.session import Shared
from brooq.vocabulary.error import TxError
from brooq.vocabulary.message import text

T = TypeVar("T")


@runtime_checkable
class Blocking(Protocol):
    """A session whose coroutines never wait: they block instead."""

    blocking: bool


def shared(connection: object) -> Shared | None:
    """The session of a connection, transaction or session of psycopg, asyncpg, SQLAlchemy or Django; None for anything
    else. Nothing is opened. What none of these objects can be of is not imported."""
    if isinstance(connection, (psycopg.AsyncTransaction, psycopg.Transaction)):
        connection = connection.connection
    if isinstance(connection, psycopg.AsyncConnection):
        return PsycopgSession(connection)
    if isinstance(connection, psycopg.Connection):
        return BlockingPsycopg(connection)
    kind = type(connection)
    packages = {each.__module__.partition(".")[0] for each in kind.__mro__}
    if "asyncpg" in packages and hasattr(connection, "is_in_transaction"):
        from brooq.postgres.drivers.asyncpg import AsyncpgSession  # noqa: PLC0415  an optional dependency

        return AsyncpgSession(connection)
    if "sqlalchemy" in packages:
        from brooq.postgres.drivers.sqlalchemy import sqlalchemy_session  # noqa: PLC0415  the consumer's own

        return sqlalchemy_session(connection)
    if "django" in packages and kind.__name__ in ("ConnectionProxy", "DatabaseWrapper"):
        return BlockingDjango(connection)
    return None


def check_shared(session: Shared) -> None:
    """Raises TxError for a connection outside of any transaction that would commit the job on its own, not with the
    caller's rows."""
    if not session.in_transaction and not session.begins:
        raise TxError(text("postgres.no_transaction"))


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a blocking session to its end, without an event loop, or inside one that it blocks."""
    try:
        work.send(None)
    except StopIteration as ended:
        answer: T = ended.value
        return answer
    finally:
        work.close()
    raise AssertionError("a blocking session has waited")
