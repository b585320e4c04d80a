"""Enqueue: one at a time, in a caller's transaction, in bulk; by one producer or by several processes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench.process import PeerError
from bench.results import Sample
from bench.stage import PATIENCE, Stage
from bench.systems import System
from bench.watch import Watch

MEASURES = {"one": "enqueue", "transaction": "enqueue in a transaction", "bulk": "bulk", "keys": "bulk with keys"}

MISSING = {
    ("procrastinate", "transaction"),
    ("procrastinate", "keys"),
    ("dbos", "transaction"),
    ("dbos", "keys"),
    ("absurd", "keys"),
}
"""Ways that a system does not have, or for which one of ours would have to stand in."""


def enqueue(stage: Stage, system: System, label: str, config: dict[str, Any], mode: str, jobs: int) -> list[Sample]:
    """By one producer. The rows are counted."""
    rate, client, server = _produce(stage, system, config, mode, jobs, 1)
    return [Sample(system.name, label, MEASURES[mode], rate, "jobs/s", client, server)]


def producers(
    stage: Stage, system: System, label: str, config: dict[str, Any], jobs: int, count: int, *, worker: bool
) -> list[Sample]:
    """By so many processes at once, one job at a time each; with a worker that runs the jobs, or with none."""
    rate, client, server = _produce(stage, system, config, "one", jobs, count, worker=worker)
    return [Sample(system.name, label, "eight producers", rate, "jobs/s", client, server)]


def _produce(
    stage: Stage, system: System, config: dict[str, Any], mode: str, jobs: int, count: int, *, worker: bool = False
) -> tuple[float, float, float | None]:
    dsn = stage.fresh(system)
    share = jobs // count
    with ExitStack() as stack:
        peers = [
            stack.enter_context(
                stage.start(system, "enqueue", dsn, jobs=share, first=number * share, mode=mode, config=config)
            )
            for number in range(count)
        ]
        if worker:
            working = stack.enter_context(stage.start(system, "work", dsn, jobs=share * count, config=config))
            working.need("ready", PATIENCE)
            working.say("go")
        for peer in peers:
            peer.need("ready", PATIENCE)
        watch = Watch(stage.place, peers)
        for peer in peers:
            peer.say("go")
        words = [peer.need("done", PATIENCE) for peer in peers]
        client, server = watch.stop()
        for peer in peers:
            peer.say("stop")
        if worker:
            working.need("handled", PATIENCE)
            working.say("stop")
            working.need("stopped", PATIENCE)
    ((found,),) = stage.place.sql(system.jobs, system.database)
    if found != share * count:
        raise PeerError(f"{found} of {share * count} jobs are in the table")
    return (
        share * count * 1e9 / (max(word["ended"] for word in words) - min(word["begun"] for word in words)),
        client,
        server,
    )
