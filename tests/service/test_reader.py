"""Reading for people: each page costs what it shows, and filters have their index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from brooq import State
from brooq.postgres import PostgresStore
from brooq.postgres.pool import make_pool
from brooq.postgres.reader import Reader
from brooq.postgres.statement import statements


@pytest.fixture
async def reader(dsn: str) -> AsyncIterator[Reader]:
    made = Reader(PostgresStore(make_pool(dsn)))
    yield made
    await made.close()


def fill(dsn: str) -> None:
    """Many jobs that nobody asks for, few that somebody does."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into job (topic, state) select 'foreign', 'done' from generate_series(1, 30000)"
            " union all select 'waiting', 'pending' from generate_series(1, 3000)"
        )
        connection.execute("insert into job (topic, state) values ('rare', 'dead'), ('rare', 'canceled')")
        connection.execute(
            "insert into job (topic, state, locked_by, locked_until) values ('rare', 'processing', 'w', now())"
        )
        connection.execute("insert into job (topic, state) select 'foreign', 'done' from generate_series(1, 3000)")
        connection.execute("analyze job")


@pytest.mark.parametrize(
    ("topic", "state", "index"),
    [
        (None, None, "job_pkey"),
        (None, "done", "job_pkey"),
        ("foreign", None, "job_pkey"),
        (None, "processing", "job_held"),
        ("rare", "dead", "job_unsuccessful"),
        (None, "canceled", "job_unsuccessful"),
        ("rare", "failed", "job_ready"),
    ],
)
async def test_a_page_touches_little_more_than_it_shows(
    dsn: str, topic: str | None, state: str | None, index: str
) -> None:
    fill(dsn)
    statement = "explain (analyze, format json) " + statements("public").list
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with connection, psycopg.AsyncRawCursor(connection) as cursor:
        await cursor.execute(statement, [None, topic, state, 20], prepare=False)
        row: Any = await cursor.fetchone()
    nodes = []

    def walk(node: dict[str, Any]) -> None:
        nodes.append(node)
        for child in node.get("Plans", ()):
            walk(child)

    walk(row[0][0]["Plan"])
    assert {node["Index Name"] for node in nodes if "Index Name" in node} == {index}
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    assert sum(node.get("Rows Removed by Filter", 0) + node["Actual Rows"] for node in nodes) < 200


async def test_pages_follow_each_other_without_gap_or_double(dsn: str, reader: Reader) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into job (topic) select 'many' from generate_series(1, 250)")
    seen, last = [], None
    while page := await reader.list(topic="many", state=State.PENDING, before=last, limit=100):
        seen += [record.id for record in page]
        last = seen[-1]
    assert len(seen) == len(set(seen)) == 250
    assert seen == sorted(seen, reverse=True)


async def test_what_the_server_is(reader: Reader) -> None:
    server = await reader.server()
    assert server.number >= 140000
    assert server.version.split(".")[0] == str(server.number // 10000)
    assert not server.standby
    assert not server.pooled
