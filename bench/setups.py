"""The configurations that are measured: of every system its default and its fastest documented one."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.systems import ABSURD, AWA, BROOQ, CHANCY, DBOS, GRAPHILE, PGBOSS, PGQUEUER, PROCRASTINATE, RAW, System


@dataclass(frozen=True, slots=True)
class Setup:
    """A system in one configuration. `rate` is what it drains on a quick machine, jobs a second: it sizes the runs.

    `rate` 0: not fit for a drain at all. `uses`: the measures it takes part in, beside the drain.
    """

    system: System
    label: str
    config: dict[str, Any] = field(hash=False)
    rate: int
    uses: frozenset[str] = frozenset()


def drivers() -> list[str]:
    """brooq's drivers that are installed, the default first."""
    return ["psycopg", "asyncpg"] if importlib.util.find_spec("asyncpg") else ["psycopg"]


def _brooq() -> Iterator[Setup]:
    loop = {"loop": "uvloop"} if importlib.util.find_spec("uvloop") else {}
    for driver in drivers():
        base = {"driver": driver, **loop}
        main = driver == drivers()[-1]
        ten = frozenset({"pickup", "enqueue", "steady", "growth", "snapshot", "memory"} if main else {"enqueue"})
        yield Setup(BROOQ, f"10 slots, {driver}", {**base, "slots": 10}, 8000, ten)
        yield Setup(BROOQ, f"10 slots, prefetch 500, {driver}", {**base, "slots": 10, "prefetch": 500}, 40_000)
        hundred = {"failing", "growth", "snapshot", "wal"} if main else {"failing"}
        yield Setup(BROOQ, f"100 slots, {driver}", {**base, "slots": 100}, 30_000, frozenset(hundred))
        five = {"growth", "snapshot", "processes"} if main else set()
        yield Setup(BROOQ, f"500 slots, {driver}", {**base, "slots": 500}, 50_000, frozenset(five))
        for batch, connections, rate in ((10, 1, 10_000), (100, 2, 40_000), (500, 2, 60_000)):
            config = {**base, "batch": batch, "connections": connections}
            yield Setup(RAW, f"batch {batch} x {connections}, {driver}", config, rate)


def _graphile() -> Iterator[Setup]:
    local = {"localQueue": {"size": 500}, "completeJobBatchDelay": 0}
    yield Setup(
        GRAPHILE, "default, 10 slots", {"slots": 10}, 3400, frozenset({"enqueue", "pickup", "steady", "growth"})
    )
    yield Setup(GRAPHILE, "default, 100 slots", {"slots": 100}, 3400)
    best = frozenset({"growth", "snapshot", "failing", "wal"})
    yield Setup(GRAPHILE, "localQueue 500, 10 slots", {"slots": 10, "worker": local}, 55_000, best)
    yield Setup(GRAPHILE, "localQueue 500, 100 slots", {"slots": 100, "worker": local}, 52_000)


def _pgqueuer() -> Iterator[Setup]:
    base = {"loop": "uvloop"}
    default = frozenset({"enqueue", "pickup", "steady", "growth"})
    yield Setup(PGQUEUER, "default (batch 10)", base, 5500, default)
    yield Setup(
        PGQUEUER,
        "batch 100",
        {**base, "run": {"batch_size": 100}},
        17_000,
        frozenset({"growth", "snapshot", "failing", "wal"}),
    )
    yield Setup(PGQUEUER, "batch 500, pool of 4", {**base, "pool": 4, "run": {"batch_size": 500}}, 22_000)


def _awa() -> Iterator[Setup]:
    default = frozenset({"enqueue", "pickup", "steady"})
    hundred = frozenset({"failing", "wal", "snapshot"})
    for slots, rate, uses in ((10, 1000, default), (100, 5000, hundred), (500, 8000, frozenset())):
        yield Setup(AWA, f"default, {slots} slots", {"slots": slots}, rate, uses)
    for slots, rate in ((100, 6000), (500, 11_000)):
        queue = {"claimers": 2, "claim_batch_size": 512}
        yield Setup(AWA, f"claim batch 512, 2 claimers, {slots} slots", {"slots": slots, "queue": queue}, rate)
    best = {"slots": 8192, "queue": {"claim_batch_size": 4096}}
    yield Setup(AWA, "claim batch 4096, 8192 slots", best, 19_000, frozenset({"snapshot"}))


def _others() -> Iterator[Setup]:
    notify = {"queue": {"notify": True}, "boss": {"useListenNotify": True}}
    yield Setup(PGBOSS, "notify", {**notify, "work": {}}, 0, frozenset({"pickup", "enqueue"}))
    for batch, workers, rate in ((100, 1, 17_000), (1000, 2, 34_000)):
        work = {"batchSize": batch, "localConcurrency": workers, "burstWhenBatchFull": True}
        yield Setup(PGBOSS, f"batch {batch} x {workers}", {"work": work}, rate, frozenset({"growth", "snapshot"}))
    for slots, uses in ((10, frozenset({"enqueue", "pickup", "growth", "snapshot"})), (100, frozenset())):
        yield Setup(PROCRASTINATE, f"default, {slots} slots", {"worker": {"concurrency": slots}}, 700, uses)
    fast = {"loop": "uvloop", "pool": 10, "worker": {"concurrency": 10, "delete_jobs": "always"}}
    yield Setup(PROCRASTINATE, "delete, pool of 10, uvloop", fast, 750)
    for slots, rate, uses in ((10, 1500, frozenset({"enqueue", "pickup"})), (100, 3200, frozenset())):
        queue = {"concurrency": slots, "executor": "chancy.executors.asyncex.AsyncExecutor", "eager_polling": True}
        yield Setup(CHANCY, f"eager polling, {slots} slots", {"queue": queue}, rate, uses)
    for slots, rate, uses in ((10, 820, frozenset({"enqueue", "pickup"})), (100, 1100, frozenset())):
        yield Setup(ABSURD, f"default, {slots} slots", {"worker": {"concurrency": slots}}, rate, uses)
    yield Setup(DBOS, "default", {"queue": {}}, 950, frozenset({"enqueue"}))
    quick = {"queue": {"worker_concurrency": 100, "polling_interval_sec": 0.01}}
    yield Setup(DBOS, "100 slots, poll 10 ms", quick, 1250, frozenset({"pickup"}))


def setups() -> list[Setup]:
    """All of them, brooq's beside the raw limit first."""
    return [*_brooq(), *_graphile(), *_pgqueuer(), *_awa(), *_others()]
