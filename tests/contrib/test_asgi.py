"""FastAPI and Starlette: the examples as real servers, and the lifespan by itself."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from tests.contrib.site import served

from brooq import Job, Queue, StoreUnavailable
from brooq.contrib.lifespan import lifespan, running
from brooq.postgres import PostgresStore, open_pool
from brooq.testing import MemoryStore

UVICORN = ("-m", "uvicorn", "--port", "{port}", "--log-level", "warning")


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"select count(*) from {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_an_order_on_fastapi_is_shipped_by_the_worker_in_its_process(dsn: str, tmp_path: Path) -> None:
    with served(dsn, *UVICORN, "examples.fastapi_shop.app:app", log=tmp_path / "log") as site:
        made = site.post("/orders", {"goods": "kettle"})
        assert made.status_code == 201
        assert site.until(f"/orders/{made.json()['order']}", shipped=True) == {"goods": "kettle", "shipped": True}
        assert site.post("/orders", {"goods": ""}).status_code == 422
        assert (count(dsn, "shop_order"), count(dsn, "job")) == (1, 1)
        assert site.process.stop() in (0, -15)  # uvicorn raises the signal once more when it has ended
    assert "Traceback" not in site.process.said


def test_a_hook_on_starlette_is_taken_once(dsn: str, tmp_path: Path) -> None:
    with served(dsn, *UVICORN, "examples.starlette_hooks.app:app", log=tmp_path / "log") as site:
        first = site.post("/hooks/42", {"event": "paid", "cents": 12.50})
        again = site.post("/hooks/42", {"event": "paid"})
        assert (first.status_code, again.status_code, first.json()) == (202, 200, again.json())
        path = f"/jobs/{first.json()['job']}"
        assert site.until(path, state="done")["payload"] == {"event": "paid", "cents": 12.5}
        assert site.post("/hooks/43", b"no JSON").status_code == 422
    assert "Traceback" not in site.process.said


async def test_an_application_that_only_enqueues_starts_no_worker() -> None:
    queue = Queue(MemoryStore())
    async with lifespan(queue, work=False)(Starlette()) as state:
        assert state == {"queue": queue}
        assert not queue.health().running
    async with lifespan(queue)(Starlette()):
        assert queue.health().running
    assert not queue.health().running


async def test_who_opened_the_pool_closes_it(dsn: str) -> None:
    closed = AsyncConnectionPool(dsn, open=False)
    async with running(Queue(PostgresStore(closed))) as queue:
        await queue.enqueue(Job("t"))
    assert closed.closed
    async with open_pool(dsn) as opened:
        async with running(Queue(PostgresStore(opened)), work=False) as queue:
            await queue.enqueue(Job("t"))
        assert not opened.closed
    assert count(dsn, "job") == 2


async def test_a_start_without_a_database_is_told_and_leaves_nothing_open() -> None:
    pool = AsyncConnectionPool("postgresql://127.0.0.1:1/none", open=False, timeout=1, kwargs={"connect_timeout": 1})
    with pytest.raises(StoreUnavailable):
        async with running(Queue(PostgresStore(pool))):
            raise AssertionError("it has not started")
    assert pool.closed
