"""A connection of the engine's own: what becomes of it when whoever uses it is canceled, or late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
from tests.postgres.observer import Observer, Opened

from brooq.postgres.link import Link
from brooq.postgres.session import Rows, Session
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.error import StoreUnavailable

WAIT = "select pg_advisory_xact_lock(7)"


@pytest.fixture(params=["psycopg", "asyncpg"])
async def store(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[PostgresStore]:
    """Over either driver, with a pool that makes no connection of its own."""
    async with Opened(dsn, driver=request.param) as opened:
        yield opened


async def ask(session: Session) -> Rows:
    return await session.fetch("select pg_backend_pid()")


async def wait(session: Session) -> Rows:
    return await session.fetch(WAIT)


@contextmanager
def locked(observer: Observer) -> Iterator[None]:
    """Whoever waits does so until the end of the block. Without a cancel of its driver the server would hear of a lost
    client only then."""
    observer.run("select pg_advisory_lock(7)")
    yield
    observer.run("select pg_advisory_unlock(7)")


def waiting(observer: Observer) -> bool:
    return bool(observer.value("select count(*) from pg_locks where locktype = 'advisory' and not granted"))


async def test_a_link_that_is_closed_stays_closed(store: PostgresStore, observer: Observer) -> None:
    """Whoever stands behind the close, such as a page that is made of several statements, opens nothing that nobody would
    close."""
    link = Link(store.driver, 30.0)
    held, free = asyncio.Event(), asyncio.Event()

    async def hold(session: Session) -> Rows:
        held.set()
        await free.wait()
        return await ask(session)

    holding = asyncio.ensure_future(link.run(hold))
    await held.wait()
    closing = asyncio.ensure_future(link.close())
    late = asyncio.ensure_future(link.run(ask))
    await asyncio.sleep(0)
    assert not closing.done(), "what is under way is waited for"
    free.set()
    assert len(await holding) == 1
    await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        await late
    with pytest.raises(StoreUnavailable, match="closed"):
        await link.run(ask)
    await observer.until(lambda: observer.sessions() == 0)


async def test_whoever_comes_after_one_that_was_canceled_meets_no_dead_connection(
    store: PostgresStore, observer: Observer
) -> None:
    """The next statement would fail, and an outcome that was never sent would count as unknown."""
    link = Link(store.driver, 30.0)
    ((before,),) = await link.run(ask)
    with locked(observer):
        task = asyncio.ensure_future(link.run(wait))
        await observer.until(lambda: waiting(observer))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        ((after,),) = await link.run(ask, writing=True)
    assert after != before
    await link.close()
    await observer.until(lambda: observer.sessions() == 0)


async def test_one_that_is_canceled_before_its_connection_is_known_leaves_none(
    store: PostgresStore, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has asked yet how its transactions begin: the next one has to."""
    observer.set("default_transaction_isolation", "serializable")
    link, connect = Link(store.driver, 30.0), store.driver.connect

    async def slow() -> Session:
        """The question after the login waits as it may on a server under load."""
        session = await connect()
        fetch = session.fetch

        async def late(*_: object, **__: object) -> Rows:
            return await fetch(WAIT)

        monkeypatch.setattr(session, "fetch", late)
        return session

    with locked(observer), monkeypatch.context() as patch:
        patch.setattr(store.driver, "connect", slow)
        task = asyncio.ensure_future(link.run(ask))
        await observer.until(lambda: waiting(observer))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    await observer.until(lambda: observer.sessions() == 0)

    async def isolation(session: Session) -> Rows:
        return await session.fetch("select current_setting('transaction_isolation')")

    assert [tuple(row) for row in await link.run(isolation)] == [("read committed",)]
    await link.close()
