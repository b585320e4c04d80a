"""Migrations on a real server: order, locks, checksums, schemas, and what is left after a failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from brooq.postgres import migrate, migration
from brooq.postgres.migrate import MigrationStatus
from brooq.vocabulary.error import ConfigError, SchemaError, StoreUnavailable

FIRST = """\
-- A comment above everything.
-- +goose Up
-- migrate:up
create table apple (id int);
-- +goose StatementBegin
do $$
begin
    insert into apple values (1);
    insert into apple values (2);
end
$$;
-- +goose StatementEnd

-- +goose Down
-- migrate:down
drop table apple;
"""

SECOND = """\
-- +goose NO TRANSACTION
-- +goose Up
-- migrate:up transaction:false
drop index concurrently if exists apple_id;
create index concurrently apple_id on apple (id); -- may take long;
-- +goose Down
-- migrate:down transaction:false
drop index concurrently if exists apple_id;
"""

THIRD = """\
-- +goose Up
alter table apple add column name text;
-- +goose Down
alter table apple drop column name;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "migrations"
    place.mkdir()
    (place / "00001_apple.sql").write_text(FIRST)
    (place / "00002_index.sql").write_text(SECOND)
    (place / "00003_name.sql").write_text(THIRD)
    (place / "README.md").write_text("not a migration")
    return place


def up(
    dsn: str, folder: Path, schema: str = "public", to: int | None = None, patience: float = 60
) -> list[MigrationStatus]:
    with migrate.Migrator.open(dsn, schema, patience, folder) as migrator:
        return migrator.up(to)


def down(dsn: str, folder: Path, schema: str = "public", steps: int = 1) -> list[MigrationStatus]:
    with migrate.Migrator.open(dsn, schema, 60, folder) as migrator:
        return migrator.down(steps)


def status(dsn: str, folder: Path, schema: str = "public") -> list[MigrationStatus]:
    with migrate.Migrator.open(dsn, schema, 60, folder) as migrator:
        return migrator.status()


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def objects(dsn: str) -> set[tuple[Any, ...]]:
    """Everything that somebody made in the database."""
    return set(
        rows(
            dsn,
            """
            select 'relation', relname from pg_class where oid >= 16384 and relname !~ '^pg_'
            union all select 'function', proname from pg_proc where oid >= 16384
            union all select 'type', typname from pg_type where oid >= 16384 and typname !~ '^_?pg_'
            union all select 'statistics', stxname from pg_statistic_ext
            union all select 'schema', nspname from pg_namespace where oid >= 16384
            """,
        )
    )


def test_up_applies_everything_once_and_in_order(empty_dsn: str, folder: Path) -> None:
    applied = up(empty_dsn, folder)
    assert [(each.version, each.name, each.changed) for each in applied] == [
        (1, "apple", False),
        (2, "index", False),
        (3, "name", False),
    ]
    assert all(each.applied_at for each in applied)
    assert rows(empty_dsn, "select id, name from apple order by id") == [(1, None), (2, None)]
    assert up(empty_dsn, folder) == []


def test_up_stops_at_a_version(empty_dsn: str, folder: Path) -> None:
    assert [each.version for each in up(empty_dsn, folder, to=2)] == [1, 2]
    assert [bool(each.applied_at) for each in status(empty_dsn, folder)] == [True, True, False]
    with pytest.raises(SchemaError, match="no migration 9"):
        up(empty_dsn, folder, to=9)


def test_down_takes_back_the_newest_first_and_leaves_nothing(empty_dsn: str, folder: Path) -> None:
    before = objects(empty_dsn)
    up(empty_dsn, folder)
    assert [each.version for each in down(empty_dsn, folder)] == [3]
    assert [each.version for each in down(empty_dsn, folder, steps=9)] == [2, 1]
    assert down(empty_dsn, folder) == []
    assert objects(empty_dsn) == before
    assert len(up(empty_dsn, folder)) == 3


