"""`brooq doctor`: every trouble is made on a real PostgreSQL, and found; and without it there is nothing to find."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.pooler import Pooler
from tests.postgres.roles import place
from tests.recovery.standby import make_standby
from tests.service.brooq_process import brooq as process
from tests.service.brooq_process import inside as brooq
from tests.tools import faketime

from brooq import Job
from brooq.postgres import PostgresStore, migrate, open_pool
from brooq.postgres.local import LocalPostgres
from brooq.service.doctor.cleaning import INDEXES

SICK: dict[str, str | int | bool] = {
    "fsync": False, "full_page_writes": False, "synchronous_commit": False, "autovacuum": False, "shared_buffers": "32MB",
    "max_connections": 20, "max_wal_senders": 4, "max_replication_slots": 4, "hot_standby": True,
}  # fmt: skip


def execute(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def examined(dsn: str, *options: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """What the doctor found, by its name; the exit code goes with it, and a person reads the same."""
    done = brooq("doctor", "--json", *options, dsn=dsn, **settings)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = any(each["severity"] == "wrong" for each in found)
    assert done.returncode == int(wrong), done.stderr
    for each in found:
        assert (each["remedy"] != "") == (each["severity"] != "ok")
        assert (each["name"] == "ok") == (each["severity"] == "ok")
    return {f"{each['check']} is ok" if each["name"] == "ok" else each["name"]: each for each in found}


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def session(dsn: str, *statements: str, **connect: Any) -> Iterator[psycopg.Connection[Any]]:
    """A session that has done this, and stays where it is."""
    with psycopg.connect(dsn, autocommit=True, **connect) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection


@pytest.fixture(scope="module")
def sick() -> Iterator[LocalPostgres]:
    """A server of one's own, set up as nobody should."""
    folder = Path(tempfile.mkdtemp(prefix="brooq-", dir="/tmp"))
    try:
        with LocalPostgres(folder / "pg", settings=SICK) as local:
            migrate.up(local.dsn)
            yield local
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def burn(dsn: str, transactions: int) -> None:
    """Use up transaction ids."""
    execute(
        dsn, f"do $$ begin for n in 1 .. {transactions} loop perform pg_current_xact_id(); commit; end loop; end $$"
    )


# --- nothing is wrong ---


def test_a_sound_database_has_nothing_but_what_this_server_is_set_to(dsn: str) -> None:
    found = examined(dsn)
    # The tests' server is not durable, and nobody works.
    expected = {"fsync", "full_page_writes", "synchronous_commit", "workers_none"}
    assert {name for name in found if not name.endswith("is ok")} <= expected
    for check in ("server", "schema", "rights", "session", "clock", "pooler", "horizon", "vacuum", "indexes", "jobs"):
        assert f"{check} is ok" in found


# --- the server ---


def test_a_server_that_forgets_in_a_crash_and_never_cleans(sick: LocalPostgres) -> None:
    found = examined(sick.dsn)
    assert {"fsync", "full_page_writes", "synchronous_commit", "autovacuum_off"} <= set(found)
    assert found["fsync"]["severity"] == "wrong"
    assert found["synchronous_commit"]["severity"] == "note"
    execute(
        sick.dsn, "alter system set autovacuum = on", "alter system set track_counts = off", "select pg_reload_conf()"
    )
    try:
        until(lambda: execute(sick.dsn, "show track_counts") == [("off",)])
        assert "track_counts_off" in examined(sick.dsn)
    finally:
        execute(sick.dsn, "alter system reset autovacuum", "alter system reset track_counts", "select pg_reload_conf()")


@pytest.mark.parametrize(
    ("setting", "value", "name", "severity"),
    [
        ("synchronous_commit", "off", "synchronous_commit", "note"),
        ("synchronous_commit", "local", "synchronous_commit", "note"),
        ("default_transaction_isolation", "serializable", "isolation", "note"),
        ("default_transaction_read_only", "on", "server_read_only", "wrong"),
        ("statement_timeout", "900ms", "timeout_short", "note"),
        ("idle_session_timeout", "5min", "timeout_idle", "note"),
    ],
)
def test_a_setting_of_the_role(dsn: str, setting: str, value: str, name: str, severity: str) -> None:
    with place(dsn, "public") as made:
        login = made.login("ada", "worker", "janitor")
        role = psycopg.conninfo.conninfo_to_dict(login)["user"]
        change = sql.SQL("alter role {} set {} = {}")
        changed = change.format(sql.Identifier(str(role)), sql.Identifier(setting), sql.Literal(value))
        before = examined(login)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(changed)
        found = examined(login)
    assert found[name]["severity"] == severity
    if setting != "synchronous_commit":
        assert name not in before


