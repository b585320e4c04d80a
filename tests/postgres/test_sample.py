"""Samples in the database: shares of the steps they span, a bounded table, one answer for charts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from brooq.engine.store import Sample
from brooq.postgres import PostgresStore, open_pool
from brooq.postgres.statement import statements


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    async with open_pool(dsn, min_size=0) as pool:
        made = PostgresStore(pool)
        yield made
        await made.close()


def rows(dsn: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = psycopg.RawCursor(connection)
        cursor.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


async def test_counts_are_spread_over_the_steps_that_they_span(store: PostgresStore, dsn: str) -> None:
    await store.sample([Sample("mail", done=90, waiting=5, oldest=2.0)], 30.0)
    shares = [done for (done,) in rows(dsn, "select done from brooq_sample where step = 10 order by at")]
    # Three seconds of the ninety each: whole steps have ten of them, the first and the last what is left.
    assert sum(shares) == pytest.approx(90)
    assert shares[1:-1] == pytest.approx([30.0] * len(shares[1:-1]))
    assert len(shares) in (3, 4)
    assert sum(done for (done,) in rows(dsn, "select done from brooq_sample where step = 900")) == pytest.approx(90)
    assert {depth for (depth,) in rows(dsn, "select waiting from brooq_sample")} == {5}


async def test_workers_add_up_and_the_last_depth_stands(store: PostgresStore, dsn: str) -> None:
    for done, waiting, slow in ((2, 9, 0.5), (3, 4, 0.1)):
        await store.sample([Sample("mail", done=done, waiting=waiting, waited_p95=slow)], 0.001)
    found = rows(
        dsn,
        "select sum(done), max(waited_p95), (array_agg(waiting order by at desc))[1] from brooq_sample where step = 900",
    )
    assert found == [(pytest.approx(5.0), 0.5, 4)]


OLD = """
insert into brooq_sample (step, at, topic)
select $1, now() - $2::interval - n * interval '1 s', 'mail' from generate_series(1, $3::int) as n
"""


async def test_old_samples_go_with_new_ones(store: PostgresStore, dsn: str) -> None:
    rows(dsn, OLD, 10, "4 hours", 150)
    rows(dsn, OLD, 900, "9 days", 15)
    await store.sample([Sample("mail", done=1)], 0.001)
    assert rows(dsn, "select count(*) from brooq_sample where at < now() - interval '3 hours'") == [(0,)]


async def test_what_charts_are_drawn_from(store: PostgresStore, dsn: str) -> None:
    await store.sample([Sample("mail", done=10, waiting=3), Sample("sms", done=20, waiting=4)], 0.001)
    found = rows(dsn, statements("public").samples, 10, 600.0, 60.0, None)
    assert [(row[1], row[2], row[11]) for row in found] == [("mail", 10.0, 3), ("sms", 20.0, 4)]
    assert all(row[0] % 60 == 0 for row in found)
    assert [row[1] for row in rows(dsn, statements("public").samples, 10, 600.0, 60.0, "sms")] == ["sms"]