def test_the_shipped_migrations_go_up_down_and_up_on_a_clean_database(empty_dsn: str) -> None:
    before = objects(empty_dsn)
    applied = migrate.up(empty_dsn)
    assert applied[-1].version == migrate.LATEST
    made = objects(empty_dsn)
    assert ("relation", "job") in made
    assert len(migrate.down(empty_dsn, steps=len(applied))) == len(applied)
    assert objects(empty_dsn) == before
    migrate.up(empty_dsn)
    assert objects(empty_dsn) == made
    assert all(each.applied_at and each.known and not each.changed for each in migrate.status(empty_dsn))


def test_moving_the_checks_to_domains_rewrites_no_row(empty_dsn: str) -> None:
    """A table of millions of rows is locked for a moment only; what was refused before is refused after."""
    migrate.up(empty_dsn, to=4)
    before = rows(empty_dsn, "insert into job (topic) values ('kept') returning pg_relation_filenode('job'), id")
    migrate.up(empty_dsn)
    assert rows(empty_dsn, "select pg_relation_filenode('job'), id from job") == before
    with pytest.raises(psycopg.errors.CheckViolation, match="job_topic_check"):
        rows(empty_dsn, "insert into job (topic) values ('Not A Topic') returning id")


def test_the_template_of_the_tests_is_made_by_the_shipped_migrations(dsn: str) -> None:
    assert rows(dsn, "select max(version) from brooq_migration") == [(migrate.LATEST,)]


def test_status_of_an_empty_database_changes_nothing(empty_dsn: str, folder: Path) -> None:
    before = objects(empty_dsn)
    assert status(empty_dsn, folder, "not-there")[0] == MigrationStatus(1, "apple", None, changed=False)
    assert objects(empty_dsn) == before


@pytest.mark.parametrize("schema", ["My-Schema", "select", 'quo"te', "it's", "ящик", "s" * 63, "a.b", "50%", "x; drop"])
def test_a_schema_may_have_any_name(empty_dsn: str, schema: str) -> None:
    migrate.up(empty_dsn, schema)
    assert rows(empty_dsn, "select schemaname from pg_tables where tablename = 'job'") == [(schema,)]
    assert all(each.applied_at for each in migrate.status(empty_dsn, schema))
    migrate.down(empty_dsn, schema, steps=99)
    assert rows(empty_dsn, "select schemaname from pg_tables where tablename ~ 'job|brooq'") == []


@pytest.mark.parametrize("schema", ["", "s" * 64, "ящ" * 16, "nul\0", "$user"])
def test_a_name_that_cannot_be_a_schema_is_refused(empty_dsn: str, schema: str) -> None:
    with pytest.raises(ConfigError, match="schema name"):
        migrate.up(empty_dsn, schema)
    with pytest.raises(ConfigError, match="schema name"):
        migrate.script(schema)


def test_two_schemas_of_one_database_do_not_meet(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder, "one")
    up(empty_dsn, folder, "two", to=1)
    assert [bool(each.applied_at) for each in status(empty_dsn, folder, "two")] == [True, False, False]
    down(empty_dsn, folder, "one", steps=3)
    assert rows(empty_dsn, "select schemaname from pg_tables where tablename = 'apple'") == [("two",)]


def test_a_changed_file_is_refused_and_shown(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder, to=1)
    (folder / "00001_apple.sql").write_text(FIRST.replace("values (2)", "values (3)"))
    for action in (up, down):
        with pytest.raises(SchemaError, match=r"00001_apple\.sql is not the file"):
            action(empty_dsn, folder)
    assert [each.changed for each in status(empty_dsn, folder)] == [True, False, False]


def test_line_ends_of_windows_change_nothing(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder, to=1)
    (folder / "00001_apple.sql").write_bytes(FIRST.replace("\n", "\r\n").encode())
    assert len(up(empty_dsn, folder)) == 2


@pytest.mark.fault(28)
def test_a_schema_from_the_future_is_refused_and_shown(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder)
    (folder / "00003_name.sql").unlink()
    for action in (up, down):
        with pytest.raises(SchemaError, match=r"holds migration 3.*up to 2"):
            action(empty_dsn, folder)
    last = status(empty_dsn, folder)[-1]
    assert (last.version, last.name, last.known) == (3, "name", False)


