"""The SQL for operators: every file says what it answers, answers it, and costs no more the longer the queue has lived."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.database import Server
from tests.deploy.stand import ROOT

FILES = sorted((ROOT / "docs" / "sql").glob("*.sql"))
OLD = 200_000
"""Jobs that ended long ago: no query may read them all."""
BUFFERS = 600
"""What a query may touch; the table has ten times as many pages."""

GROW = """
alter table job set (autovacuum_enabled = off);
insert into job (topic, state, attempts, updated_at, last_error, locked_by, locked_until)
select 'mail', case when n % 1000 = 0 then 'dead' else 'done' end, 1, now() - interval '20 days' - n * interval '1 s',
       case when n % 1000 = 0 then 'ValueError: no ' || n end, 'w', now()
from generate_series(1, {old}) as n;
insert into job (topic, state, attempts, updated_at, locked_by, locked_until) select 'mail', 'done', 1, now(), 'w', now()
from generate_series(1, 500);
insert into job (topic, available_at) select 'sms', now() - interval '1 min' from generate_series(1, 500);
insert into job (topic, available_at) select 'sms', now() + interval '1 hour' from generate_series(1, 500);
insert into job (topic, state, attempts, expired_leases, last_error, failures)
select 'sms', 'failed', 1, 4, 'OSError: 7',
       '[{{"attempt": 1, "at": "2027-01-01T00:00:00Z", "worker": "w", "error": "OSError: 7"}}]'
from generate_series(1, 20);
insert into job (topic, state, attempts, locked_by, locked_until)
select 'sms', 'processing', 1, 'w', now() + interval '1 min' from generate_series(1, 20);
insert into job (topic, state, attempts, updated_at) values ('sms', 'canceled', 1, now() - interval '40 days');
analyze job
"""  # fmt: skip


@pytest.fixture(scope="module")
def grown(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    """A queue that has lived for long."""
    with postgres.database(migrated=True) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        for statement in GROW.format(old=OLD).split(";\n"):
            connection.execute(statement.encode())
        connection.execute("vacuum job")
        yield connection


def text_of(path: Path, connection: psycopg.Connection[Any]) -> bytes:
    """The statement as psql sends it."""
    text = path.read_text(encoding="utf-8").rstrip().rstrip(";")
    if ":'id'" in text:
        row: Any = connection.execute("select id from job where state = 'failed' limit 1").fetchone()
        text = text.replace(":'id'", sql.Literal(str(row[0])).as_string(connection))
    return text.encode()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_query_answers_what_it_says(path: Path, grown: psycopg.Connection[Any], postgres: Server) -> None:
    assert path.read_text(encoding="utf-8").startswith("-- "), "it says what it answers"
    with psycopg.connect(grown.info.dsn, password=grown.info.password) as idle:
        idle.execute("begin isolation level repeatable read")
        idle.execute("select from job limit 1")  # somebody keeps the past open, for horizon.sql
        cursor = grown.execute(text_of(path, grown))
        assert cursor.fetchall(), "there is something for every question"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_query_reads_no_more_the_longer_the_queue_has_lived(path: Path, grown: psycopg.Connection[Any]) -> None:
    pages: Any = grown.execute("select pg_relation_size('job') / 8192").fetchone()
    assert pages[0] > 5 * BUFFERS
    row: Any = grown.execute(b"explain (analyze, buffers, format json) " + text_of(path, grown)).fetchone()
    plan = row[0][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < BUFFERS, json.dumps(plan, indent=1)


def test_answers_are_right(grown: psycopg.Connection[Any]) -> None:
    def ask(name: str) -> list[tuple[Any, ...]]:
        return grown.execute(text_of(ROOT / "docs" / "sql" / f"{name}.sql", grown)).fetchall()

    assert [row[:2] for row in ask("waiting")] == [("sms", 520)]
    assert len(ask("running")) == 20
    assert [(row[0], row[1], row[3]) for row in ask("dead")] == [("mail", OLD // 1000, "ValueError: no #")]
    assert [(row[0], row[1], row[4]) for row in ask("failing")] == [("sms", 20, "OSError: #")]
    assert len(ask("poison")) == 20
    assert sum(row[1] for row in ask("throughput")) == 500
    assert ask("retention")[0][1] == 1
    assert sum(row[2] for row in ask("future")) == 500


def test_every_file_is_named_where_operators_look() -> None:
    places = [ROOT / "deploy" / "prometheus" / "rules.yml", ROOT / "docs" / "en" / "guide.md"]
    text = "".join(place.read_text(encoding="utf-8") for place in places)
    named = set(re.findall(r"docs/sql/([\w-]+\.sql)|\.\./sql/([\w-]+\.sql)", text))
    assert {first or second for first, second in named} == {path.name for path in FILES}
