"""A REPEATABLE READ transaction held open while a backlog is drained: nothing that is dead meanwhile can be cleaned up."""

from __future__ import annotations

from typing import Any

import psycopg

from bench.measure.drain import drain
from bench.results import Sample
from bench.stage import Stage
from bench.systems import System


def held(stage: Stage, system: System, label: str, config: dict[str, Any], jobs: int, cap: float) -> list[Sample]:
    """Jobs a second in the first tenth and in the last one that was reached."""
    dsn = stage.fresh(system)
    stage.enqueue(system, dsn, jobs, config)
    stage.place.settle(system.database)
    with psycopg.connect(dsn) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select count(*) from pg_class").fetchone()  # the first statement takes the snapshot
        drained = drain(stage, system, config, jobs, cap=cap, filled=True)
    marks = drained.marks
    tenth = max(len(marks) // 10, 1)
    share = drained.jobs / max(len(marks) - 1, 1)
    first = share * tenth / (marks[tenth] - marks[0])
    last = share * tenth / (marks[-1] - marks[-1 - tenth])
    return [
        Sample(system.name, label, "snapshot, first tenth", first, "jobs/s", drained.client_cpu, drained.server_cpu),
        Sample(system.name, label, "snapshot, last tenth", last, "jobs/s"),
        Sample(system.name, label, "snapshot, last to first", last / first, "ratio"),
        Sample(system.name, label, "snapshot, reached", drained.jobs, "jobs"),
    ]