def test_a_standby_and_what_it_holds_back(sick: LocalPostgres) -> None:
    """A query there keeps rows here, with feedback on; a slot that nobody reads keeps them for ever."""
    folder = Path(tempfile.mkdtemp(prefix="brooq-", dir="/tmp"))
    feedback = SICK | {"hot_standby_feedback": True, "wal_receiver_status_interval": "1s", "autovacuum": False}
    try:
        with make_standby(sick, folder / "pg", feedback) as standby:
            assert "server_standby" in examined(standby.dsn)
            with session(standby.dsn, "begin isolation level repeatable read", "select count(*) from job"):
                until(lambda: execute(sick.dsn, "select pid from pg_stat_replication where backend_xmin is not null"))
                assert "horizon_standby" not in examined(sick.dsn)
                burn(sick.dsn, 101_000)
                found = examined(sick.dsn)["horizon_standby"]
        assert found["severity"] == "note"
        assert found["values"]["age"] > 100_000
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_slot_that_nobody_reads(sick: LocalPostgres) -> None:
    execute(sick.dsn, "select pg_create_physical_replication_slot('forgotten', true)")
    try:
        found = examined(sick.dsn)["horizon_slot_idle"]
    finally:
        execute(sick.dsn, "select pg_drop_replication_slot('forgotten')")
    assert (found["severity"], found["values"]["name"]) == ("wrong", "forgotten")
    assert "pg_drop_replication_slot('forgotten')" in found["remedy"]
    assert "horizon_slot_idle" not in examined(sick.dsn)


def test_a_table_that_nobody_freezes(sick: LocalPostgres) -> None:
    execute(sick.dsn, "alter table job set (autovacuum_freeze_max_age = 100000)")
    try:
        burn(sick.dsn, 151_000)
        found = examined(sick.dsn)["wraparound"]
        execute(sick.dsn, "vacuum (freeze) job")
        assert "wraparound is ok" in examined(sick.dsn)
    finally:
        execute(sick.dsn, "alter table job reset (autovacuum_freeze_max_age)")
    assert (found["severity"], found["values"]["name"], found["values"]["freeze_at"]) == ("note", "job", 100_000)


# --- who keeps dead rows ---


def test_a_transaction_that_somebody_has_forgotten(dsn: str) -> None:
    begun = ["begin isolation level repeatable read", "select 'hunter2', topic from job where attempts = 4711"]
    with session(dsn, *begun, application_name="nightly report") as connection:
        assert "horizon is ok" in examined(dsn)
        found = examined(dsn, "--patience", "0s")["horizon_session"]
        spoken = brooq("doctor", "--patience", "0s", dsn=dsn).stdout
        pid = connection.info.backend_pid
    assert found["severity"] == "wrong"
    assert (found["values"]["pid"], found["values"]["name"]) == (pid, "nightly report")
    assert found["values"]["statement"] == "select ?, topic from job where attempts = ?"
    assert found["values"]["state"] == "idle in transaction"
    assert f"pg_terminate_backend({pid})" in spoken
    assert "hunter2" not in spoken
    assert "4711" not in spoken
    assert "horizon is ok" in examined(dsn, "--patience", "0s")


def test_a_prepared_transaction(dsn: str) -> None:
    with session(dsn, "begin", "insert into job (topic) values ('t')", "prepare transaction 'left behind'"):
        pass
    try:
        assert "horizon is ok" in examined(dsn)
        found = examined(dsn, "--patience", "0s")["horizon_prepared"]
    finally:
        execute(dsn, "rollback prepared 'left behind'")
    assert (found["severity"], found["values"]["name"]) == ("wrong", "left behind")
    assert "ROLLBACK PREPARED 'left behind'" in found["remedy"]


def test_a_role_that_cannot_see_others_is_told_so(dsn: str) -> None:
    with place(dsn, "public") as made:
        viewer = made.login("eve", "viewer")
        with session(dsn, "begin isolation level repeatable read", "select from job"):
            found = examined(viewer, "--patience", "0s")
    assert found["horizon_blind"]["severity"] == "note"
    assert "horizon_session" not in found


