"""What the dashboard reads: right, in its order, a page at a time, and never the whole table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from tests.database import Server

from brooq import Job, State
from brooq.postgres import PostgresStore, open_pool
from brooq.postgres import board as module
from brooq.postgres.board import Board, Filter
from brooq.postgres.statement import statements

pytestmark = pytest.mark.xdist_group("board")  # one process makes the big table, once

GROW = """
insert into job (topic, state, updated_at, attempts, last_error, idempotency_key)
select case mod(n, 3) when 0 then 'mail' when 1 then 'sms' else 'push' end,
       case when mod(n, 100) = 0 then 'dead' when mod(n, 100) = 1 then 'canceled' else 'done' end,
       now() - n * interval '1 second', 1,
       case when mod(n, 100) = 0 then 'E: nothing at ' || n || ' of ' || mod(n, 7) end,
       case when mod(n, 10) = 0 then 'key-' || n end
from generate_series(1, 120000) as n;
insert into job (topic, available_at) select 'mail', now() + n * interval '1 minute' from generate_series(1, 20000) as n;
insert into job (topic, state, available_at, attempts, last_error)
select 'sms', 'failed', now() + n * interval '1 second', 1, 'E: later' from generate_series(1, 30) as n;
insert into job (topic, state, locked_by, locked_until, attempts)
select 'mail', 'processing', 'w:' || mod(n, 2), now() + interval '1 minute', 1 from generate_series(1, 40) as n;
insert into job (topic) values ('rare');
analyze job;
"""


@pytest.fixture(scope="module")
def grown(postgres: Server) -> Iterator[str]:
    """A table that has been in use; nothing changes it."""
    with postgres.database(migrated=True) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("alter table job set (autovacuum_enabled = off)")
            for statement in GROW.split(";\n"):
                connection.execute(statement.encode())
        yield dsn


@pytest.fixture
async def board(grown: str) -> AsyncIterator[Board]:
    async with open_pool(grown, min_size=0) as pool:
        made = Board(PostgresStore(pool))
        yield made
        await made.close()


async def walk(board: Board, wanted: Filter, limit: int = 20, pages: int = 400) -> list[module.Line]:
    """Every job of a list, page by page."""
    found: list[module.Line] = []
    after = None
    for _ in range(pages):
        page = await board.jobs(wanted, after, limit)
        assert len(page.lines) <= limit
        found += page.lines
        after = page.after
        if after is None:
            assert not page.partial
            return found
    return found


async def test_every_job_of_a_state_is_met_once_in_the_lists_order(board: Board) -> None:
    for state, count in ((State.FAILED, 30), (State.PROCESSING, 40)):
        lines = await walk(board, Filter(state), 7)
        assert len({line.id for line in lines}) == len(lines) == count
        assert {line.state for line in lines} == {state}
    pending = await walk(board, Filter(State.PENDING), 50, 6)
    # What may begin first stands first; jobs of one moment come in the order of their ids.
    assert [line.available_at for line in pending] == sorted(line.available_at for line in pending)
    assert pending[0].topic == "rare"
    dead = await walk(board, Filter(State.DEAD, topic="mail"), 50)
    assert len({line.id for line in dead}) == len(dead) == 400
    assert [line.updated_at for line in dead] == sorted((line.updated_at for line in dead), reverse=True)
    done = await walk(board, Filter(State.DONE), 50, 4)
    assert len({line.id for line in done}) == 200
    assert [line.updated_at for line in done] == sorted((line.updated_at for line in done), reverse=True)
    over_topics = await walk(board, Filter(State.DEAD), 100)
    assert len(over_topics) == 1200
    assert [line.updated_at for line in over_topics] == sorted((line.updated_at for line in over_topics), reverse=True)


async def test_filters_meet(board: Board) -> None:
    assert {line.locked_by for line in await walk(board, Filter(State.PROCESSING, worker="w:1"))} == {"w:1"}
    found = await walk(board, Filter(State.DEAD, error="NOTHING AT 300 "))
    assert [line.last_error for line in found] == ["E: nothing at 300 of 6"]
    by_key = await board.jobs(Filter(key="key-300"))
    assert [(line.key, line.state) for line in by_key.lines] == [("key-300", State.DEAD)]
    assert (await board.jobs(Filter(State.DONE, key="key-300"))).lines == []


async def test_what_is_rare_is_looked_for_a_stretch_at_a_time(board: Board) -> None:
    page = await board.jobs(Filter(State.DONE, topic="rare"))
    assert (page.lines, page.partial) == ([], True)
    assert page.after is not None
    pages = 1
    while page.after is not None:
        page = await board.jobs(Filter(State.DONE, topic="rare"), page.after)
        pages += 1
    assert pages == 140_071 // module.LOOK + 1


@pytest.mark.parametrize("after", ["", "x", "2026-01-01", "2026-01-01_1", "2026-01-01T00:00:00_" + "0" * 32])
async def test_a_place_that_is_none_is_refused(board: Board, after: str) -> None:
    for state in State:
        with pytest.raises(ValueError):  # noqa: PT011  whoever parses has words of their own
            await board.jobs(Filter(state), after)


async def test_the_dead_are_grouped_by_what_they_have_in_common(board: Board) -> None:
    groups = await board.dead()
    assert {(group.topic, group.error, group.total, group.open) for group in groups} == {
        (topic, "E: nothing at … of …", 400, 400) for topic in ("mail", "sms", "push")
    }
    assert not any(group.cut for group in groups)
    ids = await board.group("mail", "E: nothing at … of …", 15)
    dead = await walk(board, Filter(State.DEAD, topic="mail"))
    assert ids == [line.id for line in reversed(dead)][:15]
    assert await board.group("mail", "E: something") == []


CASES: dict[str, tuple[str, list[Any]]] = {
    "newest": ("board_newest", [None, module.GLANCE, None, None, None, None, 50]),
    "newest of a rare topic": ("board_newest", [None, module.LOOK, "rare", "done", None, None, 50]),
    "done": ("board_done", [None, None, 50]),
    "held": ("board_held", [None, None, None, None, 50]),
    "pending": ("board_waiting", ["pending", None, None, None, None, module.PASSED, 50]),
    "failed": ("board_waiting", ["failed", None, None, None, None, module.PASSED, 50]),
    "failed with words": ("board_waiting", ["failed", "sms", None, None, "x", module.PASSED, 50]),
    "dead": ("board_unsuccessful", ["dead", None, None, None, None, 50, 50]),
    "dead of a topic": ("board_unsuccessful", ["dead", "mail", None, None, None, 50, 50]),
    "groups": ("board_dead", [None, 50, 4000, 100]),
    "a group": ("board_group", ["mail", "E: nothing at … of …", 50, 50]),
    "change": ("board_change", []),
}
WALKS = {"newest of a rare topic": 11_000, "pending": 4500, "failed": 4500, "failed with words": 4500}
"""How many pages of the table those that pass rows over may touch; the others touch few."""


@pytest.mark.parametrize("analyzed", [True, False], ids=["with statistics", "without statistics"])
@pytest.mark.parametrize("case", CASES)
def test_no_list_reads_sorts_or_counts_the_table(grown: str, case: str, analyzed: bool) -> None:
    """Must hold: what a statement touches is bounded by itself, not by the table."""
    name, parameters = CASES[case]
    with psycopg.connect(grown) as connection:
        if not analyzed:
            connection.execute("delete from pg_statistic where starelid = 'job'::regclass")
        cursor = psycopg.RawCursor(connection)
        statement = getattr(statements("public"), name)
        if "`in_order`" in statement:
            cursor.execute(statements("public").in_order.encode())
        cursor.execute(f"explain (analyze, buffers, format json) {statement}".encode(), parameters)
        (found,) = cursor.fetchone() or ({},)
        connection.rollback()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert not [node for node in _nodes(plan) if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "job"]
    touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    assert touched <= WALKS.get(case, 1500), touched


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


async def test_a_list_never_carries_a_payload(dsn: str) -> None:
    async with open_pool(dsn, min_size=0) as pool:
        store = PostgresStore(pool)
        await store.enqueue(None, [Job("mail", {"secret": "canary"}, idempotency_key="k")])
        board = Board(store)
        for wanted in (Filter(), Filter(State.PENDING), Filter(topic="mail")):
            page = await board.jobs(wanted)
            assert len(page.lines) == 1
            assert "canary" not in repr(page)
        await board.close()
        await store.close()