def test_a_failing_migration_names_its_line_and_is_taken_back_whole(empty_dsn: str, folder: Path) -> None:
    (folder / "00003_name.sql").write_text("-- +goose Up\ncreate table pear ();\n\nselect 1 / 0;\n")
    with pytest.raises(SchemaError, match=r"00003_name\.sql:4: division by zero \(SQLSTATE 22012\)"):
        up(empty_dsn, folder)
    assert rows(empty_dsn, "select tablename from pg_tables where tablename = 'pear'") == []
    assert [bool(each.applied_at) for each in status(empty_dsn, folder)] == [True, True, False]


def test_a_failing_migration_without_a_transaction_is_not_recorded_and_leaves_no_lock(
    empty_dsn: str, folder: Path
) -> None:
    (folder / "00002_index.sql").write_text(SECOND.replace("on apple (id)", "on apple (nothing)"))
    with pytest.raises(SchemaError, match=r"00002_index\.sql:5"):
        up(empty_dsn, folder)
    (folder / "00002_index.sql").write_text(SECOND)
    assert [each.version for each in up(empty_dsn, folder, patience=1)] == [2, 3]


def test_each_transaction_says_read_committed_whatever_the_default(empty_dsn: str, folder: Path) -> None:
    database = psycopg.conninfo.conninfo_to_dict(empty_dsn)["dbname"]
    for setting in ("isolation = 'serializable'", "read_only = on"):
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            connection.execute("set default_transaction_read_only to off")
            connection.execute(f'alter database "{database}" set default_transaction_{setting}'.encode())
    (folder / "00001_apple.sql").write_text(
        "-- +goose Up\ncreate table apple as select 1 as id, current_setting('transaction_isolation') as isolation,"
        " current_setting('search_path') as path, current_setting('lock_timeout') as patience;\n"
    )
    up(empty_dsn, folder, "My-Schema", to=1)
    found = rows(empty_dsn, 'select isolation, path, patience from "My-Schema".apple')
    assert found == [("read committed", '"My-Schema", pg_temp', "200ms")]


