"""Which steps a run takes, and how large each is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench.measure import arrival, enqueue, growth, idle, memory, raw, snapshot
from bench.measure.drain import Drained, drain
from bench.results import PLAIN_TABLE, Sample, rows
from bench.setups import Setup, drivers, setups
from bench.stage import Stage
from bench.systems import BROOQ, RAW

TOP = 60_000
"""Jobs a second of the quickest setup on the machine that the rates in `setups` come from."""

BULK = {"procrastinate": 12_000, "chancy": 4500, "absurd": 3700, "dbos": 1700}
"""Bulk rates of those that are slower than the rest, as in `setups`."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the steps are. `seconds`: how long each drain should take, `cap` how long it may; `speed`: of this machine
    against TOP. `steady_once`: the steady load is measured in the first round only.

    `terminal` and `future` rows make a table grown; as many ready rows of a foreign topic are the
    foreign backlog; `topics`: idle topics beside the busy one.
    """

    seconds: float = 4.0
    cap: float = 8.0
    speed: float = 1.0
    pickups: int = 200
    steady_seconds: float = 60.0
    terminal: int = 1_000_000
    future: int = 500_000
    topics: int = 1000
    held: int = 100_000
    memory: int = 1_000_000
    steady_once: bool = True
    settle: float = 5.0
    watch: float = 20.0

    def jobs(self, rate: int) -> int:
        """How many jobs last for `seconds`."""
        return max(int(rate * self.seconds * self.speed), 200)


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement. `once`: in the first round only, since it takes long."""

    measure: str
    system: str
    label: str
    take: Callable[[Stage], list[Sample]]
    once: bool = False
    part: str = ""
    """Which of the measure's parts, so that a short run can take each once."""


def plan(sizes: Sizes) -> list[Step]:
    """A round: what is compared stands side by side."""
    known = setups()
    return [
        *_drains(known, sizes),
        *_enqueues(known, sizes),
        *_arrivals(known, sizes),
        *_growths(known, sizes),
        *_snapshots(known, sizes),
        *_costs(known, sizes),
    ]


