"""One suite for every store: `place` is a store with hands on what lies under it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.database import Server
from tests.store_contract.place import Place, PostgresGround, database, memory


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _databases(postgres: Server) -> AsyncIterator[dict[str, Place]]:
    """One database and its connections for the whole suite, by driver: making them for each test takes longer than the
    tests."""
    with postgres.database(migrated=True) as dsn:
        async with database(dsn) as first, database(dsn, driver="asyncpg") as second:
            yield {"psycopg": first, "asyncpg": second}


@pytest_asyncio.fixture(loop_scope="session")
async def _empty_databases(_databases: dict[str, Place]) -> dict[str, Place]:
    ground = _databases["psycopg"].ground
    assert isinstance(ground, PostgresGround)
    await ground.execute(
        "with topics as (delete from brooq_topic), schedules as (delete from brooq_schedule) delete from job"
    )
    await ground.execute("delete from brooq_worker")
    return _databases


@pytest.fixture(params=["memory", "psycopg", "asyncpg"])
def place(request: pytest.FixtureRequest) -> Place:
    """The store in memory, then the one on a real PostgreSQL over either driver; empty."""
    if request.param == "memory":
        return memory()
    found: Place = request.getfixturevalue("_empty_databases")[request.param]
    return found
