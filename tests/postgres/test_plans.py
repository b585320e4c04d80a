"""Plans: every statement of the hot path uses its index in a grown table, with and without statistics, and never
touches more rows than asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from tests.database import Server

from brooq.postgres import PostgresStore, limited, open_pool
from brooq.postgres.session import Session
from brooq.postgres.statement import statements

pytestmark = pytest.mark.xdist_group("plans")  # one process makes the big table, once

TERMINAL, FOREIGN, FUTURE = 300_000, 100_000, 100_000
READY, HELD, EXPIRED = 500, 100, 50
HOT, OTHERS = 100_000, 40
UNDER_WAY = HELD + EXPIRED + 1
"""With the one of the hot key: a look at all of these is not in vain."""
ASKED = 30
LEASE = timedelta(seconds=60)
STATEMENTS = statements("public")
SUMMARY = 1
"""The row of an exchange that tells what became of the outcomes."""
IN_VAIN = ("Rows Removed by Filter", "Rows Removed by Join Filter")

UNMARKED: list[list[Any]] = [[], [], [], [], []]
"""No marks: the claim looks from the beginning."""

GROW = """
insert into job (topic, state, available_at, updated_at, created_at, attempts, locked_by, locked_until)
select 'mail', case mod(n, 50) when 0 then 'dead' when 1 then 'canceled' else 'done' end,
       now() - interval '2 days', now() - interval '1 day' - n * interval '1 second', now() - interval '2 days', 1,
       'w', now()
