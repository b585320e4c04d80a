"""The ratios that brooq has to hold, computed within one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from bench.results import PLAIN_TABLE

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pick:
    """Rows of a system by patterns; of several the best one counts, or all systems' when `system` is `*`."""

    system: str
    measure: str
    config: str = "*"
    best: Callable[[list[float]], float] = max

    def value(self, rows: list[Row]) -> float | None:
        """The median; None when nothing of the kind was measured."""
        found = [
            float(row["median"])
            for row in rows
            if fnmatch(row["system"], self.system)
            and fnmatch(row["measure"], self.measure)
            and fnmatch(row["config"], self.config)
        ]
        return self.best(found) if found else None


@dataclass(frozen=True, slots=True)
class Ratio:
    """`own` divided by `other` (by itself when there is none) must be at least `bound`, or at most."""

    title: str
    own: Pick
    bound: float
    other: Pick | None = None
    most: bool = False
    unit: str = ""

    def reached(self, rows: list[Row]) -> float | None:
        """The ratio in a run's rows; None when one side is missing."""
        own = self.own.value(rows)
        other = 1.0 if self.other is None else self.other.value(rows)
        return None if own is None or not other else own / other

    def holds(self, reached: float) -> bool:
        """Whether that is enough."""
        return reached <= self.bound if self.most else reached >= self.bound

    @property
    def must(self) -> str:
        """As it is written in the table."""
        return f"{'≤' if self.most else '≥'} {self.bound:g}{' ' + self.unit if self.unit else ''}"


def _brooq(measure: str, config: str = "*") -> Pick:
    return Pick("brooq", measure, config)


def _drain(slots: int, driver: str = "[pa]s*") -> Pick:
    """brooq on its best driver unless one is named, without prefetch."""
    return _brooq("drain", f"{slots} slots, {driver}")


def _rival(measure: str, system: str = "[!b]*") -> Pick:
    """The best of the rivals: the lowest, this is for delays. No rival's name begins with b, and raw SQL has no delay."""
    return Pick(system, measure, "*", min)


_GRAPHILE_BEST = Pick("graphile-worker", "drain", "localQueue*")
_GROWN = "*finished*"

RATIOS = (
    Ratio("drain, 500 slots, against graphile-worker's best", _drain(500), 1.0, _GRAPHILE_BEST),
    Ratio("drain, 500 slots, against PgQueuer's best", _drain(500), 2.5, Pick("pgqueuer", "drain")),
    Ratio("drain, 500 slots, against awa's best", _drain(500), 3, Pick("awa", "drain")),
    Ratio("drain, 500 slots, against raw SQL", _drain(500), 0.7, Pick("raw SQL", "drain", "batch 500 x 2, *")),
    Ratio("drain, 100 slots, against PgQueuer, batch 100", _drain(100), 2, Pick("pgqueuer", "drain", "batch 100")),
    Ratio("drain, 100 slots, against awa, 100 slots", _drain(100), 5, Pick("awa", "drain", "*100 slots")),
    Ratio("drain of jobs that fail for good, 100 slots, against successes", _brooq("drain, failing"), 0.6, _drain(100)),
    Ratio("drain, 10 slots, against PgQueuer's default", _drain(10), 1.6, Pick("pgqueuer", "drain", "default*")),
    Ratio("drain, 10 slots, against graphile-worker's default", _drain(10), 2.5,
          Pick("graphile-worker", "drain", "default, 10 slots")),
    Ratio("drain, 10 slots with prefetch, against graphile-worker's best", _brooq("drain", "10 slots, prefetch*"), 0.8,
          _GRAPHILE_BEST),
    *(Ratio(f"drain, {slots} slots, psycopg against asyncpg", _drain(slots, "psycopg"), 0.8, _drain(slots, "asyncpg"))
      for slots in (10, 100, 500)),
    Ratio("bulk enqueue, against graphile-worker's addJobs", _brooq("bulk"), 2, Pick("graphile-worker", "bulk")),
    Ratio("bulk enqueue with keys, against graphile-worker's addJobs without", _brooq("bulk with keys"), 1.0,
          Pick("graphile-worker", "bulk")),
    Ratio("enqueue one at a time, against PgQueuer", _brooq("enqueue"), 1.2, Pick("pgqueuer", "enqueue")),
    Ratio("enqueue one at a time, against a raw INSERT", _brooq("enqueue"), 0.75, Pick("raw SQL", "enqueue", "raw INSERT*")),
    *(Ratio(f"eight producers {where}, wake-ups on against off", _brooq("eight producers", f"*on, {where}"), 0.9,
            _brooq("eight producers", f"*off, {where}"))
      for where in ("no worker", "with a worker")),
    Ratio("pickup p50, against the best rival", _brooq("pickup p50"), 1.1, _rival("pickup p50"), most=True),
    Ratio("pickup p99, against the best rival", _brooq("pickup p99"), 1.0, _rival("pickup p99"), most=True),
    Ratio("steady 500/s, p99", _brooq("steady 500/s p99"), 10, most=True, unit="ms"),
    Ratio("steady 500/s, dead tuples in the last third against the middle one",
          _brooq("steady 500/s, dead tuples, last third"), 1.1, _brooq("steady 500/s, dead tuples, middle third"),
          most=True),
    *(Ratio(f"drain on a grown table, {slots} slots, against the plain one",
            _brooq(f"growth, drain, {_GROWN}", f"{slots} slots, *"), 0.95, _brooq(PLAIN_TABLE, f"{slots} slots, *"))
      for slots in (10, 100, 500)),
    *(Ratio(f"drain with {state}, 100 slots, against the plain one",
            _brooq(f"growth, drain, {state}", "100 slots, *"), 0.95, _brooq(PLAIN_TABLE, "100 slots, *"))
      for state in ("foreign backlog", "1000 topics")),
    *(Ratio(f"snapshot held, {slots} slots, last tenth against the first",
            _brooq("snapshot, last to first", f"{slots} slots*"), 0.9)
      for slots in (10, 100, 500)),
    Ratio("snapshot held, 500 slots, first tenth, against awa's best", _brooq("snapshot, first tenth", "500 slots*"), 1.0,
          Pick("awa", "snapshot, first tenth")),
    Ratio("snapshot held, 500 slots, last tenth, against awa's best", _brooq("snapshot, last tenth", "500 slots*"), 1.0,
          Pick("awa", "snapshot, last tenth")),
    Ratio("WAL a drained job at 100 slots, against PgQueuer", _brooq("wal", "100 slots*"), 1.0, Pick("pgqueuer", "wal"),
          most=True),
    Ratio("two processes against one, 500 slots each", _brooq("drain, two processes"), 1.0, _drain(500)),
    Ratio("memory of an idle worker", _brooq("memory, idle", "brooq worker"), 60, most=True, unit="MB"),
    Ratio("memory while a million jobs are drained", _brooq("memory, draining 1 M"), 120, most=True, unit="MB"),
)  # fmt: skip


def judged(document: dict[str, Any]) -> list[tuple[Ratio, float | None, str]]:
    """Each ratio with what was reached and the run it is from: the latest in which both sides were measured."""
    answers = []
    for ratio in RATIOS:
        answer: tuple[Ratio, float | None, str] = (ratio, None, "")
        for run in reversed(document["runs"]):
            reached = ratio.reached([row for row in document["results"] if row["run"] == run["id"]])
            if reached is not None:
                answer = (ratio, reached, run["id"])
                break
        answers.append(answer)
    return answers
