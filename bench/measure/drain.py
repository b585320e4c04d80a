"""Drain: from the first handler's start to the last outcome committed, on a filled table."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.place import Place
from bench.process import Peer, PeerError
from bench.results import Sample
from bench.stage import PATIENCE, Stage
from bench.systems import System

LOOK = 0.002
"""How often it is asked whether work is left, in seconds, once the handlers have had it all."""


@dataclass(frozen=True, slots=True)
class Drained:
    """How a drain went. `marks`: when each hundredth of the jobs began, in seconds from the first. `wal`: bytes, from the
    enqueue (in bulk) to the outcome, without what comes between."""

    jobs: int
    seconds: float
    marks: list[float]
    client_cpu: float
    server_cpu: float | None
    wal: int
    complete: bool

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


def drain(
    stage: Stage,
    system: System,
    config: dict[str, Any],
    jobs: int,
    *,
    fail: bool = False,
    processes: int = 1,
    cap: float = 120.0,
    state: str = "",
    filled: bool = False,
) -> Drained:
    """Fill (unless it is `filled`), drain, check. After `cap` seconds a slow system is stopped, and what it did counts."""
    enqueued = 0
    if not filled:
        dsn = stage.fresh(system, state)
        wal = stage.place.wal()
        stage.enqueue(system, dsn, jobs, config)
        enqueued = stage.place.wal() - wal
        stage.place.settle(system.database)
    else:
        dsn = stage.place.database(system.database)
    before = _counted(stage.place, system, fail=fail)
    with ExitStack() as stack:
        peers = [
            stack.enter_context(stage.start(system, "work", dsn, jobs=jobs, config=config, fail=fail))
            for _ in range(processes)
        ]
        for peer in peers:
            peer.need("ready", PATIENCE)
        wal = stage.place.wal()
        for peer in peers:
            peer.say("go")
        first = _first(peers)
        client, server = sum(peer.cpu() for peer in peers), stage.place.server_seconds()
        ended, complete = _end(stage.place, system, peers, cap)
        client = sum(peer.cpu() for peer in peers) - client
        after = stage.place.server_seconds()
        wal = stage.place.wal() - wal
        for peer in peers:
            peer.say("stop")
        last = [peer.need("stopped", PATIENCE) for peer in peers]
    after_all = _counted(stage.place, system, fail=fail)
    check(last, jobs, None if before is None or after_all is None else after_all - before, complete=complete)
    seconds = (ended - first) / 1e9
    marks = [(mark - first) / 1e9 for mark in last[0]["marks"]]
    begun = sum(_begun(word, ended) for word in last)
    return Drained(
        jobs if complete else begun,
        seconds,
        marks,
        100 * client / seconds,
        None if server is None or after is None else 100 * (after - server) / seconds,
        enqueued + wal,
        complete,
    )


def _first(peers: list[Peer]) -> int:
    """When the first handler of them all began. One process may find nothing left by the time it is ready."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for peer in peers:
            word = peer.expect("first", 10 * LOOK)
            if word is not None:
                return int(word["at"])
    raise PeerError(f"no handler began within {PATIENCE:g} s")


def _end(place: Place, system: System, peers: list[Peer], cap: float) -> tuple[int, bool]:
    """When the last outcome was there, and whether it was."""
    deadline = time.monotonic() + cap
    handled = 0
    if len(peers) == 1:
        word = peers[0].expect("handled", cap)
        if word is None:
            return time.monotonic_ns(), False
        handled = int(word["at"])
    if system.left is None:
        return handled, True
    # One connection throughout: its start is not for the clock.
    with psycopg.connect(place.database(system.database), autocommit=True) as connection:
        while time.monotonic() < deadline + 10:
            row = connection.execute(system.left.encode(), prepare=True).fetchone()
            if row is not None and not row[0]:
                return time.monotonic_ns(), True
            time.sleep(LOOK if handled else 10 * LOOK)
    return time.monotonic_ns(), False


def _begun(word: dict[str, Any], until: int) -> int:
    """How many had begun by then, to a hundredth of all: what a worker does while it stops is not for the clock."""
    before = sum(mark <= until for mark in word["marks"])
    return int(min(word["count"], max(1, (before - 1) * word["step"])))


def _counted(place: Place, system: System, *, fail: bool) -> int | None:
    """How many ended as they should, as SQL sees it."""
    statement = system.dead if fail else system.done
    return None if statement is None else int(place.sql(statement, system.database)[0][0])


def check(last: list[dict[str, Any]], jobs: int, ended: int | None, *, complete: bool) -> None:
    """Every job exactly once, by the handlers' count and, where it can be seen, by SQL. Raises PeerError."""
    count, twice = sum(word["count"] for word in last), sum(word["twice"] for word in last)
    if twice or any(word["foreign"] for word in last):
        raise PeerError(f"{twice} jobs ran twice")
    if complete and count != jobs:
        raise PeerError(f"{count} of {jobs} jobs ran")
    if ended is not None and ended != count:
        raise PeerError(f"{count} jobs ran, {ended} ended as they should")


def sample(system: System, config: str, measure: str, drained: Drained) -> Sample:
    """The rate as a sample."""
    return Sample(system.name, config, measure, drained.rate, "jobs/s", drained.client_cpu, drained.server_cpu)
