"""Low-water marks: they hasten a deep backlog, and never hide a job for long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from brooq.postgres import marks
from brooq.postgres.marks import DEEP, LATEST, LOOK_AGAIN, NO_LEVEL, SHARE, Marks
from brooq.postgres.statement import statements

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOTHING: list[list[Any]] = [[], [], [], []]


class Clock:
    """A clock in the hands of the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(marks, "time", made)
    return made


def rows(count: int, topic: str = "t", priority: int = 0, start: int = 0) -> list[tuple[Any, ...]]:
    """What a claim answers, in order of readiness."""
    return [
        (UUID(int=number), 1, topic, "null", 1, None, priority, NOON + timedelta(seconds=number))
        for number in range(start, start + count)
    ]


def test_a_short_backlog_has_no_marks(clock: Clock) -> None:
    made = Marks()
    made.move(rows(DEEP - 1), full=True)
    assert made.columns() == NOTHING


def test_a_deep_backlog_goes_on_behind_the_last_job_of_each_topic_and_priority(clock: Clock) -> None:
    made = Marks()
    made.move(rows(DEEP) + rows(3, priority=4) + rows(2, topic="u"), full=True)
    made.move(rows(1, start=DEEP), full=True)
    last = NOON + timedelta(seconds=DEEP)
    assert made.columns() == [
        ["t", "t", "u"],
        [0, 4, 0],
        [last, NOON + timedelta(seconds=2), NOON + timedelta(seconds=1)],
        [UUID(int=DEEP), UUID(int=2), UUID(int=1)],
    ]


def test_a_claim_that_was_not_full_forgets_them(clock: Clock) -> None:
    made = Marks()
    made.move(rows(DEEP), full=True)
    made.move(rows(1), full=False)
    assert made.columns() == NOTHING


def test_once_a_second_a_claim_starts_from_the_beginning(clock: Clock) -> None:
    made = Marks()
    made.move(rows(DEEP), full=True)
    clock.now += LOOK_AGAIN * 0.9
    assert made.columns() != NOTHING
    clock.now += LOOK_AGAIN * 0.2
    assert made.columns()[:2] == [["t"], [NO_LEVEL]]
    made.move(rows(10), full=True)
    assert made.columns()[:2] == [["t"], [0]], "one claim looks from the beginning, not as many as make a backlog deep"


def test_looks_are_rare_where_they_take_long(clock: Clock) -> None:
    """A tenth of a second longer than other claims do: the next one comes after fifty times that, never after more than
    ten seconds, and after one in a backlog that is new."""
    made = Marks()

    def claim(seconds: float) -> bool:
        """Whether this claim, which takes so long, looks from the beginning."""
        looks = NO_LEVEL in made.columns()[1]
        clock.now += seconds
        made.move(rows(DEEP), full=True)
        return looks

    assert not claim(0.01)
    assert not claim(0.01)
    clock.now += LOOK_AGAIN
    assert claim(0.11)
    clock.now += SHARE * 0.1 - 0.2
    assert not claim(0.01)
    clock.now += 0.2
    assert claim(5.0)
    clock.now += LATEST - 5.1
    assert not claim(0.01)
    clock.now += 0.1
    assert claim(0.01)
    clock.now += LOOK_AGAIN
    assert claim(5.0)
    made.columns()
    made.move([], full=False)
    clock.now += LOOK_AGAIN
    made.columns()
    made.move(rows(DEEP), full=True)
    clock.now += LOOK_AGAIN
    assert claim(0.01)


def test_a_topic_that_a_look_did_not_meet_has_no_mark(clock: Clock) -> None:
    made = Marks()
    made.move(rows(DEEP) + rows(2, topic="u"), full=True)
    clock.now += LOOK_AGAIN
    assert made.columns()[0] == ["t", "u"]
    made.move(rows(10), full=True)
    assert made.columns()[0] == ["t"]


def test_a_claim_behind_a_mark_walks_nothing_before_it(dsn: str, clock: Clock) -> None:
    """Dead entries that an open snapshot keeps: without the mark all of them are walked, with it none."""
    statement = statements("public").exchange
    lease = timedelta(minutes=1)
    with psycopg.connect(dsn) as old, psycopg.connect(dsn, autocommit=True) as worker:
        worker.execute("insert into job (topic) select 't' from generate_series(1, 20000)")
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from job")

        def claim(limit: int, places: list[list[Any]]) -> list[Any]:
            with psycopg.RawCursor(worker) as cursor:
                cursor.execute(statement, ["w", [], [], [], [], [], [], ["t"], limit, lease, *places, []])
                return cursor.fetchall()[:-1]

        made = Marks()
        made.move(claim(19_000, NOTHING), full=True)

        def buffers(places: list[list[Any]]) -> int:
            with psycopg.RawCursor(worker) as cursor:
                cursor.execute(
                    "explain (analyze, buffers, format json) " + statement,
                    ["w", [], [], [], [], [], [], ["t"], 100, lease, *places, []],
                )
                row = cursor.fetchone()
                assert row is not None
                return int(row[0][0]["Plan"]["Shared Hit Blocks"])

        marked, unmarked = buffers(made.columns()), buffers(NOTHING)
        assert marked < 100 * 40
        assert unmarked > marked + 200  # twice, for the first priority and for the jobs: pages of dead entries and rows
