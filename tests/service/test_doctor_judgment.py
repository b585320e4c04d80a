"""What the doctor makes of what was read: limits row by row, and what it never shows of a statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

import brooq.service.doctor
from brooq.postgres.examination import Clock, Connections, Examination, Host, Index, Pin, Place, Table
from brooq.postgres.facts import Seen
from brooq.postgres.pooler import Pooling
from brooq.service.doctor.cleaning import usual_size
from brooq.service.doctor.examination import CHECKS, judge
from brooq.service.doctor.finding import Finding, Rules, Severity
from brooq.service.doctor.outline import outline
from brooq.vocabulary.message import catalogue

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
RULES = Rules("public", 4)
HOST = Host(
    "18.6",
    180006,
    "ada",
    "shop",
    False,
    "on",
    "on",
    "on",
    "read committed",
    "off",
    "on",
    "on",
    {},
    True,
    100,
    200_000_000,
)
TABLE = Table(1000.0, 8192, 1000, 0, None, True, 120.0, 100, 200_000_000, False)
PIN = Pin("session", "psql", 7, "ada", 5, 0.0, "active", "select 1", "", True, None)
MB = 1024 * 1024


def examination(**changes: Any) -> Examination:
    """A database that nothing is wrong with, with these changes."""
    values: dict[str, Any] = {
        "host": HOST, "clock": Clock(0.0, 0.001), "place": Place(True, True, True, 4), "pooling": Pooling.NONE, "at": NOW,
        "pins": (), "connections": Connections(5, 97, 5, None, 5, None), "table": TABLE, "indexes": None, "granted": None,
        "suspects": (), "topics": (), "workers": (worker(),),
    }  # fmt: skip
    return Examination(**(values | changes))


def worker(**changes: Any) -> Seen:
    values: dict[str, Any] = {
        "name": "w", "host": "h", "pid": 1, "version": "1", "started_at": NOW, "seen_at": NOW, "stopping": False,
        "slots": 1, "topics": ("t",), "busy": {},
    }  # fmt: skip
    return Seen(**(values | changes))


def judged(rules: Rules = RULES, **changes: Any) -> dict[str, Severity]:
    """What is not well, by name."""
    return {
        each.name: each.severity for each in judge(examination(**changes), rules) if each.severity is not Severity.OK
    }


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert judged() == {}
    found = judge(examination(), RULES)
    assert [each.check for each in found] == [check for check in CHECKS if check not in ("rights", "indexes")]
    assert all(each.remedy == "" for each in found)


NOTE, WRONG, NONE = Severity.NOTE, Severity.WRONG, None


@pytest.mark.parametrize(
    ("changes", "name", "severity"),
    [
        ({"host": replace(HOST, number=130012)}, "server_old", WRONG),
        ({"host": replace(HOST, timeouts={"statement_timeout": 4.9})}, "timeout_short", NOTE),
        ({"host": replace(HOST, timeouts={"statement_timeout": 5.0})}, "timeout_short", NONE),
        ({"host": replace(HOST, timeouts={"idle_in_transaction_session_timeout": 1.0})}, "timeout_idle", NONE),
        ({"host": replace(HOST, oldest_transaction=1_500_000_000)}, "wraparound", WRONG),
        ({"host": replace(HOST, oldest_transaction=300_000_001)}, "wraparound", NOTE),
        ({"host": replace(HOST, oldest_transaction=300_000_000)}, "wraparound", NONE),
        ({"clock": Clock(2.0, 0.0)}, "clock_ahead", NOTE),
        ({"clock": Clock(-2.0, 0.0)}, "clock_behind", NOTE),
        ({"clock": Clock(-30.0, 0.0)}, "clock_behind", WRONG),
        ({"clock": Clock(3.0, 2.0)}, "clock_ahead", NONE),
        ({"pooling": Pooling.TRANSACTION}, "pooler_prepared", WRONG),
        ({"pooling": Pooling.TRANSACTION_PREPARED}, "pooler_transaction", NOTE),
        ({"pooling": Pooling.SESSION}, "pooler_session", NOTE),
        ({"connections": Connections(93, 97, 1, None, 1, None)}, "connections_server", WRONG),
        ({"connections": Connections(78, 97, 1, None, 1, None)}, "connections_server", NOTE),
        ({"connections": Connections(77, 97, 1, None, 1, None)}, "connections_server", NONE),
        ({"pins": (replace(PIN, seconds=59.9),)}, "horizon_session", NONE),
        ({"pins": (replace(PIN, seconds=60.0),)}, "horizon_session", NOTE),
        ({"pins": (replace(PIN, seconds=600.0),)}, "horizon_session", WRONG),
        ({"pins": (replace(PIN, seconds=60.0, age=10_000_000),)}, "horizon_session", WRONG),
        ({"pins": (replace(PIN, kind="prepared", seconds=60.0),)}, "horizon_prepared", WRONG),
        ({"pins": (replace(PIN, kind="slot", active=False),)}, "horizon_slot_idle", WRONG),
        ({"pins": (replace(PIN, kind="slot", age=99_999),)}, "horizon_slot", NONE),
        ({"pins": (replace(PIN, kind="slot", age=100_000),)}, "horizon_slot", NOTE),
        ({"pins": (replace(PIN, kind="standby", age=10_000_000),)}, "horizon_standby", WRONG),
        ({"table": replace(TABLE, dead=10_000)}, "dead_rows", NONE),
        ({"table": replace(TABLE, dead=10_001)}, "dead_rows", WRONG),
        ({"table": replace(TABLE, dead=10_001, being_cleaned=True)}, "dead_rows_cleaning", NOTE),
        ({"table": replace(TABLE, dead=10_001, cleaned_from=20_000.0)}, "dead_rows", NONE),
        ({"topics": (("u", 59.0),)}, "topic_abandoned", NONE),
        ({"topics": (("u", 60.0),)}, "topic_abandoned", WRONG),
        ({"topics": (("t", 600.0),)}, "topic_abandoned", NONE),
        ({"topics": (("t", 60.0),), "workers": (worker(seen_at=NOW - timedelta(minutes=2)),)}, "topic_abandoned", WRONG),
        ({"workers": (worker(seen_at=NOW - timedelta(minutes=2)),)}, "worker_silent", NOTE),
        ({"workers": (worker(seen_at=NOW - timedelta(minutes=2)),)}, "workers_none", NONE),
        ({"workers": ()}, "workers_none", NOTE),
        ({"missing": {"pins": "no"}}, "not_examined", NOTE),
    ],
)  # fmt: skip
def test_a_limit_is_where_it_is(changes: dict[str, Any], name: str, severity: Severity | None) -> None:
    assert judged(**changes).get(name) == severity


def test_a_pooler_is_no_trouble_where_nothing_is_prepared() -> None:
    assert judged(replace(RULES, prepared=False), pooling=Pooling.TRANSACTION) == {"pooler_transaction": NOTE}


@pytest.mark.parametrize(
    ("index", "least", "most"),
    [
        (Index("i", True, 0, -1.0, 16.0), None, None),
        (Index("i", True, 0, 0.0, 16.0), 16_384, 16_384),
        (Index("i", True, 0, 1_000_000.0, 16.0), 33 * MB, 36 * MB),
    ],
)
def test_the_size_that_an_index_should_have(index: Index, least: int | None, most: int | None) -> None:
    size = usual_size(index)
    assert (size is None) if least is None or most is None else (size is not None and least <= size <= most)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("select 1", "select ?"),
        ("select * from t where a = 'secret' and b = 42", "select * from t where a = ? and b = ?"),
        ("select 'it''s secret', x", "select ?, x"),
        (r"select 'back\', 'secret'", "select ?, ?"),
        (r"select E'it\'s secret', x", "select ?, x"),
        (r"select e'a\\', 'secret'", "select ?, ?"),
        ("select $$it's secret$$, x", "select ?, x"),
        ("select $tag$ $$ 'secret $tag$, x", "select ?, x"),
        ("select -- it's secret\n x, 'y'", "select x, ?"),
        ("select /* it's secret */ x", "select x"),
        ("select \"col'umn\", 'secret'", 'select "col\'umn", ?'),
        ("select t1.c2 from t1 where n > 1.5e10", "select t1.c2 from t1 where n > ?"),
        ("update t set a = $1 where b = $2", "update t set a = $1 where b = $2"),
        ("select 'cut in the mid", "select ?"),
        ("select $$cut in the mid", "select ?"),
        (r"select E'cut \'", "select ?"),
        (r"select E'cut " + "\\", "select ?"),
        ("select /* cut", "select"),
        ("select U&'secret', N'secret', b'101', x'1f'", "select ?, ?, ?, ?"),
        ("a\x1b[31mb", "a\\u001b[?"),
        ("select " + "x, " * 100, None),
    ],
)
def test_a_statement_is_shown_without_what_was_put_into_it(statement: str, shown: str | None) -> None:
    found = outline(statement)
    assert "secret" not in found
    assert len(found) <= 120
    if shown is not None and not statement.startswith("a\x1b"):
        assert found == shown
    assert "\x1b" not in found


def test_names_do_not_break_lines() -> None:
    pin = replace(PIN, seconds=60.0, name="x\n\x1b[31m", statement="select 'a\x1b'")
    (found,) = [each for each in judge(examination(pins=(pin,)), RULES) if each.check == "horizon"]
    assert "\x1b" not in found.message
    assert "\n" not in found.message


def names_in_source() -> set[str]:
    """Every name that a finding is made with."""
    found = set()
    for file in Path(brooq.service.doctor.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found | {f"connections_{name}" for name in ("server", "database", "role")}


def test_every_finding_has_its_text_and_its_remedy_and_every_text_its_finding() -> None:
    texts = {key.removeprefix("doctor.") for key in catalogue("en") if key.startswith("doctor.")}
    findings = {text for text in texts if not text.endswith(("_remedy", "_ok"))}
    assert {text for text in texts if text.endswith("_remedy")} == {f"{name}_remedy" for name in findings}
    assert {text for text in texts if text.endswith("_ok")} == {f"{check}_ok" for check in CHECKS}
    assert findings <= names_in_source()


def test_remedies_quote_what_exists() -> None:
    commands: Callable[[str], list[str]] = re.compile(r"brooq ([a-z]+)").findall
    from brooq.service.commands import root

    remedies = [text for key, text in catalogue("en").items() if re.fullmatch(r"doctor\.\w+_remedy", key)]
    named = {name for text in remedies for name in commands(text)} - {"here", "are"}
    assert {"migrate", "grants", "explain", "show", "worker"} <= named
    assert named <= set(root.list_commands(click.Context(root)))


def test_a_finding_is_what_programs_read() -> None:
    found = judge(examination(topics=(("u", 61.0),)), RULES)
    (wrong,) = [each for each in found if each.severity is Severity.WRONG]
    assert wrong == Finding("workers", Severity.WRONG, "topic_abandoned", wrong.message, wrong.remedy, wrong.values)
    assert wrong.values == {"topic": "u", "span": "1m01s"}