from generate_series(1, %(terminal)s) as n;
insert into job (topic, available_at)
select 'foreign', now() - interval '1 hour' from generate_series(1, %(foreign)s);
insert into job (topic, available_at) select 'mail', now() + interval '1 day' from generate_series(1, %(future)s);
insert into job (topic, available_at) select 'mail', now() - n * interval '1 second' from generate_series(1, %(ready)s) as n;
insert into job (topic, state, locked_by, locked_until, claim_seq, attempts)
select 'mail', 'processing', 'me', now() + interval '1 hour', 1, 1 from generate_series(1, %(held)s);
insert into job (topic, state, locked_by, locked_until, claim_seq, attempts)
select 'mail', 'processing', 'gone', now() - interval '1 minute', 1, 1 from generate_series(1, %(expired)s);
insert into job (topic, idempotency_key) values ('mail', 'known');
insert into job (topic, concurrency_key, available_at, priority)
select 'keyed', 'hot', now() - interval '2 hours', case when n = 1 then 3 else 4 end from generate_series(1, %(hot)s) as n;
insert into job (topic, concurrency_key, available_at, priority)
select 'keyed', 'other ' || n, now() - interval '1 hour', 5 from generate_series(1, %(others)s) as n;
insert into job (topic, concurrency_key, state, locked_by, locked_until, claim_seq, attempts)
values ('keyed', 'hot', 'processing', 'him', now() + interval '1 hour', 1, 1);
"""


@pytest.fixture(scope="module")
def grown(postgres: Server) -> Iterator[str]:
    """A migrated database that has been in use for long; made once, and never analyzed by itself."""
    with postgres.database(migrated=True) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("alter table job set (autovacuum_enabled = off)")
            counts = dict(zip(("terminal", "foreign", "future", "ready", "held", "expired", "hot",
                               "others"),
                              (TERMINAL, FOREIGN, FUTURE, READY, HELD, EXPIRED, HOT, OTHERS), strict=True))  # fmt: skip
            for statement in GROW.split(";\n"):
                if statement.strip():
                    psycopg.ClientCursor(connection).execute(statement.encode(), counts)
        yield dsn


@pytest.fixture(params=["without statistics", "with statistics"])
def connection(grown: str, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    """In a transaction that is rolled back: every test meets the same table."""
    with psycopg.connect(grown) as opened:
        if request.param == "with statistics":
            opened.execute("set default_statistics_target = 10")  # a small sample: the shape of the plans is the same
            opened.execute("analyze job")
            opened.execute("reset default_statistics_target")
        # What an earlier test has rolled back is dead, and whoever meets it first marks it so: not the statement under test.
        for order in (b"asc", b"desc"):
            opened.execute(
                b"select priority from job where topic = 'mail' and state in ('pending', 'failed')"
                b" order by priority %b limit 1" % order
            )
        yield opened
        opened.rollback()


def ids(connection: psycopg.Connection[Any], condition: str, limit: int) -> list[UUID]:
    rows = connection.execute(f"select id from job where {condition} limit {limit}".encode()).fetchall()
    return [row[0] for row in rows]


def outcomes(held: Sequence[UUID], state: str = "done") -> list[Any]:
    count = len(held)
    error = "E: no" if state == "failed" else None
    return [
        "me",
        list(held),
        [1] * count,
        [state] * count,
        [error] * count,
        [None if error is None else 1.0] * count,
        [0] * count,
    ]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def explain(
    connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any], mode: str = "auto"
) -> dict[str, Any]:
    """Run the statement, as the engine does, and answer its plan with what really happened.

    Prepared first: `plan_cache_mode` says nothing about an EXPLAIN that is sent with its values.
    """
    connection.execute(f"set local plan_cache_mode = {mode}".encode())
    connection.execute(f"prepare asked as {statement}".encode())
    values = sql.SQL(", ").join(sql.Literal(value) for value in parameters)
    try:
        row = connection.execute(
            sql.SQL("explain (analyze, buffers, format json) execute asked({})").format(values)
        ).fetchone()
    finally:
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            connection.execute("deallocate asked")
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return dict(plan[0]["Plan"])


def rows_locked(plan: dict[str, Any]) -> int:
    """How many rows the plan locked. Rows are told as averages over the loops, before PostgreSQL 18 rounded to whole
    ones: the exact number is that of the node above, which runs once."""
    total, above = 0, None
    for node in nodes(plan):
        for child in node.get("Plans", []):
            inner = [each for each in nodes(child) if each["Node Type"] == "LockRows"]
            if inner and node["Actual Loops"] == 1 and all(each["Actual Loops"] > 1 for each in inner):
                above = node  # the lowest of them: those higher up have other rows too
        if node["Node Type"] == "LockRows" and node["Actual Loops"] == 1:
            total += int(node["Actual Rows"])
    return total if above is None else int(above["Actual Rows"])


def check(plan: dict[str, Any], *, buffers: int, locked: int | None = None) -> None:
    """No walk through the table, no more rows locked than asked, a bounded number of pages."""
    walks = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "job"]
    assert not walks, f"walks through the table: {walks}"
    removed = {node.get("Index Name", node["Node Type"]): node[reason] * node["Actual Loops"]
               for node in nodes(plan) for reason in IN_VAIN if node.get(reason)}  # fmt: skip
    assert all(count <= UNDER_WAY for count in removed.values()), f"rows read in vain: {removed}"
    if locked is not None:
        taken = rows_locked(plan)
        assert taken <= locked, f"{taken} rows locked where {locked} were asked for"
    touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    assert touched <= buffers, f"{touched} pages touched, at most {buffers} expected"


MODES = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@MODES
@pytest.mark.parametrize(
    "topics", [["mail"], ["empty", "mail"], ["empty"], []], ids=["one", "two", "none ready", "no topic"]
)
def test_a_claim(connection: psycopg.Connection[Any], mode: str, topics: list[str]) -> None:
    plan = explain(connection, STATEMENTS.exchange, [*outcomes([]), topics, ASKED, LEASE, *UNMARKED], mode)
    check(plan, locked=ASKED, buffers=100 + 30 * ASKED)
    assert plan["Actual Rows"] == (ASKED if "mail" in topics else 0) + SUMMARY


@MODES
@pytest.mark.parametrize(("topic", "found"), [("mail", ASKED), ("empty", 0)])
def test_a_claim_of_one_topic(connection: psycopg.Connection[Any], mode: str, topic: str, found: int) -> None:
    plan = explain(connection, STATEMENTS.claim_topic, ["me", topic, ASKED, LEASE], mode)
    check(plan, locked=ASKED, buffers=100 + 30 * ASKED)
    assert plan["Actual Rows"] == found + SUMMARY


@MODES
@pytest.mark.parametrize("marked", [False, True], ids=["no marks", "marks"])
def test_a_claim_asks_no_topic_behind_the_one_that_has_enough(
    connection: psycopg.Connection[Any], mode: str, marked: bool
) -> None:
    """A worker of a thousand topics."""
    topics = ["empty", "mail", *(f"other-{number}" for number in range(998))]
    count = len(topics) if marked else 0
    places = [datetime(1970, 1, 1, tzinfo=UTC)] * count, [UUID(int=0)] * count
    marks = [topics[:count], [0] * count, *places]
    plan = explain(connection, STATEMENTS.exchange, [*outcomes([]), topics, ASKED, LEASE, *marks, []], mode)
    check(plan, locked=ASKED, buffers=100 + 30 * ASKED)
    assert plan["Actual Rows"] == ASKED + SUMMARY
    (levels,) = (node for node in nodes(plan) if node.get("Function Name") == "generate_series")
    assert levels["Actual Loops"] == 2, "no topic is asked before its turn"


@MODES
@pytest.mark.parametrize("state", ["done", "failed"])
def test_outcomes_with_the_next_claim(connection: psycopg.Connection[Any], mode: str, state: str) -> None:
    held = ids(connection, "state = 'processing' and locked_by = 'me'", ASKED)
    plan = explain(connection, STATEMENTS.exchange, [*outcomes(held, state), ["mail"], ASKED, LEASE, *UNMARKED], mode)
    check(plan, locked=ASKED, buffers=200 + 60 * ASKED)
    assert plan["Actual Rows"] == ASKED + SUMMARY


CLAIMS = pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("exchange", [*outcomes([]), ["mail"], ASKED, LEASE, *UNMARKED]),
        ("claim_topic", ["me", "mail", ASKED, LEASE]),
    ],
    ids=["exchange", "one topic"],
)


@CLAIMS
def test_a_claim_walks_no_future_of_a_more_urgent_priority(
    connection: psycopg.Connection[Any], statement: str, parameters: list[Any]
) -> None:
    connection.execute(
        "update job set priority = 5 where topic = 'mail' and state = 'pending' and available_at <= now()"
    )
    plan = explain(connection, getattr(STATEMENTS, statement), parameters)
    check(plan, locked=ASKED, buffers=200 + 30 * ASKED)
    assert plan["Actual Rows"] == ASKED + SUMMARY


@CLAIMS
@pytest.mark.parametrize(
    "off", ["nestloop", "hashjoin", "mergejoin", "indexscan", "bitmapscan", "material", "sort", "memoize"]
)
def test_a_claim_keeps_its_limit_under_every_plan(
    connection: psycopg.Connection[Any], off: str, statement: str, parameters: list[Any]
) -> None:
    """Whatever the planner may not use, exactly as many rows as asked."""
    connection.execute(f"set local enable_{off} = off".encode())
    plan = explain(connection, getattr(STATEMENTS, statement), parameters)
    assert (rows_locked(plan), plan["Actual Rows"]) == (ASKED, ASKED + SUMMARY)


def test_a_statement_is_planned_for_any_values_when_asked_to_be(connection: psycopg.Connection[Any]) -> None:
    """What the other mode of these tests rests on: a plan for any limit expects another number of rows."""
    expected = {
        mode: [node["Plan Rows"] for node in nodes(explain(connection, STATEMENTS.prune, [timedelta(1), 3], mode))]
        for mode in ("force_custom_plan", "force_generic_plan")
    }
    assert expected["force_custom_plan"] != expected["force_generic_plan"]


@MODES
@pytest.mark.parametrize(
    ("topic", "limits", "found"),
    [
        ("keyed", "max_running_per_key = 1", ASKED),
        ("keyed", "ordered = true", ASKED),
        ("keyed", "max_running_per_key = 2", ASKED),
        ("keyed", "max_running = 1", 0),
        ("mail", "max_running = 1000, rate = 1000, rate_period = '1 s'", ASKED),
        ("mail", "max_running_per_key = 1", ASKED),
    ],
)
def test_a_claim_within_limits(
    connection: psycopg.Connection[Any], mode: str, topic: str, limits: str, found: int
) -> None:
    """Past a hundred thousand ready jobs of one busy key, and past as many of the future."""
    connection.execute("insert into brooq_topic (topic) values (%s)", [topic])
    connection.execute(f"update brooq_topic set {limits}".encode())
    parameters = ["me", topic, ASKED, LEASE, limited.WALK + ASKED, limited.KEYS, limited.LINE, "", *limited.BEGINNING]
    plan = explain(connection, STATEMENTS.claim_limited, parameters, mode)
    walks = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "job"]
    assert not [node for node in walks if node["Actual Loops"]], "it walks through the table"
    read = [node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan) if node.get("Relation Name") == "job"]
    assert max(read) <= (limited.KEYS + 1) * limited.LINE, "a backlog is walked"
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 50 * ASKED + 10 * limited.KEYS + limited.WALK
    assert plan["Actual Rows"] == found + SUMMARY
    explain(connection, STATEMENTS.lock_topic, [topic], mode)


@MODES
def test_renewals(connection: psycopg.Connection[Any], mode: str) -> None:
    held = ids(connection, "state = 'processing' and locked_by = 'me'", ASKED)
    check(
        explain(connection, STATEMENTS.renew, ["me", held, [1] * ASKED, LEASE], mode),
        locked=ASKED,
        buffers=100 + 30 * ASKED,
    )


@MODES
def test_the_reaper(connection: psycopg.Connection[Any], mode: str) -> None:
    plan = explain(connection, STATEMENTS.reap, [ASKED], mode)
    check(plan, locked=ASKED, buffers=200 + 30 * ASKED)
    assert plan["Actual Rows"] == ASKED


@MODES
def test_retention(connection: psycopg.Connection[Any], mode: str) -> None:
    plan = explain(connection, STATEMENTS.prune, [timedelta(hours=1), ASKED], mode)
    check(plan, locked=ASKED, buffers=100 + 20 * ASKED)
    assert plan["Actual Rows"] == ASKED


@pytest.mark.parametrize("off", ["nestloop", "hashjoin", "mergejoin", "indexscan", "bitmapscan", "sort"])
def test_upkeep_keeps_its_limits_under_every_plan(connection: psycopg.Connection[Any], off: str) -> None:
    """The same for the reaper and for retention."""
    connection.execute(f"set local enable_{off} = off".encode())
    for statement, parameters in ((STATEMENTS.reap, [ASKED]), (STATEMENTS.prune, [timedelta(hours=1), ASKED])):
        plan = explain(connection, statement, parameters)
        locked = sum(
            node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan) if node["Node Type"] == "LockRows"
        )
        assert (round(locked), plan["Actual Rows"]) == (ASKED, ASKED)


@MODES
def test_statements_about_one_job(connection: psycopg.Connection[Any], mode: str) -> None:
    held, other = ids(connection, "state = 'processing' and locked_by = 'me'", 2)
    check(explain(connection, STATEMENTS.settle, ["me", held, 1, "done", None, None, 0, None], mode), buffers=60)
    check(explain(connection, STATEMENTS.cancel, [other], mode), buffers=60)
    check(explain(connection, STATEMENTS.find, [held], mode), buffers=10)
    check(explain(connection, STATEMENTS.fates, [[held, other]], mode), buffers=20)


@MODES
def test_enqueueing(connection: psycopg.Connection[Any], mode: str) -> None:
    def columns(keys: list[str | None]) -> list[Any]:
        count = len(keys)
        nothing: list[Any] = [None] * count
        return [
            [uuid4() for _ in keys],
            ["mail"] * count,
            ["1"] * count,
            keys,
            nothing,
            [0] * count,
            nothing,
            nothing,
            nothing,
            "mail",
            ["mail"],
            [],
            [],
        ]

    keys: list[str | None] = ["known", "new", None]
    plan = explain(connection, STATEMENTS.enqueue, columns(keys), mode)
    check(plan, buffers=250)
    (written,) = [node for node in nodes(plan) if node["Node Type"] == "ModifyTable"]
    assert written["Actual Rows"] == 2
    check(explain(connection, STATEMENTS.existing, [[uuid4()], ["mail"], ["known"]], mode), buffers=60)
    for key, rows in (("known", 0), ("another", 1), (None, 1)):
        one = explain(
            connection,
            STATEMENTS.enqueue_one,
            [uuid4(), "mail", "1", key, None, 0, None, None, None, False, None],
            mode,
        )
        check(one, buffers=80)
        assert one["Actual Rows"] == rows
    new = [uuid4(), "mail", "1", None, None, 0, None, None, None, False, None]
    check(explain(connection, STATEMENTS.enqueue_one_new, new, mode), buffers=80)
    check(explain(connection, STATEMENTS.enqueue_keyed, columns(["known", "newer"]), mode), buffers=250)
    check(explain(connection, STATEMENTS.enqueue_new, columns([None, None]), mode), buffers=250)


def test_the_census_costs_the_same_whatever_the_table_holds(connection: psycopg.Connection[Any]) -> None:
    """O2: waiting rows are counted up to a bound, terminal ones estimated."""
    plan = explain(connection, STATEMENTS.census, [["mail"], 1000, 200, 1024, 3])
    walks = [
        node
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "job" and node["Actual Loops"]
    ]
    assert not walks, [node.get("Filter") for node in walks]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 12_000


def test_asking_why_a_job_does_not_run_costs_the_same_whatever_the_table_holds(
    connection: psycopg.Connection[Any],
) -> None:
    bound, lately = 1000, timedelta(days=2)
    for topic in ("mail", "foreign"):
        (last,) = ids(connection, f"topic = '{topic}' and state = 'pending' order by available_at desc", 1)
        check(explain(connection, STATEMENTS.explain, [last, bound, lately], "force_custom_plan"), buffers=8_000)


def test_what_operators_look_at_is_read_up_to_a_bound(connection: psycopg.Connection[Any]) -> None:
    connection.execute(STATEMENTS.in_order.encode())
    for statement, parameters in (
        (STATEMENTS.pace, [timedelta(days=2), 1000]),
        (STATEMENTS.dead_group, ["mail", "", 1000]),
        (STATEMENTS.examine_jobs, [1000, 3, 20]),
        (STATEMENTS.examine_topics, [200]),
    ):
        plan = explain(connection, statement, parameters, "force_custom_plan")
        walks = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "job"]
        assert not walks, walks
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 8_000, statement


def test_the_census_estimates_what_it_does_not_count(connection: psycopg.Connection[Any]) -> None:
    connection.execute("analyze job")
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute(STATEMENTS.census, [["mail"], 1000, 200, 1024, 3])
        found = {(row[0], row[1]): (row[2], row[3]) for row in cursor.fetchall() if row[1] is not None}
    done, exact = found["mail", "done"]
    assert not exact
    assert abs(done - TERMINAL * 48 / 50) < TERMINAL * 0.05
    assert found["foreign", "pending"][1] is False
    assert abs(found["foreign", "pending"][0] - FOREIGN) < FOREIGN * 0.1
    assert found["mail", "processing"] == (HELD + EXPIRED, True)


@pytest.mark.parametrize("statement", ["exchange", "claim_topic", "renew"])
@pytest.mark.parametrize("analyzed", [False, True], ids=["never analyzed", "analyzed while empty"])
async def test_a_plan_from_when_the_table_was_small_does_not_walk_what_came_afterwards(
    postgres: Server, statement: str, *, analyzed: bool
) -> None:
    """Plans are kept for as long as the statistics stay: on an engine's own connection they are made for any size."""

    def run(held: Sequence[UUID]) -> str:
        asked = {
            "exchange": [*outcomes(held), ["mail"], ASKED, LEASE, *UNMARKED],
            "claim_topic": ["me", "mail", ASKED, LEASE],
            "renew": ["me", list(held), [1] * len(held), LEASE],
        }[statement]
        return f"execute {statement} ({sql.SQL(', ').join(map(sql.Literal, asked)).as_string()})"

    with postgres.database(migrated=True) as dsn, psycopg.connect(dsn, autocommit=True) as other:
        other.execute("alter table job set (autovacuum_enabled = off)")
        if analyzed:
            other.execute("vacuum analyze job")
        async with open_pool(dsn, min_size=0) as pool:
            store = PostgresStore(pool)

            async def grow(session: Session) -> Any:
                await session.execute("set plan_cache_mode = force_generic_plan")
                await session.execute(f"prepare {statement} as {getattr(STATEMENTS, statement)}")
                await session.fetch(run([]), prepare=False)
                other.execute("insert into job (topic) select 'mail' from generate_series(1, 20000)")
                other.execute(
                    "insert into job (topic, state, locked_by, locked_until, claim_seq, attempts)"
                    " select 'mail', 'processing', 'me', now() + interval '1 hour', 1, 1 from generate_series(1, %s)",
                    [ASKED],
                )
                held = ids(other, "state = 'processing'", ASKED)
                return await session.fetch(f"explain (analyze, buffers, format json) {run(held)}", prepare=False)

            try:
                ((found,),) = await store._on_lane(grow, within=60.0)
            finally:
                await store.close()
        plan = found if isinstance(found, list) else json.loads(found)
        check(plan[0]["Plan"], locked=ASKED, buffers=200 + 60 * ASKED)