def _drains(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    for setup in known:
        if setup.rate:
            yield _drain(setup, "drain", sizes)
    for batch, clients, rate in ((10, 1, 10_000), (100, 2, 40_000), (500, 2, 60_000)):
        jobs = max(sizes.jobs(rate), 2 * batch * clients)
        label = f"pgbench, batch {batch} x {clients}"
        take = partial(raw.drain, jobs=jobs, batch=batch, clients=clients)
        yield Step("drain", RAW.name, label, take, part="pgbench")
    for setup in known:
        if "failing" in setup.uses:
            yield _drain(setup, "drain, failing", sizes, fail=True)
        if "processes" in setup.uses:
            yield _drain(setup, "drain, two processes", sizes, processes=2)


def _drain(setup: Setup, measure: str, sizes: Sizes, *, fail: bool = False, processes: int = 1) -> Step:
    def take(stage: Stage) -> list[Sample]:
        config = {**setup.config, "spec": {"maxAttempts": 1}} if fail else setup.config
        slower = 5 if fail else 1
        jobs = sizes.jobs(setup.rate) // slower
        drained = drain(stage, setup.system, config, jobs, fail=fail, processes=processes, cap=sizes.cap)
        samples = [_rate(setup, measure, drained)]
        if "wal" in setup.uses and measure == "drain" and drained.complete:
            samples.append(Sample(setup.system.name, setup.label, "wal", drained.wal / jobs, "bytes/job"))
        return samples

    return Step("drain", setup.system.name, setup.label, take, part=measure)


def _rate(setup: Setup, measure: str, drained: Drained) -> Sample:
    return Sample(
        setup.system.name, setup.label, measure, drained.rate, "jobs/s", drained.client_cpu, drained.server_cpu
    )


def _enqueues(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    one = sizes.jobs(3000) // 2
    for mode in ("one", "transaction", "bulk", "keys"):
        measure = "bulk" if mode in {"bulk", "keys"} else "enqueue"
        for setup in known:
            if "enqueue" not in setup.uses or (setup.system.name, mode) in enqueue.MISSING:
                continue
            if mode == "transaction" and setup.config.get("driver", "psycopg") != "psycopg":
                continue  # the caller's connection is psycopg's, whatever the queue's own pool is
            label = setup.label.split(", ")[-1] if setup.system is BROOQ else "default"
            rate = BULK.get(setup.system.name, 60_000) if measure == "bulk" else 1500
            take = partial(
                enqueue.enqueue,
                system=setup.system,
                label=label,
                config=setup.config,
                mode=mode,
                jobs=sizes.jobs(rate) // 2,
            )
            yield Step(measure, setup.system.name, label, take, part=mode)
    for driver in drivers():
        label = f"raw INSERT, {driver}"
        take = partial(enqueue.enqueue, system=RAW, label=label, config={"driver": driver}, mode="one", jobs=one)
        yield Step("enqueue", RAW.name, label, take)
    for clients in (1, 8):
        take = partial(raw.insert, jobs=one * clients, clients=clients)
        yield Step("enqueue", RAW.name, f"pgbench, {clients} connections", take, part="pgbench")
    for worker, wakeups in itertools.product((False, True), (True, False)):
        label = f"wake-ups {'on' if wakeups else 'off'}, {'with a worker' if worker else 'no worker'}"
        config: dict[str, Any] = {**_main(known, 10).config, "wakeups": wakeups}
        take = partial(
            enqueue.producers, system=BROOQ, label=label, config=config, jobs=max(one, 400), count=8, worker=worker
        )
        yield Step("producers", BROOQ.name, label, take)


def _arrivals(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    for measure in ("pickup", "steady"):
        for setup in known:
            if measure not in setup.uses:
                continue
            of: dict[str, Any] = {"system": setup.system, "label": setup.label, "config": setup.config}
            if measure == "pickup":
                take = partial(arrival.pickup, jobs=sizes.pickups, **of)
            else:
                take = partial(arrival.steady, rate=500, seconds=sizes.steady_seconds, **of)
            once = measure == "steady" and sizes.steady_once
            yield Step(measure, setup.system.name, setup.label, take, once=once)


def _growths(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    for setup in known:
        if "growth" not in setup.uses:
            continue
        yield replace(_drain(setup, PLAIN_TABLE, sizes), measure="growth")  # what the others are held against
        yield Step("growth", setup.system.name, setup.label, _grown(setup, "grown", sizes), part="grown")
        if setup.system is BROOQ:
            yield Step("growth", setup.system.name, setup.label, _grown(setup, "foreign", sizes), part="foreign")
    ten, hundred = _main(known, 10), _main(known, 100)

    def drained_with_topics(stage: Stage) -> list[Sample]:
        config = {**hundred.config, "topics": sizes.topics}
        drained = drain(stage, BROOQ, config, sizes.jobs(hundred.rate), cap=sizes.cap)
        return [_rate(hundred, f"growth, drain, {sizes.topics} topics", drained)]

    def picked_up_with_topics(stage: Stage) -> list[Sample]:
        config = {**ten.config, "topics": sizes.topics}
        measure = f"growth, pickup, {sizes.topics} topics"
        return arrival.pickup(stage, BROOQ, ten.label, config, sizes.pickups // 2, measure=measure)

    yield Step("growth", BROOQ.name, hundred.label, drained_with_topics, part="topics")
    yield Step("growth", BROOQ.name, ten.label, picked_up_with_topics, part="topics, pickup")


def _grown(setup: Setup, state: str, sizes: Sizes) -> Callable[[Stage], list[Sample]]:
    name = f"{rows(sizes.terminal)} finished, {rows(sizes.future)} future"
    if state == "foreign":
        name = "foreign backlog"

    def take(stage: Stage) -> list[Sample]:
        kept = growth.grown(stage, setup.system, state, sizes.terminal, sizes.future)
        drained = drain(stage, setup.system, setup.config, sizes.jobs(setup.rate), cap=sizes.cap, state=kept)
        samples = [_rate(setup, f"growth, drain, {name}", drained)]
        if "pickup" in setup.uses:
            measure = f"growth, pickup, {name}"
            samples += arrival.pickup(
                stage, setup.system, setup.label, setup.config, sizes.pickups // 2, measure=measure, state=kept
            )
        return samples

    return take


def _snapshots(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    for setup in known:
        if "snapshot" in setup.uses:
            jobs = min(sizes.held, max(int(setup.rate * 30 * sizes.speed), 2000))
            take = partial(
                snapshot.held,
                system=setup.system,
                label=setup.label,
                config=setup.config,
                jobs=jobs,
                cap=5 * sizes.cap,
            )
            yield Step("snapshot", setup.system.name, setup.label, take, once=True)


def _costs(known: list[Setup], sizes: Sizes) -> Iterator[Step]:
    hundred = _main(known, 100)
    resting = partial(idle.idle, settle=sizes.settle, watch=sizes.watch)
    yield Step("memory", BROOQ.name, "brooq worker", resting, once=True, part="idle")
    yield Step("memory", BROOQ.name, "import brooq", lambda _: [idle.import_time()], once=True, part="import")
    draining = partial(
        memory.memory,
        system=BROOQ,
        label=hundred.label,
        config=hundred.config,
        jobs=sizes.memory,
        idle=sizes.settle,
        within=900,
    )
    yield Step("memory", BROOQ.name, hundred.label, draining, once=True)


def _main(known: list[Setup], slots: int) -> Setup:
    """brooq with so many slots on its fastest driver, without prefetch."""
    own = [setup for setup in known if setup.system is BROOQ and "prefetch" not in setup.config]
    return [setup for setup in own if setup.config["slots"] == slots][-1]
