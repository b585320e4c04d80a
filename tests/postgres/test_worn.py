"""A snapshot that somebody holds: what has died since stays in table and indexes, and is not walked again and again."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from tests.database import Server

from brooq.postgres.marks import DEEP, NO_LEVEL, NO_MARKS, Marks
from brooq.postgres.statement import statements

STATEMENTS = statements("public")
LEASE = timedelta(hours=1)
WORN = 19_000
"""So many jobs have been claimed and have ended since the snapshot was taken."""
ASKED = 10
NO_OUTCOMES: list[list[Any]] = [[], [], [], [], [], []]


class Worn:
    """A worker's connection to a table in which everything that died is still there."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.marks = Marks()

    def ask(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows that a statement answers."""
        with psycopg.RawCursor(self.connection) as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def claim(self, limit: int, outcomes: Sequence[list[Any]] = NO_OUTCOMES) -> list[Any]:
        """An exchange."""
        rows = self.ask(STATEMENTS.exchange, self.exchange(limit, outcomes))[:-1]
        self.marks.move(rows, full=len(rows) >= limit)
        return rows

    def exchange(self, limit: int, outcomes: Sequence[list[Any]] = NO_OUTCOMES) -> list[Any]:
        """What an exchange is asked with."""
        return ["w", *outcomes, ["t"], limit, LEASE, *self.marks.columns(), []]

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Whatever happens in the block."""
        with self.connection.transaction(force_rollback=True):
            yield

    def buffers(self, statement: str, parameters: Sequence[Any]) -> int:
        """How many buffers a statement touches, under the worse of its plans: for these parameters, and for any."""
        return max(self._touched(statement, parameters, mode) for mode in ("force_custom_plan", "force_generic_plan"))

    def _touched(self, statement: str, parameters: Sequence[Any], mode: str) -> int:
        values = sql.SQL(", ").join(sql.Literal(value) for value in parameters)
        with self.taken_back():
            self.connection.execute(f"set local plan_cache_mode = {mode}".encode())
            self.connection.execute(f"prepare asked as {statement}".encode())
            asked = sql.SQL("explain (analyze, buffers, format json) execute asked({})").format(values)
            try:
                row = self.connection.execute(asked).fetchone()
            finally:
                self.connection.execute("deallocate asked")
        assert row is not None
        return int(row[0][0]["Plan"]["Shared Hit Blocks"]) + int(row[0][0]["Plan"]["Shared Read Blocks"])


@pytest.fixture(scope="module")
def worn(postgres: Server) -> Iterator[Worn]:
    """Jobs that were all worked off under somebody's snapshot but for the last thousand, of which ten are held."""
    with (
        postgres.database(migrated=True) as dsn,
        psycopg.connect(dsn) as holder,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute("alter table job set (autovacuum_enabled = off)")
        connection.execute("insert into job (topic) select 't' from generate_series(1, %s)", [WORN + 1000])
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from job")
        found = Worn(connection)
        rows = found.claim(WORN)
        assert len(rows) == WORN > DEEP
        found.claim(0, [[row[0] for row in rows], [row[1] for row in rows], [], [], [], []])
        connection.execute("analyze job")
        yield found


@pytest.fixture
def held(worn: Worn) -> tuple[list[UUID], list[int]]:
    """The jobs in hand, and their fences."""
    rows = worn.connection.execute("select id, claim_seq from job where state = 'processing'").fetchall()
    if not rows:
        rows = [(row[0], row[1]) for row in worn.claim(ASKED)]
    assert len(rows) == ASKED
    return [id for id, _ in rows], [token for _, token in rows]


def test_a_claim_behind_a_mark_and_its_outcomes_walk_nothing_that_is_dead(worn: Worn, held: Any) -> None:
    assert worn.buffers(STATEMENTS.exchange, worn.exchange(ASKED, [*held, [], [], [], []])) < ASKED * 60


def test_a_look_from_the_beginning_walks_what_is_dead_once(
    worn: Worn, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a mark all of it is walked twice: for the first priority, and for the jobs."""
    unmarked = worn.buffers(STATEMENTS.exchange, ["w", *NO_OUTCOMES, ["t"], ASKED, LEASE, *NO_MARKS, []])
    monkeypatch.setattr(worn, "marks", copy.deepcopy(worn.marks))
    monkeypatch.setattr("brooq.postgres.marks.LOOK_AGAIN", 0.0)
    worn.marks._pause = 0.0
    looking = worn.exchange(ASKED)
    assert NO_LEVEL in looking[-4]
    look = worn.buffers(STATEMENTS.exchange, looking)
    assert WORN / 100 < look < 0.6 * unmarked
    with worn.taken_back():
        assert len(worn.ask(STATEMENTS.exchange, looking)) == ASKED + 1, "it finds the same jobs"


def test_a_renewal_looks_for_its_jobs_and_not_among_all_that_were_held(worn: Worn, held: Any) -> None:
    assert worn.buffers(STATEMENTS.renew, ["w", *held, LEASE]) < ASKED * 30


def test_what_is_told_of_progress_does_so_too(worn: Worn, held: Any) -> None:
    told = ['{"done": 1}'] * ASKED
    assert worn.buffers(STATEMENTS.progress, ["w", *held, told]) < ASKED * 30