def test_dead_rows_that_nobody_cleans(dsn: str) -> None:
    execute(
        dsn,
        "alter table job set (autovacuum_enabled = off)",
        "insert into job (topic, available_at) select 't', now() + interval '1 day' from generate_series(1, 12000)",
        "update job set metadata = '{}'",
    )
    until(
        lambda: execute(dsn, "select n_dead_tup >= 12000 from pg_stat_user_tables where relname = 'job'") == [(True,)]
    )
    found = examined(dsn)
    assert found["autovacuum_table_off"]["severity"] == "wrong"
    assert (found["dead_rows"]["severity"], found["dead_rows"]["values"]["dead"]) == ("wrong", 12000)
    execute(dsn, "alter table job reset (autovacuum_enabled)", "vacuum job")
    until(lambda: "vacuum is ok" in examined(dsn))


def test_indexes_that_are_no_good(dsn: str) -> None:
    execute(dsn, "insert into job (topic) values ('same'), ('same')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(dsn, "create unique index concurrently one_a_topic on job (topic)")
    execute(dsn, "drop index job_held", "drop index job_terminal")
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(dsn, "create unique index concurrently job_terminal on job (topic)")
    found = examined(dsn)
    assert found["index_missing"]["values"]["name"] == "job_held"
    assert "DROP INDEX CONCURRENTLY one_a_topic" in found["index_foreign_invalid"]["remedy"]
    assert "REINDEX INDEX CONCURRENTLY job_terminal" in found["index_invalid"]["remedy"]


def test_the_indexes_that_are_asked_for_are_those_of_the_migrations(dsn: str) -> None:
    found = execute(dsn, "select indexname from pg_indexes where schemaname = 'public' and tablename = 'job'")
    assert {name for (name,) in found} == INDEXES


def test_an_index_that_has_grown_and_stayed_so(dsn: str) -> None:
    execute(
        dsn,
        "alter table job set (autovacuum_enabled = off)",
        "insert into job (topic) select 'crowd' from generate_series(1, 180000)",
        "analyze job",
    )
    assert "index_bloat" not in examined(dsn), "as large as it has to be"
    execute(
        dsn, "delete from job", "insert into job (topic) select 't' from generate_series(1, 100)", "vacuum analyze job"
    )
    found = examined(dsn)["index_bloat"]
    assert found["severity"] == "note"
    assert found["values"]["bytes"] > 4 * found["values"]["usual_bytes"]
    execute(dsn, "reindex table job")
    assert "index_bloat" not in examined(dsn)


# --- how one gets there ---


def test_a_pooler_by_transactions_and_one_by_sessions(dsn: str, tmp_path: Path) -> None:
    with Pooler(dsn, tmp_path) as pooler:
        found = examined(pooler.dsn)
        assert found["pooler_prepared"]["severity"] == "wrong"
        assert examined(pooler.dsn, QUEUE_PREPARED="off")["pooler_transaction"]["severity"] == "note"
        # Nothing is left behind in the sessions of the server, which belong to everybody.
        with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=None) as connection:
            left = connection.execute("select name from pg_prepared_statements where name like 'brooq%'").fetchall()
        assert left == []
    by_session = Pooler(dsn, tmp_path)
    file = tmp_path / "pgbouncer.ini"
    file.write_text(file.read_text().replace("pool_mode = transaction", "pool_mode = session"))
    with by_session as pooler:
        assert examined(pooler.dsn)["pooler_session"]["severity"] == "note"


def test_clocks_that_differ(dsn: str, tmp_path: Path) -> None:
    for offset, name, severity in (("+90s", "clock_behind", "wrong"), ("-10s", "clock_ahead", "note")):
        wrong: dict[str, Any] = {**faketime(offset)}
        done = process("doctor", "--json", dsn=dsn, cwd=tmp_path, **wrong)
        found = {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}
        assert found[name]["severity"] == severity, done.stdout + done.stderr
        assert abs(abs(found[name]["values"]["seconds"]) - int(offset[1:-1])) < 2


def test_connections_near_their_limit(dsn: str) -> None:
    with place(dsn, "public") as made:
        login = made.login("ada", "worker", "janitor")
        role = str(psycopg.conninfo.conninfo_to_dict(login)["user"])
        with psycopg.connect(dsn, autocommit=True) as connection, session(login), session(login), session(login):
            limit = sql.SQL("alter role {} connection limit {}")
            connection.execute(limit.format(sql.Identifier(role), sql.Literal(5)))
            assert examined(login)["connections_role"]["severity"] == "note"
            connection.execute(limit.format(sql.Identifier(role), sql.Literal(4)))
            found = examined(login)["connections_role"]
            connection.execute(limit.format(sql.Identifier(role), sql.Literal(-1)))
            name = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]))
            connection.execute(sql.SQL("alter database {} connection limit 6").format(name))
            assert "connections_database" in examined(login)
    assert (found["severity"], found["values"]["used"], found["values"]["limit"]) == ("wrong", 4, 4)


