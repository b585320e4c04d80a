"""The audit: what it writes down, who may touch it, how it comes and goes."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from tests.postgres.observer import Observer, Opened

from brooq import Job, SchemaError, State
from brooq.engine.outcome import Outcome
from brooq.postgres import audit, migrate
from brooq.postgres.audit.history import History, plain

LEASE = timedelta(seconds=30)
WRITTEN: LiteralString = "select op, old_state, state, claim_seq, attempts from public_audit.change order by seq"


@pytest.fixture
def audited(dsn: str) -> str:
    assert audit.install(dsn)
    return dsn


async def test_every_change_of_a_job_is_written_down_in_its_order(audited: str, observer: Observer) -> None:
    async with Opened(audited) as store:
        ((id, _),) = await store.enqueue(None, [Job("t", 1, "k")])
        (taken,) = (await store.exchange("w", [], ["t"], 1, LEASE)).taken
        await store.exchange("w", [Outcome(taken.id, taken.token, State.DONE)], [], 0, LEASE)
        assert await store.prune(timedelta(microseconds=1), 10) == ["t"]
    assert observer.run(WRITTEN) == [
        ("INSERT", None, "pending", 0, 0),
        ("UPDATE", "pending", "processing", 1, 1),
        ("UPDATE", "processing", "done", 1, 1),
        ("DELETE", "done", None, None, None),
    ]
    whose = observer.run("select distinct job_id, actor, topic from public_audit.change")
    assert whose == [(id, "brooq", "t")]
    assert observer.run("select idempotency_key from public_audit.change order by seq") == [
        ("k",),
        (None,),
        (None,),
        ("k",),
    ]


async def test_what_is_rolled_back_leaves_nothing(audited: str, observer: Observer) -> None:
    async with Opened(audited) as store:
        tx = await store.begin()
        await store.enqueue(tx, [Job("t")])
        await tx.rollback()
    assert observer.run(WRITTEN) == []


def test_emptying_the_table_is_written_down(audited: str, observer: Observer) -> None:
    observer.run("truncate job")
    assert observer.run(WRITTEN) == [("TRUNCATE", None, None, None, None)]


@pytest.mark.parametrize("table", ["change", "effect"])
@pytest.mark.parametrize("statement", ["update {} set at = now()", "delete from {}", "truncate {}"])
def test_nobody_rewrites_the_audit(
    audited: str, observer: Observer, statement: LiteralString, table: LiteralString
) -> None:
    """Not even its owner, nor a session that says it replays a replica's changes."""
    observer.run("insert into job (topic) values ('t')")
    observer.run("insert into public_audit.effect (job_id, claim_seq) select id, 1 from job")
    for role in ("origin", "replica"):
        observer.run(sql.SQL("set session_replication_role = {}").format(sql.Literal(role)))
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            observer.run(sql.SQL(statement).format(sql.Identifier("public_audit", table)))
    observer.run("reset session_replication_role")
    assert len(observer.run(WRITTEN)) == 1


def test_a_role_without_any_right_on_the_audit_is_audited(audited: str, observer: Observer) -> None:
    """And a table of its own in front of the search path catches nothing."""
    role = sql.Identifier(f"brooq_audited_{observer.value('select current_database()')}")
    try:
        observer.run(sql.SQL("create role {}").format(role))
        observer.run(sql.SQL("grant all on job to {}").format(role))
        observer.run(sql.SQL("create schema own authorization {}").format(role))
        observer.run(sql.SQL("set role {}").format(role))
        observer.run("create table own.change (seq int, job_id uuid)")
        observer.run("set search_path = own, public")
        observer.run("insert into public.job (topic) values ('t')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            observer.run("select * from public_audit.change")
        observer.run("reset role")
        assert observer.value("select count(*) from own.change") == 0
        assert len(observer.run(WRITTEN)) == 1
    finally:
        observer.run("reset role")
        observer.run(sql.SQL("drop owned by {}").format(role))
        observer.run(sql.SQL("drop role {}").format(role))


def test_it_comes_once_and_goes_without_a_trace(dsn: str, observer: Observer) -> None:
    names: LiteralString = """
        select tgname::text from pg_trigger where not tgisinternal
        union all select nspname::text from pg_namespace where nspname like '%audit%'"""
    before = observer.run(names)
    assert audit.install(dsn)
    assert observer.run(names) != before
    assert not audit.install(dsn)
    observer.run("insert into job (topic) values ('t')")
    assert audit.uninstall(dsn)
    assert not audit.uninstall(dsn)
    assert observer.run(names) == before
    observer.run("insert into job (topic) values ('t')")
    assert observer.value("select count(*) from job") == 2
    assert audit.install(dsn)


def test_many_installers_at_once_install_it_once(dsn: str) -> None:
    answers: list[bool] = []
    barrier = threading.Barrier(5)

    def run() -> None:
        barrier.wait(timeout=30)
        answers.append(audit.install(dsn))

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 4 + [True]


def test_other_schemas_of_jobs_and_audit(empty_dsn: str) -> None:
    migrate.up(empty_dsn, "Shop's jobs")
    assert audit.install(empty_dsn, "Shop's jobs", "watch % tower")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("""insert into "Shop's jobs".job (topic) values ('t')""")
        assert connection.execute('select op from "watch % tower".change').fetchall() == [("INSERT",)]
    with History.open(empty_dsn, "Shop's jobs", "watch % tower") as history:
        ((_, lines),) = history.jobs()
        assert [line.op for line in lines] == ["INSERT", "NOW"]
    assert audit.uninstall(empty_dsn, "Shop's jobs", "watch % tower")


def test_without_a_table_of_jobs_there_is_nothing_to_watch(empty_dsn: str) -> None:
    with pytest.raises(SchemaError, match="brooq migrate up"):
        audit.install(empty_dsn)


def test_without_an_audit_there_is_nothing_to_read(dsn: str) -> None:
    with pytest.raises(SchemaError, match="verify --install"), History.open(dsn):
        pytest.fail("opened")


def test_a_job_table_that_is_taken_back_takes_its_trigger_along(audited: str) -> None:
    migrate.down(audited, steps=100)
    migrate.up(audited)
    assert audit.uninstall(audited)
    assert audit.install(audited)


def test_values_come_back_as_they_were(audited: str, observer: Observer) -> None:
    key: Any = "tab\t line\n back\\slash \\N \r\b\f\v я"
    observer.run("insert into job (topic, idempotency_key) values ('t', %s), ('t', %s)", key, "\\N")
    with History.open(audited) as history:
        keys = [line.idempotency_key for _, lines in history.jobs() for line in lines if line.op == "INSERT"]
    assert sorted(plain(each or "") for each in keys) == sorted([key, "\\N"])


def test_the_stream_is_one_moment(audited: str, observer: Observer) -> None:
    """A job that is changed while the audit is read is read as it was."""
    observer.run("insert into job (topic) select 't' from generate_series(1, 3)")
    with History.open(audited) as history:
        observer.run("update job set state = 'canceled'")
        observer.run("insert into job (topic) values ('t')")
        found = [[line.op for line in lines] for _, lines in history.jobs()]
    assert found == [["INSERT", "NOW"]] * 3
