"""Reading for people: each page costs what it shows, whatever is asked for and however large the table is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from brooq import Job, State
from brooq.postgres import PostgresStore, listing
from brooq.postgres.listing import Filter
from brooq.postgres.pool import make_pool
from brooq.postgres.reader import Reader
from brooq.postgres.statement import statements

DONE, WAITING = 30_000, 3_000


@pytest.fixture
async def reader(dsn: str) -> AsyncIterator[Reader]:
    made = Reader(PostgresStore(make_pool(dsn)))
    yield made
    await made.close()


def fill(dsn: str) -> None:
    """Many jobs that nobody asks for, few that somebody does: some among the oldest, some among the newest."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for query in (
            (
                "insert into job (topic, state, last_error, tags, idempotency_key)"
                " values ('rare', 'dead', 'Oh: no 17', '{old}', 'one')"
            ),
            f"insert into job (topic, state) select 'foreign', 'done' from generate_series(1, {DONE})",
            f"insert into job (topic) select 'waiting' from generate_series(1, {WAITING})",
            "insert into job (topic, state, idempotency_key) values ('rare', 'canceled', 'two')",
            "insert into job (topic, state, locked_by, locked_until) values ('rare', 'processing', 'w:1', now())",
            "insert into job (topic, state, last_error) values ('rare', 'failed', 'OH no')",
            (
                f"insert into job (topic, state, locked_by, locked_until) select 'foreign', 'done', 'w:' || i % 2, now()"
                f" from generate_series(1, {WAITING}) as i"
            ),
            "analyze job",
        ):
            connection.execute(query.encode())


