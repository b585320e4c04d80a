"""Memory of brooq's worker, resident: idle, and at its highest while it drains many jobs."""

from __future__ import annotations

import time
from typing import Any

from bench.process import PeerError
from bench.results import Sample, rows
from bench.stage import PATIENCE, Stage
from bench.systems import System

LOOK = 0.5


def memory(
    stage: Stage, system: System, label: str, config: dict[str, Any], jobs: int, idle: float, within: float
) -> list[Sample]:
    """After `idle` seconds with nothing to do; then jobs come. Growth: the second half's highest against the first's."""
    dsn = stage.fresh(system)
    with stage.start(system, "work", dsn, jobs=jobs, config=config) as worker:
        worker.need("ready", PATIENCE)
        worker.say("go")
        worker.expect("first", idle)  # nothing comes: time for whatever the worker makes after its start
        at_rest = worker.memory()
        stage.enqueue(system, dsn, jobs, config)
        seen: list[float] = []
        deadline = time.monotonic() + within
        while worker.expect("handled", LOOK) is None:
            seen.append(worker.memory())
            if time.monotonic() > deadline:
                raise PeerError(f"the jobs were not handled within {within:g} s")
        seen.append(worker.memory())
        worker.say("stop")
        last = worker.need("stopped", PATIENCE)
    if last["twice"] or last["count"] != jobs:
        raise PeerError(f"{last['count']} of {jobs} jobs ran, {last['twice']} of them twice")
    half = len(seen) // 2
    return [
        Sample(system.name, label, "memory, idle", at_rest, "MB"),
        Sample(system.name, label, f"memory, draining {rows(jobs)}", max(seen), "MB"),
        Sample(system.name, label, "memory, growth", max(seen[half:]) - max(seen[:half] or seen), "MB"),
    ]