# --- schema, rights, jobs ---


def test_a_schema_that_is_missing_old_new_or_closed(empty_dsn: str) -> None:
    assert examined(empty_dsn)["schema_missing"]["remedy"].startswith("brooq migrate up")
    migrate.up(empty_dsn)
    assert "schema is ok" in examined(empty_dsn)
    execute(empty_dsn, "insert into brooq_migration (version, name, checksum) values (999, 'later', 'x')")
    assert examined(empty_dsn)["schema_new"]["values"]["version"] == 999
    execute(empty_dsn, "delete from brooq_migration where version > 3")
    assert examined(empty_dsn)["schema_old"]["values"]["version"] == 3
    with place(empty_dsn, "closed") as made:
        stranger = made.login("mallory")
        found = examined(stranger, QUEUE_SCHEMA="closed")
    assert found["schema_closed"]["severity"] == "wrong"
    assert "rights is ok" not in found


@pytest.mark.parametrize(
    ("members", "spoil", "name", "part"),
    [
        (("worker", "janitor"), "", "rights is ok", ""),
        (("producer",), "", "rights is ok", ""),
        (("viewer",), "", "rights is ok", ""),
        (("janitor",), "", "rights is ok", ""),
        (("worker",), "", "rights_retention", ""),
        (("worker",), "revoke update (last_error) on jobs.job from {}", "rights_half", "update (last_error) on job"),
        (("producer",), "revoke insert (tags) on jobs.job from {}", "rights_half", "insert (tags) on job"),
        (("worker",), "revoke all on jobs.job from {}", "rights_none", "update (state, attempts"),
    ],
)  # fmt: skip
def test_rights_that_are_missing(empty_dsn: str, members: tuple[str, ...], spoil: str, name: str, part: str) -> None:
    with place(empty_dsn) as made:
        login = made.login("ada", *members)
        if spoil:
            made.ask(spoil.format(getattr(made.roles, members[0])))
        found = examined(login, QUEUE_SCHEMA="jobs")
    assert name in found
    assert part in found[name]["message"]
    assert (found[name]["severity"] == "wrong") == (name in ("rights_half", "rights_none"))


async def test_a_job_that_its_workers_die_of_and_leases_that_nobody_takes_back(dsn: str) -> None:
    async with open_pool(dsn) as pool:
        store = PostgresStore(pool)
        await store.enqueue(None, [Job("deadly")])
        for _ in range(3):
            assert (await store.exchange("w", [], ["deadly"], 1, timedelta(milliseconds=1))).taken
            while not await store.reap(10):
                pass
        await store.enqueue(None, [Job("held")])
        assert (await store.exchange("w", [], ["held"], 1, timedelta(milliseconds=1))).taken
        await store.close()
    found = await asyncio.to_thread(examined, dsn, "--patience", "0s")
    assert (found["pill"]["severity"], found["pill"]["values"]["topic"]) == ("wrong", "deadly")
    assert found["pill"]["values"]["attempts"] == 3
    assert found["expired_leases"]["values"]["count"] == 1


def test_a_topic_that_nobody_works_on(dsn: str) -> None:
    execute(dsn, "insert into job (topic, available_at) values ('left.alone', now() - interval '1 hour')",
            "insert into job (topic, available_at) values ('later', now() + interval '1 hour')",
            "insert into job (topic, available_at) values ('on.purpose', now() - interval '2 hours')")  # fmt: skip
    assert brooq("pause", "on.purpose", dsn=dsn).returncode == 0
    found = examined(dsn)
    assert (found["topic_abandoned"]["severity"], found["topic_abandoned"]["values"]["topic"]) == (
        "wrong",
        "left.alone",
    )
    assert "workers_none" in found
    spoken = brooq("doctor", dsn=dsn).stdout
    assert ("left.alone" in spoken, "on.purpose" in spoken, "later" in spoken) == (True, False, False)


def test_without_a_database_it_says_so(tmp_path: Path) -> None:
    done = brooq("doctor", dsn="postgresql://user:canary@127.0.0.1:1/x", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot reach" in done.stderr or "127.0.0.1" in done.stderr
    assert "canary" not in done.stderr
    assert brooq("doctor", "--patience", "-1s", cwd=tmp_path).returncode == 2
