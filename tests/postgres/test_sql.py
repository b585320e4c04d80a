"""Jobs from SQL: a plain INSERT, the function `brooq_enqueue`, and the ids that the database makes (requirement E9)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from tests.postgres.observer import Observer, Opened

from brooq import Enqueued, Job, State
from brooq.engine.outcome import Outcome
from brooq.postgres.statement import statements

LEASE = timedelta(seconds=30)


async def test_topic_and_payload_are_enough_for_an_insert(dsn: str, observer: Observer) -> None:
    """The defaults fill the rest, and a worker takes it like any other job."""
    (row,) = observer.run("insert into job (topic, payload) values ('email.send', '{\"to\": \"a\"}') returning id")
    async with Opened(dsn) as store:
        record = await store.find(row[0])
        assert record is not None
        assert (record.state, record.attempts, record.claim_seq, record.priority) == (State.PENDING, 0, 0, 0)
        assert (record.idempotency_key, record.max_attempts, record.failures, record.tags) == ("", None, (), ())
        (taken,) = (await store.exchange("w", [], ["email.send"], 1, LEASE)).taken
        assert (taken.id, taken.attempt) == (row[0], 1)
        outcome = Outcome(taken.id, taken.token, State.DONE)
        assert (await store.exchange("w", [outcome], [], 0, LEASE)).settled == [taken.hold]
    assert observer.run("insert into job (topic) values ('t') returning payload, priority") == [(None, 0)]


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "0001-01-01 00:00:00+00 BC", "10000-01-01"])
async def test_a_moment_that_no_program_could_read_back_is_refused(observer: Observer, moment: LiteralString) -> None:
    """A row ready since minus infinity would spoil every claim of its topic."""
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        observer.run("insert into job (topic, available_at) values ('t', %s::timestamptz)", moment)
    assert caught.value.diag.constraint_name == "job_available_at_check"


async def test_jobs_of_both_worlds_share_their_keys(dsn: str, observer: Observer) -> None:
    (by_hand,) = observer.run("select id, created from brooq_enqueue('t', '1', 'k')")
    async with Opened(dsn) as store:
        assert await store.enqueue(None, [Job("t", 2, "k")]) == [Enqueued(by_hand[0], False)]
        (answer,) = await store.enqueue(None, [Job("t", 2, "other")])
    assert observer.run("select id, created from brooq_enqueue('t', '1', 'other')") == [(answer.id, False)]


def test_the_function_answers_id_and_whether_it_made_the_row(observer: Observer) -> None:
    call: LiteralString = (
        "select id, created from"
        " brooq_enqueue('t', '{\"a\": 1}', idempotency_key => 'k', available_at => %s, priority => 3)"
    )
    later = datetime(2090, 1, 1, tzinfo=UTC)
    ((id, created),) = observer.run(call, later)
    assert created
    assert observer.run(call, later) == [(id, False)]
    assert observer.run("select id, payload, idempotency_key, available_at, priority from job") == [
        (id, {"a": 1}, "k", later, 3)
    ]


def test_the_functions_defaults_are_those_of_the_table(observer: Observer) -> None:
    """Nulls and the empty key included: triggers pass what they have."""
    for call in ("brooq_enqueue('t')", "brooq_enqueue('t', null, '', null)", "brooq_enqueue('t', null, '', null)"):
        assert observer.run("select created from " + call) == [(True,)]
    assert observer.run("select distinct payload, idempotency_key, priority from job") == [(None, None, 0)]
    assert observer.value("select bool_and(available_at = created_at) from job")


@pytest.mark.parametrize(
    "call",
    [
        "brooq_enqueue('Not A Topic')",
        "brooq_enqueue('t', priority => 10)",
        "brooq_enqueue('t', '1', repeat('x', 1025))",
    ],
)
def test_the_function_refuses_what_the_table_refuses(observer: Observer, call: LiteralString) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        observer.run("select * from " + call)
    assert observer.value("select count(*) from job") == 0


def test_a_trigger_enqueues_with_its_row_or_not_at_all(observer: Observer) -> None:
    """Whatever search_path the trigger's own session has."""
    observer.run("create schema elsewhere")
    observer.run("create table elsewhere.orders (id int primary key)")
    observer.run("""
        create function elsewhere.announce() returns trigger language plpgsql as $$
        begin
            perform public.brooq_enqueue('order.made', jsonb_build_object('order', new.id), 'order ' || new.id);
            return new;
        end $$""")
    observer.run("create trigger announce after insert on elsewhere.orders"
                 " for each row execute function elsewhere.announce()")  # fmt: skip
    with psycopg.connect(observer.dsn) as connection:
        connection.execute("set search_path = elsewhere")
        connection.execute("insert into orders select n from generate_series(1, 3) as n")
        connection.commit()
        connection.execute("insert into orders values (4)")
        connection.rollback()
    assert observer.run("select payload from job order by id") == [({"order": n},) for n in (1, 2, 3)]


