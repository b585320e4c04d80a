"""Every library that a producer may live in, behind one blocking face, so that one suite asks all of them the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

import asyncpg
import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from sqlmodel import Session as ModelSession
from sqlmodel.ext.asyncio.session import AsyncSession as AsyncModelSession


class Library:
    """One connection of one library, in a transaction that `commit` and `rollback` end."""

    handle: Any
    """What a consumer hands to `enqueue`."""

    def __init__(self, dsn: str, *, pooled: bool = False) -> None:
        """`pooled`: through a pooler in transaction mode, which has no prepared statements."""
        self.dsn, self.pooled = dsn, pooled
        self._runner = asyncio.Runner()
        self.wait(self.open())

    def wait(self, answer: Any) -> Any:
        """The answer itself, awaited where that is needed."""
        if not isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        return self._runner.run(awaited())

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function of the producer with the handle."""
        return self.wait(function(self.handle, *arguments, **named))

    def end(self) -> None:
        """Let go of everything."""
        try:
            self.wait(self.close())
        finally:
            self._runner.close()

    async def open(self) -> None:
        """Connect, and begin."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect."""

    def execute(self, statement: str) -> None:
        """Run a statement of the consumer's."""
        self.wait(self.handle.execute(statement))

    def commit(self) -> None:
        """Commit."""
        self.wait(self.handle.commit())

    def rollback(self) -> None:
        """Roll back."""
        self.wait(self.handle.rollback())

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """A savepoint that is rolled back."""
        savepoint = self.wait(self.handle.begin_nested())
        yield
        self.wait(savepoint.rollback())


class Psycopg(Library):
    async def open(self) -> None:
        self.handle = psycopg.connect(self.dsn, prepare_threshold=None if self.pooled else 1)

    async def close(self) -> None:
        self.handle.close()

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        with self.handle.transaction(force_rollback=True):
            yield


class AsyncPsycopg(Library):
    async def open(self) -> None:
        self.handle = await psycopg.AsyncConnection.connect(self.dsn, prepare_threshold=None if self.pooled else 1)

    async def close(self) -> None:
        await self.handle.close()

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        block = self.handle.transaction(force_rollback=True)
        self.wait(block.__aenter__())
        yield
        self.wait(block.__aexit__(None, None, None))


class Asyncpg(Library):
    async def open(self) -> None:
        parts: Any = {"statement_cache_size": 0} if self.pooled else {}
        found = conninfo_to_dict(self.dsn)
        for name, theirs in (("host", "host"), ("port", "port"), ("user", "user"), ("password", "password")):
            if found.get(name):
                parts[theirs] = found[name]
        self.handle = await asyncpg.connect(database=found["dbname"], **parts)
        await self._begin()

    async def _begin(self) -> None:
        self.transaction = self.handle.transaction()
        await self.transaction.start()

    async def close(self) -> None:
        await self.handle.close()

    def commit(self) -> None:
        self.wait(self.transaction.commit())
        self.wait(self._begin())

    def rollback(self) -> None:
        self.wait(self.transaction.rollback())
        self.wait(self._begin())

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        savepoint = self.handle.transaction()
        self.wait(savepoint.start())
        yield
        self.wait(savepoint.rollback())


class Sqlalchemy(Library):
    driver = "psycopg"
    make: Any = Session

    @property
    def url(self) -> URL:
        """The DSN in SQLAlchemy's words."""
        found: dict[str, Any] = dict(conninfo_to_dict(self.dsn))
        host = str(found.get("host") or "")
        return URL.create(
            f"postgresql+{self.driver}",
            found.get("user"),
            found.get("password"),
            None if host.startswith("/") else host,
            int(found["port"]) if found.get("port") else None,
            found["dbname"],
            {"host": host} if host.startswith("/") else {},
        )

    @property
    def options(self) -> dict[str, Any]:
        """What a consumer sets who is behind a pooler."""
        if not self.pooled or self.driver == "psycopg2":
            return {}
        return {"prepare_threshold": None} if self.driver == "psycopg" else {"statement_cache_size": 0}

    async def open(self) -> None:
        self.engine = create_engine(self.url, connect_args=self.options, poolclass=NullPool)
        self.handle = self.make(self.engine)

    async def close(self) -> None:
        self.handle.close()
        self.engine.dispose()

    def execute(self, statement: str) -> None:
        self.wait(self.handle.execute(text(statement)))


class SqlalchemyPsycopg2(Sqlalchemy):
    driver = "psycopg2"


class SqlalchemyConnection(Sqlalchemy):
    @staticmethod
    def make(engine: Any) -> Any:
        return engine.connect()


class SqlalchemyScoped(Sqlalchemy):
    @staticmethod
    def make(engine: Any) -> Any:
        return scoped_session(sessionmaker(engine))


class Sqlmodel(Sqlalchemy):
    make = ModelSession


class AsyncSqlalchemy(Sqlalchemy):
    make: Any = AsyncSession

    async def open(self) -> None:
        self.engines = create_async_engine(self.url, connect_args=self.options, poolclass=NullPool)
        made = self.make(self.engines)
        self.handle = await made if isawaitable(made) else made

    async def close(self) -> None:
        await self.handle.close()
        await self.engines.dispose()


class AsyncSqlalchemyAsyncpg(AsyncSqlalchemy):
    driver = "asyncpg"


class AsyncSqlalchemyConnection(AsyncSqlalchemy):
    @staticmethod
    def make(engine: Any) -> Any:
        return engine.connect().start()


class AsyncSqlalchemyConnectionAsyncpg(AsyncSqlalchemyConnection):
    driver = "asyncpg"


class AsyncSqlmodelAsyncpg(AsyncSqlalchemyAsyncpg):
    make = AsyncModelSession

    def execute(self, statement: str) -> None:
        self.wait(self.handle.exec(text(statement)))


class Django(Library):
    async def open(self) -> None:
        pass  # Django refuses to work where an event loop runs

    def __init__(self, dsn: str, *, pooled: bool = False) -> None:
        super().__init__(dsn, pooled=pooled)
        from tests.django_site import use

        use(dsn)
        from django.db import connection, transaction

        self.handle, self._transaction = connection, transaction
        self._begin()

    def _begin(self) -> None:
        self.block = self._transaction.atomic()
        self.block.__enter__()

    def end(self) -> None:
        self.block.__exit__(ValueError, ValueError(), None)
        self.handle.close()
        super().end()

    def execute(self, statement: str) -> None:
        with self.handle.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self.block.__exit__(None, None, None)
        self._begin()

    def rollback(self) -> None:
        self.block.__exit__(ValueError, ValueError(), None)
        self._begin()

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        block = self._transaction.atomic()
        block.__enter__()
        yield
        block.__exit__(ValueError, ValueError(), None)


LIBRARIES: list[type[Library]] = [
    Psycopg,
    AsyncPsycopg,
    Asyncpg,
    Sqlalchemy,
    SqlalchemyPsycopg2,
    SqlalchemyConnection,
    SqlalchemyScoped,
    Sqlmodel,
    AsyncSqlalchemy,
    AsyncSqlalchemyAsyncpg,
    AsyncSqlalchemyConnection,
    AsyncSqlalchemyConnectionAsyncpg,
    AsyncSqlmodelAsyncpg,
    Django,
]
WRAPPED = [AsyncPsycopg, Asyncpg, AsyncSqlalchemy, AsyncSqlalchemyAsyncpg, AsyncSqlalchemyConnectionAsyncpg]
"""What `wrap_tx` takes."""
