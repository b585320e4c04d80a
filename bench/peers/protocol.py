"""What an adapter and the bench say to each other: one JSON object a line. Standard library only, for any environment.

The bench starts `python -m bench.peers NAME '{"do": …}'` and reads `ready`, then it writes `go`. A worker tells `first`
(the first handler has begun) and `handled` (as many as were asked for), a producer `done`. After a written `stop` comes the
last word, `stopped`. Times are CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from array import array
from typing import Any

Spec = dict[str, Any]
BATCH = 1000
MARKS = 100


def say(event: str, **values: Any) -> None:
    """One line to the bench."""
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def heard() -> str:
    """The next word of the bench; the end of its input means stop."""
    return sys.stdin.readline().strip() or "stop"


def payload(number: int) -> dict[str, Any]:
    """About 110 bytes of JSON, the same for every system."""
    return {"n": number, "to": "somebody@example.org", "subject": "hello", "order": 12345, "note": "x" * 30}


class Tally:
    """What handlers tell: how many have begun, how often each, and when."""

    def __init__(self, spec: Spec) -> None:
        """`jobs`: the numbers 0 to jobs-1 are to come. `times`: keep the start of each."""
        self.jobs: int = spec["jobs"]
        self.times: bool = spec.get("times", False)
        self.fail: bool = spec.get("fail", False)
        self.count = 0
        self.twice = 0
        self.foreign = 0
        self.marks: list[int] = []
        self.started: list[tuple[int, int]] = []
        self._seen = bytearray(self.jobs)
        self._step = max(self.jobs // MARKS, 1)
        self._next = 1

    def begin(self, number: int) -> None:
        """Called first thing by every handler."""
        if self.times:
            self.started.append((number, time.monotonic_ns()))
        count = self.count = self.count + 1
        if 0 <= number < self.jobs:
            if self._seen[number]:
                self.twice += 1
            self._seen[number] = 1
        else:
            self.foreign += 1
        if count == self._next:
            self._mark(count)

    def _mark(self, count: int) -> None:
        now = time.monotonic_ns()
        self.marks.append(now)
        if count == 1:
            say("first", at=now)
            self._next = 1 + self._step
        elif count < self.jobs:
            self._next = min(count + self._step, self.jobs)
        if count == self.jobs:
            say("handled", at=now)

    def end(self) -> None:
        """The last word, after the worker has stopped."""
        say(
            "stopped",
            count=self.count,
            twice=self.twice,
            foreign=self.foreign,
            step=self._step,
            marks=self.marks,
            started=self.started,
        )


class Failure(Exception):
    """What a handler raises that is asked to fail."""


class Producer:
    """How a system takes jobs. An adapter overrides what its system has."""

    async def one(self, number: int) -> None:
        """One job, durable when it returns."""
        raise NotImplementedError

    async def many(self, numbers: range, keys: bool = False) -> None:
        """Many jobs in one call of the bulk interface."""
        for number in numbers:
            await self.one(number)

    async def in_transaction(self, numbers: range) -> None:
        """Jobs one by one, in one transaction of the caller."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close what was opened."""


class Adapter:
    """One system. Each verb is what `do` of a spec names."""

    def __init__(self, spec: Spec) -> None:
        """`dsn` names the system's own database; `config` holds its settings."""
        self.spec = spec
        self.dsn: str = spec["dsn"]
        self.config: dict[str, Any] = spec.get("config", {})

    async def install(self) -> None:
        """Make the system's tables."""
        raise NotImplementedError

    async def producer(self) -> Producer:
        """A producer, connected."""
        raise NotImplementedError

    async def work(self, tally: Tally, stop: asyncio.Event) -> None:
        """Run one worker until `stop` is set, then stop it with all outcomes written."""
        raise NotImplementedError


async def until_told(stop: asyncio.Event) -> None:
    """Set `stop` when the bench says so."""
    await asyncio.to_thread(heard)
    stop.set()


async def _enqueue(adapter: Adapter) -> None:
    spec = adapter.spec
    jobs, mode, first = spec["jobs"], spec["mode"], spec.get("first", 0)
    producer = await adapter.producer()
    say("ready")
    heard()
    begun = time.monotonic_ns()
    if mode == "one":
        for number in range(first, first + jobs):
            await producer.one(number)
    elif mode == "transaction":
        for start in range(first, first + jobs, BATCH):
            await producer.in_transaction(range(start, min(start + BATCH, first + jobs)))
    else:
        for start in range(first, first + jobs, BATCH):
            await producer.many(range(start, min(start + BATCH, first + jobs)), mode == "keys")
    say("done", begun=begun, ended=time.monotonic_ns())
    heard()
    await producer.close()
    say("stopped")


async def _pace(adapter: Adapter) -> None:
    """One job at once, which wakes the worker; then one every `period` seconds, by the clock: a slow answer does not thin
    out the arrivals."""
    spec = adapter.spec
    producer = await adapter.producer()
    sent = array("q")
    returned = array("q")
    say("ready")
    heard()
    begun = time.monotonic()
    for number in range(spec["jobs"]):
        if number == 1:
            say("woken")
            heard()
            begun = time.monotonic()
        pause = begun + number * spec["period"] - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        sent.append(time.monotonic_ns())
        await producer.one(number)
        returned.append(time.monotonic_ns())
    say("done", sent=sent.tolist(), returned=returned.tolist())
    heard()
    await producer.close()
    say("stopped")


async def _work(adapter: Adapter) -> None:
    tally = Tally(adapter.spec)
    say("ready")
    heard()
    stop = asyncio.Event()
    told = asyncio.create_task(until_told(stop))
    await adapter.work(tally, stop)
    await told
    tally.end()


async def _serve(adapter: Adapter) -> None:
    do = adapter.spec["do"]
    if do == "install":
        await adapter.install()
        say("stopped")
    elif do == "enqueue":
        await _enqueue(adapter)
    elif do == "pace":
        await _pace(adapter)
    else:
        await _work(adapter)


def serve(adapter: Adapter) -> None:
    """Do what the spec asks. `loop: uvloop` in the configuration needs it in the environment."""
    if adapter.config.get("loop") == "uvloop":
        uvloop = importlib.import_module("uvloop")
        uvloop.run(_serve(adapter))
    else:
        asyncio.run(_serve(adapter))
