"""One suite for every store: `place` is a store with hands on what lies under it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.database import Server
from tests.store_contract.place import Place, PostgresGround, database, memory


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _database(postgres: Server) -> AsyncIterator[Place]:
    """One database and its connections for the whole suite: making them for each test takes longer than the tests."""
    with postgres.database(migrated=True) as dsn:
        async with database(dsn) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="session")
async def _empty_database(_database: Place) -> Place:
    assert isinstance(_database.ground, PostgresGround)
    await _database.ground.execute("delete from job")
    return _database


@pytest.fixture(params=["memory", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """The store in memory, then the one on a real PostgreSQL; empty."""
    if request.param == "memory":
        return memory()
    found: Place = request.getfixturevalue("_empty_database")
    return found