def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The node and all below it."""
    return [node, *(each for child in node.get("Plans", ()) for each in walk(child))]


async def explained(dsn: str, statement: str, parameters: list[Any], before: str = "select 1") -> list[dict[str, Any]]:
    """Every node of the plan, after it was run."""
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with connection, psycopg.AsyncRawCursor(connection) as cursor:
        await cursor.execute("begin")
        await cursor.execute(before, prepare=False)
        await cursor.execute("explain (analyze, buffers, format json) " + statement, parameters, prepare=False)
        row: Any = await cursor.fetchone()
    return walk(row[0][0]["Plan"])


FILTERS = [
    (Filter(), 20, {"job_pkey"}, 100),
    (Filter(topic="foreign"), 20, {"job_pkey"}, 100),
    (Filter(state=State.DONE), 20, {"job_pkey"}, 100),
    (Filter(state=State.DONE, worker="w:1"), 20, {"job_pkey"}, 100),
    (Filter(state=State.PENDING), 20, {"job_pkey", "job_ready"}, 20_001),
    (Filter(state=State.PROCESSING), 1, {"job_held", "job_pkey"}, 100),
    (Filter(state=State.PROCESSING, worker="w:2"), 0, {"job_held", "job_pkey"}, 100),
    (Filter(topic="rare", state=State.DEAD), 1, {"job_unsuccessful", "job_pkey"}, 100),
    (Filter(state=State.CANCELED), 1, {"job_unsuccessful", "job_pkey"}, 100),
    (Filter(topic="rare", state=State.FAILED), 1, {"job_ready", "job_pkey"}, 100),
    (Filter(topic="rare", state=State.FAILED, error="oh NO"), 1, {"job_ready", "job_pkey"}, 100),
    (Filter(key="one"), 1, {"job_key"}, 100),
    (Filter(topic="rare", key="two"), 1, {"job_key"}, 100),
    (Filter(error="nothing says this"), 0, {"job_pkey"}, 20_001),
    (Filter(topic="none"), 0, {"job_pkey"}, 20_001),
    (Filter(tag="none", since=datetime(2020, 1, 1, tzinfo=UTC)), 0, {"job_pkey"}, 20_001),
    (Filter(until=datetime(2020, 1, 1, tzinfo=UTC)), 0, {"job_pkey"}, 100),
]


def _named(value: object) -> str:
    """A set has no order, and each process of the tests would name it in its own."""
    return "+".join(sorted(value)) if isinstance(value, set) else str(value)[:90]


@pytest.mark.parametrize(("wanted", "count", "indexes", "touched"), FILTERS, ids=_named)
async def test_a_page_touches_a_bounded_number_of_rows_by_its_index(
    dsn: str,
    reader: Reader,
    wanted: Filter,
    count: int,
    indexes: set[str],
    touched: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(dsn)
    asked: list[tuple[str, list[Any]]] = []
    original = reader._fetch

    async def fetch(statement: str, parameters: Any) -> Any:
        asked.append((statement, list(parameters)))
        return await original(statement, parameters)

    monkeypatch.setattr(reader, "_fetch", fetch)
    page = await reader.page(wanted, limit=20)
    assert len(page.jobs) == count
    nodes = [node for statement, parameters in asked for node in await explained(dsn, statement, parameters)]
    assert {node["Index Name"] for node in nodes if "Index Name" in node} <= indexes
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    leaves = [node for node in nodes if "Plans" not in node]
    rows = [(node.get("Rows Removed by Filter", 0) + node["Actual Rows"]) * node["Actual Loops"] for node in leaves]
    assert sum(rows) <= touched
    # Sorting is for the few: never more rows than a bound, however large the table is.
    assert all(node["Actual Rows"] <= listing.FEW for node in nodes if node["Node Type"] == "Sort")


async def test_what_lies_far_apart_is_found_page_by_page_without_gap_or_double(dsn: str, reader: Reader) -> None:
    fill(dsn)
    pages, found, before = 0, list[str](), None
    while True:
        page = await reader.page(Filter(topic="rare"), before=before, limit=2)
        pages += 1
        found += [str(job.state) for job in page.jobs]
        before = page.next
        if before is None:
            break
    assert found == ["failed", "processing", "canceled", "dead"]
    assert 3 < pages <= 3 + (DONE + 2 * WAITING) // listing.WALK + 1
    # Whoever only wants the list need not know of pages.
    assert [str(job.state) for job in await reader.list(topic="rare", limit=10)] == found
    assert len(await reader.list(topic="rare", limit=3)) == 3


async def test_pages_follow_each_other_without_gap_or_double(dsn: str, reader: Reader) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into job (topic) select 'many' from generate_series(1, 250)")
    for wanted in (Filter(topic="many", state=State.PENDING), Filter(topic="many"), Filter()):
        seen, before = list[UUID](), None
        while True:
            page = await reader.page(wanted, before=before, limit=100)
            seen += [record.id for record in page.jobs]
            before = page.next
            if before is None:
                break
        assert len(seen) == len(set(seen)) == 250
        assert seen == sorted(seen, reverse=True)


async def test_every_filter_finds_what_it_names_and_nothing_else(dsn: str, reader: Reader) -> None:
    fill(dsn)
    now = datetime.now(UTC)

    async def found(**wanted: Any) -> list[tuple[str, str]]:
        page = await reader.page(Filter(**wanted), limit=3)
        while not page.jobs and page.next is not None:
            page = await reader.page(Filter(**wanted), before=page.next, limit=3)
        return [(job.topic, str(job.state)) for job in page.jobs]

    assert await found(error="oh: NO") == [("rare", "dead")]
    assert await found(error="oh no", state=State.FAILED) == [("rare", "failed")]
    assert await found(error="%") == []
    assert await found(tag="old") == [("rare", "dead")]
    assert await found(worker="w:1", topic="rare") == [("rare", "processing")]
    assert await found(key="one") == [("rare", "dead")]
    assert await found(key="one", state=State.DONE) == []
    assert await found(key="one", error="NO 17", tag="old", until=now + timedelta(hours=1)) == [("rare", "dead")]
    assert await found(key="one", topic="foreign") == []
    assert await found(since=now + timedelta(hours=1)) == []
    assert await found(until=now - timedelta(hours=1)) == []
    assert (
        await found(since=now - timedelta(hours=1), until=now + timedelta(hours=1), topic="waiting")
        == [("waiting", "pending")] * 3
    )


async def test_more_than_few_jobs_of_a_state_are_met_on_a_walk(
    dsn: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(dsn)
    for few in (WAITING, WAITING - 1):
        monkeypatch.setattr(listing, "FEW", few)
        jobs = await reader.list(state=State.PENDING, limit=50)
        assert len(jobs) == 50
        assert {job.topic for job in jobs} == {"waiting"}
        assert [job.id for job in jobs] == sorted((job.id for job in jobs), reverse=True)


async def test_dead_jobs_are_grouped_by_what_they_died_of(dsn: str, reader: Reader) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into job (topic, state, last_error, updated_at) select t, 'dead', e || i, now() - i * interval '1 s'"
            " from (values ('mail', 'Timeout: no answer after ', 5), ('mail', 'no such user 0xab3f', 2),"
            " ('sms', 'Timeout: ', 1)) as kinds (t, e, n), generate_series(1, n) as i"
        )
        connection.execute("insert into job (topic, state, last_error) values ('mail', 'canceled', 'Timeout: x')")
        connection.execute("insert into job (topic, state) values ('quiet', 'dead')")
    groups = await reader.dead()
    assert [(each.topic, each.kind, each.jobs) for each in groups][:2] == [
        ("mail", "Timeout: no answer after …", 5), ("mail", "no such user …", 2),
    ]  # fmt: skip
    assert {(each.topic, each.kind, each.jobs) for each in groups[2:]} == {("sms", "Timeout: …", 1), ("quiet", "", 1)}
    first = groups[0]
    assert first.example == "Timeout: no answer after 1"
    assert (first.last - first.first, first.bounded) == (timedelta(seconds=4), False)
    found = await reader.find(first.latest)
    assert found is not None
    assert found.last_error == first.example
    assert [each.topic for each in await reader.dead("sms")] == ["sms"]
    assert len(await reader.dead(limit=1)) == 1


async def test_grouping_the_dead_looks_at_a_bounded_number_of_them(dsn: str, reader: Reader) -> None:
    fill(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into job (topic, state, last_error) select 'mail', 'dead', 'e' || i from generate_series(1, 20000) as i"
        )
        connection.execute("analyze job")
    (group, *_) = await reader.dead()
    assert (group.topic, group.jobs, group.bounded) == ("mail", 2000, True)
    nodes = await explained(dsn, statements("public").dead, [None, 2000, 200, 50], statements("public").in_order)
    assert {node["Index Name"] for node in nodes if "Index Name" in node} == {"job_unsuccessful"}
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    assert max(node["Actual Rows"] for node in nodes) <= 2000 + 200


async def test_what_was_done_by_hand_and_what_slots_do_is_told(dsn: str, reader: Reader) -> None:
    job = Job("t")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into brooq_operation (actor, action, job, topic, found, done, reason, made)"
            " values ('ann', 'retry', %s, 't', 'dead', true, 'why', %s)",
            [job.id, UUID(int=5)],
        )
        connection.execute(
            "insert into brooq_worker (name, host, pid, version, slots, topics, running)"
            " values ('w', 'h', 1, '1', 2, '{t}', jsonb_build_array(jsonb_build_object("
            "'id', %s::text, 'topic', 't', 'attempt', 2, 'seconds', 1.5, 'hung', true)))",
            [UUID(int=7)],
        )
    (deed,) = await reader.deeds(job.id)
    assert (deed.actor, deed.action, deed.done, deed.reason, deed.made) == ("ann", "retry", True, "why", UUID(int=5))
    (worker,) = await reader.workers()
    (slot,) = worker.running
    assert (slot.id, slot.topic, slot.attempt, slot.seconds, slot.hung) == (UUID(int=7), "t", 2, 1.5, True)


async def test_what_the_server_is(reader: Reader) -> None:
    server = await reader.server()
    assert server.number >= 140000
    assert server.version.split(".")[0] == str(server.number // 10000)
    assert not server.standby
    assert not server.pooled