@contextmanager
def migrators(dsn: str, folder: Path, number: int) -> Iterator[list[subprocess.Popen[str]]]:
    code = (
        "import sys; from pathlib import Path; from brooq.postgres import migrate\n"
        "with migrate.Migrator.open(sys.argv[1], 'public', 60, Path(sys.argv[2])) as migrator:\n"
        "    sys.stdin.readline(); print([each.version for each in migrator.up(None)])\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, dsn, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for _ in range(number)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def wait_for(dsn: str, query: str) -> None:
    """Look until the query finds a row."""
    deadline = time.monotonic() + 30
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not connection.execute(query.encode()).fetchone():
            assert time.monotonic() < deadline, query
            time.sleep(0.01)


def test_three_migrators_at_once_share_the_work(empty_dsn: str, folder: Path) -> None:
    for number in range(4, 12):
        table = f"-- +goose Up\ncreate table t{number} ();\n-- +goose Down\ndrop table t{number};\n"
        index = f"-- +goose NO TRANSACTION\n-- +goose Up\ncreate index concurrently i{number} on apple (id);\n"
        (folder / f"{number:05}_more.sql").write_text(index if number % 2 else table)
    with migrators(empty_dsn, folder, 3) as processes:
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    done = sorted(int(word) for out, _ in answers for word in out.strip("[]\n").split(", ") if word)
    assert done == list(range(1, 12))


def test_a_migrator_that_is_killed_frees_its_lock(empty_dsn: str, folder: Path) -> None:
    (folder / "00001_apple.sql").write_text(FIRST.replace("create table", "select pg_sleep(60);\ncreate table", 1))
    with migrators(empty_dsn, folder, 1) as (process,):
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
        wait_for(
            empty_dsn, "select 1 from pg_stat_activity where query ~ '^select pg_sleep' and pid <> pg_backend_pid()"
        )
        with pytest.raises(StoreUnavailable, match="another migrator"):
            up(empty_dsn, folder, patience=0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    # A server asleep does not see that its client is gone: it ends at its next word, or when told to.
    rows(empty_dsn, "select pg_terminate_backend(pid) from pg_stat_activity where query ~ '^select pg_sleep'")
    (folder / "00001_apple.sql").write_text(FIRST)
    assert len(up(empty_dsn, folder, patience=10)) == 3


@pytest.mark.fault(29)
def test_a_busy_table_is_waited_for_without_holding_others_up(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder, to=2)
    applied: list[MigrationStatus] = []
    with psycopg.connect(empty_dsn) as reader:
        reader.execute("select * from apple")
        thread = threading.Thread(target=lambda: applied.extend(up(empty_dsn, folder)))
        thread.start()
        wait_for(empty_dsn, "select 1 from pg_stat_activity where wait_event_type = 'Lock'")
        longest = 0.0
        for _ in range(20):
            begin = time.monotonic()
            rows(empty_dsn, "select count(*) from apple")
            longest = max(longest, time.monotonic() - begin)
        assert not applied
    thread.join(30)
    assert [each.version for each in applied] == [3]
    assert longest < 2  # 200 ms are asked for; the rest is for a loaded machine


def test_a_table_that_stays_busy_is_an_error(empty_dsn: str, folder: Path) -> None:
    up(empty_dsn, folder, to=2)
    with psycopg.connect(empty_dsn) as reader:
        reader.execute("select * from apple")
        with pytest.raises(StoreUnavailable, match="no way through"):
            up(empty_dsn, folder, patience=0.5)


def test_the_script_does_what_up_does(empty_dsn: str, postgres: Any) -> None:
    rows(empty_dsn, migrate.script("My-Schema"))
    assert all(each.applied_at and not each.changed for each in migrate.status(empty_dsn, "My-Schema"))
    assert migrate.up(empty_dsn, "My-Schema") == []
    with postgres.database(migrated=False) as other:
        migrate.up(other, "My-Schema")
        assert objects(other) == objects(empty_dsn)


def test_a_role_that_owns_its_schema_needs_no_more_rights(empty_dsn: str, folder: Path) -> None:
    role = f"brooq_migrator_{os.getpid()}"
    rows(empty_dsn, f"create role {role} login password 'pw'")
    try:
        rows(empty_dsn, f"create schema mine authorization {role}")
        values: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(empty_dsn, user=role, password="pw")
        limited = psycopg.conninfo.make_conninfo(**values)
        assert len(up(limited, folder, "mine")) == 3
        with pytest.raises(SchemaError, match="permission denied"):
            up(limited, folder, "other")
        down(limited, folder, "mine", steps=3)
    finally:
        rows(empty_dsn, f"drop owned by {role} cascade")
        rows(empty_dsn, f"drop role {role}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("create table x ();\n-- +goose Up\n", r":1: SQL before"),
        ("-- +goose Up\ncreate table x ()\n", r":2: the statement does not end"),
        ("-- +goose Up\ncreate table x ()\n-- +goose Down\n", r":2: the statement does not end"),
        ("-- +goose Up\n-- +goose StatementBegin\nselect 1;\n", r":2: .*never closed"),
        ("-- +goose Up\n", "no statement"),
        ("-- +goose ENVSUB ON\n", r":1: this marker"),
        ("-- +goose Up\n-- +goose StatementEnd\n", r":2: this marker"),
    ],
)
def test_a_file_that_breaks_the_format_is_refused_with_its_line(content: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        migration.parse(1, "x", content)


def test_a_file_is_split_where_goose_splits_it() -> None:
    parsed = migration.parse(1, "apple", FIRST)
    assert [statement.line for statement in parsed.up] == [4, 6]
    assert [statement.sql for statement in parsed.down] == ["drop table apple;"]
    assert parsed.transactional
    parsed = migration.parse(2, "index", SECOND)
    assert len(parsed.up) == 2
    assert not parsed.transactional


def test_a_version_stands_for_one_file(folder: Path) -> None:
    (folder / "1_again.sql").write_text(FIRST)
    with pytest.raises(SchemaError, match="same version"):
        migration.load(folder)


def test_the_table_of_jobs_has_its_retention_index_and_its_vacuum_thresholds(dsn: str) -> None:
    """R3."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select reloptions from pg_class where oid = 'job'::regclass").fetchone()
        index = connection.execute("select indexdef from pg_indexes where indexname = 'job_terminal'").fetchone()
    assert row is not None
    assert {"autovacuum_vacuum_scale_factor=0.02", "autovacuum_vacuum_threshold=100"} <= set(row[0])
    assert index is not None
    assert "updated_at" in index[0]
    assert "WHERE" in index[0]