@pytest.mark.fault(18)
def test_twenty_callers_of_one_key_make_one_row(dsn: str, observer: Observer) -> None:
    """Fault 18, for the function: each in a session of its own, all let go at once."""
    callers = 20
    answers: list[tuple[UUID, bool]] = []
    barrier = threading.Barrier(callers)

    def call() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            barrier.wait(timeout=30)
            row: Any = connection.execute("select id, created from brooq_enqueue('t', '1', 'k')").fetchone()
            answers.append(row)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == callers
    assert len({id for id, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1


@pytest.mark.fault(18)
@pytest.mark.parametrize("commits", [True, False])
def test_the_function_waits_for_a_rival_and_answers_what_came_of_it(
    dsn: str, observer: Observer, commits: bool
) -> None:
    """Fault 18 (a) and (b), for the function."""
    found: list[tuple[Any, ...]] = []
    with psycopg.connect(dsn) as rival:
        first: Any = rival.execute("select id from brooq_enqueue('t', '1', 'k')").fetchone()
        thread = threading.Thread(
            target=lambda: found.extend(observer.run("select id, created from brooq_enqueue('t', '2', 'k')"))
        )
        thread.start()
        watcher = Observer(dsn)
        for _ in waiting_for(watcher):
            assert thread.is_alive()
        watcher.close()
        if commits:
            rival.commit()
        else:
            rival.rollback()
        thread.join(timeout=30)
    ((id, created),) = found
    assert created is not commits
    assert (id == first[0]) is commits
    assert observer.run("select payload from job") == [(1 if commits else 2,)]


def waiting_for(watcher: Observer) -> Iterator[None]:
    """Until a session of this database waits for a lock."""
    query: LiteralString = (
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    while not watcher.run(query):
        yield


def test_ids_made_by_the_database_are_uuids_of_version_7(observer: Observer) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    ids = [row[0] for row in observer.run("select brooq_uuid7() from generate_series(1, 2000)")]
    after = datetime.now(UTC) + timedelta(milliseconds=2)
    assert len(set(ids)) == len(ids)
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}
    times = [datetime.fromtimestamp((id.int >> 80) / 1000, UTC) for id in ids]
    assert min(times) >= before
    # The server's own generator may run ahead by a fraction of a millisecond to keep its order, never by more.
    assert max(times) <= after


def test_ids_of_later_statements_are_greater(observer: Observer) -> None:
    """Requirement G4.10: ties in readiness are taken in the order of enqueueing, for jobs made by hand too."""
    ids = [observer.value("insert into job (topic) values ('t') returning id") for _ in range(200)]
    assert ids == sorted(ids)
    mixed = [Job("t").id, observer.value("select brooq_uuid7()")]
    assert abs((mixed[0].int >> 80) - (mixed[1].int >> 80)) < 1000, "one clock, one form, whoever made it"


async def test_a_job_alone_is_written_as_among_others(dsn: str, observer: Observer) -> None:
    """Two statements write jobs: of the same jobs they make the same rows."""
    later = datetime.now(UTC) + timedelta(hours=1)
    wanted: list[dict[str, Any]] = [
        {"payload": None},
        {"payload": {"to": ["a@example.org", 1.5]}, "available_at": later, "priority": 9},
        {"payload": "x", "tags": ("urgent", "a b"), "metadata": {"by": "me"}, "max_attempts": 3},
    ]
    async with Opened(dsn) as store:
        for each in wanted:
            assert await store.enqueue(None, [Job("alone", idempotency_key="k", **each)]) is not None
            observer.run("update job set idempotency_key = null where topic = 'alone'")
        await store.enqueue(None, [Job("others", **each) for each in wanted])
    rows = {
        topic: observer.run(
            "select payload, state, priority, attempts, max_attempts, nullif(available_at, created_at), tags, metadata"
            " from job where topic = %s order by id",
            topic,
        )
        for topic in ("alone", "others")
    }
    assert rows["alone"] == rows["others"]
    assert rows["alone"][1][5] == later


def test_the_statements_that_enqueue_say_the_same() -> None:
    """One of each leaves out what is not needed without keys; all else must stay alike."""

    def body(statement: str) -> str:
        return "\n".join(line for line in statement.splitlines() if not line.startswith("--"))

    found = statements("public")
    for careful, *others in (
        (found.enqueue, found.enqueue_new, found.enqueue_keyed), (found.enqueue_one, found.enqueue_one_new)
    ):  # fmt: skip
        bare = {re.sub(r" *on conflict .*do nothing\n", "", body(each)) for each in (careful, *others)}
        assert len(bare) == 1
        assert len({body(each) for each in (careful, *others)}) == 1 + len(others)


@pytest.mark.parametrize("outcomes", [0, 1])
def test_a_claim_is_durable_where_the_session_does_not_wait_for_commits(outcomes: int, observer: Observer) -> None:
    """Requirement G5: a claim that a crash takes back would give its number away once more."""
    ids = [row[0] for row in observer.run("insert into job (topic) select 't' from generate_series(1, 3) returning id")]
    with psycopg.connect(observer.dsn) as connection, psycopg.RawCursor(connection) as cursor:
        cursor.execute("set local synchronous_commit = off")
        written = [ids[:outcomes], [1] * outcomes, [], [], [], []]
        cursor.execute(statements("public").exchange, ["w", *written, ["t"], 1, LEASE, [], [], [], [], []])
        assert cursor.fetchone() is not None
        assert cursor.execute("show synchronous_commit").fetchall() == [("on",)]
