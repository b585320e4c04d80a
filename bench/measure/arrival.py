"""Jobs that arrive by the clock, from one process, at a worker in another: pickup delays, idle and under steady load."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.process import PeerError
from bench.results import Sample
from bench.stage import PATIENCE, Stage
from bench.systems import System
from bench.watch import Watch

LOOK = 0.5
"""How often dead tuples are counted, in seconds, where they are."""

VACUUM = "5s"
"""How often autovacuum looks under the steady load, by default every minute: then a run of a minute sees one slope of a saw,
and which part of it is chance. With several teeth in each third of the run, their means tell whether the saw grows."""

DEAD = "select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables"
CUTS = (("p50", 49), ("p95", 94), ("p99", 98))


@dataclass(frozen=True, slots=True)
class Arrived:
    """Delays in milliseconds: from the enqueue call's return, and from its beginning. `dead`: counts of dead tuples, where
    they were asked for."""

    delays: list[float]
    from_call: list[float]
    dead: list[int]
    wal: int
    client_cpu: float
    server_cpu: float | None


def arrive(
    stage: Stage,
    system: System,
    config: dict[str, Any],
    jobs: int,
    period: float,
    *,
    state: str = "",
    count_dead: bool = False,
) -> Arrived:
    """`jobs` single jobs, one every `period` seconds, after one that shows that the worker is there. Whoever is measured
    has the server for himself, unless dead tuples are counted meanwhile."""
    dsn = stage.fresh(system, state)
    with (
        psycopg.connect(stage.place.database(system.database), autocommit=True) as watching,
        stage.start(system, "work", dsn, jobs=jobs + 1, times=True, config=config) as worker,
        stage.start(system, "pace", dsn, jobs=jobs + 1, period=period, config=config) as producer,
    ):
        worker.need("ready", PATIENCE)
        producer.need("ready", PATIENCE)
        worker.say("go")
        producer.say("go")
        worker.need("first", PATIENCE)
        producer.need("woken", PATIENCE)
        watch, wal = Watch(stage.place, [worker, producer]), stage.place.wal()
        producer.say("go")
        dead: list[int] = []
        arrivals = _wait(
            lambda: producer.expect("done", LOOK),
            lambda: dead.extend(_dead(watching) if count_dead else ()),
            jobs * period,
        )
        worker.need("handled", PATIENCE)
        client, server = watch.stop()
        wal = stage.place.wal() - wal
        producer.say("stop")
        worker.say("stop")
        last = worker.need("stopped", PATIENCE)
    if last["twice"] or last["count"] != jobs + 1:
        raise PeerError(f"{last['count']} of {jobs + 1} jobs ran, {last['twice']} of them twice")
    started = dict(last["started"])
    numbers = range(1, jobs + 1)
    return Arrived(
        [(started[number] - arrivals["returned"][number]) / 1e6 for number in numbers],
        [(started[number] - arrivals["sent"][number]) / 1e6 for number in numbers],
        dead,
        wal,
        client,
        server,
    )


def _wait(done: Callable[[], dict[str, Any] | None], meanwhile: Callable[[], None], seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + 1.5 * seconds + 20
    while time.monotonic() < deadline:
        word = done()
        if word is not None:
            return word
        meanwhile()
    raise PeerError("the producer could not keep to its rate")


def _dead(connection: psycopg.Connection[Any]) -> list[int]:
    return [int(row[0]) for row in connection.execute(DEAD)]


def pickup(
    stage: Stage,
    system: System,
    label: str,
    config: dict[str, Any],
    jobs: int,
    *,
    measure: str = "pickup",
    state: str = "",
) -> list[Sample]:
    """Twenty a second at an idle worker."""
    arrived = arrive(stage, system, config, jobs, 0.05, state=state)
    return [
        *_cuts(system, label, measure, arrived.delays),
        *_cuts(system, label, f"{measure}, from the call", arrived.from_call),
    ]


def steady(stage: Stage, system: System, label: str, config: dict[str, Any], rate: int, seconds: float) -> list[Sample]:
    """A steady load: delays, WAL a job from enqueue to outcome, and whether dead tuples pile up."""
    with stage.place.set("autovacuum_naptime", VACUUM):
        arrived = arrive(stage, system, config, int(rate * seconds), 1 / rate, count_dead=True)
    third = max(len(arrived.dead) // 3, 1)
    name = f"steady {rate}/s"
    samples = _cuts(system, label, name, arrived.delays)
    samples.append(Sample(system.name, label, f"{name}, WAL", arrived.wal / (rate * seconds), "bytes/job"))
    if len(arrived.dead) >= 3:
        thirds = (("middle", arrived.dead[third : 2 * third]), ("last", arrived.dead[-third:]))
        samples += [
            Sample(system.name, label, f"{name}, dead tuples, {part} third", statistics.fmean(seen), "rows")
            for part, seen in thirds
        ]
    samples.append(
        Sample(system.name, label, f"{name}, CPU", arrived.client_cpu, "%", arrived.client_cpu, arrived.server_cpu)
    )
    return samples


def _cuts(system: System, label: str, measure: str, delays: list[float]) -> list[Sample]:
    cuts = statistics.quantiles(delays, n=100)
    return [Sample(system.name, label, f"{measure} {name}", cuts[index], "ms") for name, index in CUTS]
