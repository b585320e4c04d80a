"""What `/healthz` and `/readyz` say (O2).

Alive is a process whose loops run: to start it anew helps against nothing else, least of all against a database that is
away. Ready is one that can work: the database answers, lets itself be written, has the right schema, and there is a slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from brooq.engine.queue import Queue
from brooq.postgres.trouble import ReadOnlyServer
from brooq.vocabulary.error import SchemaError

PATIENCE = 2.0
"""For how many seconds the database is waited for: who asks wants an answer, even when there is none to be had."""

OK, NO_ANSWER, WRONG, UNKNOWN, STARTING, GONE = "ok", "no answer", "wrong", "unknown", "starting", "not running"
READ_ONLY = "read-only"
UNASKED = "not asked"


class Probe(Protocol):
    """Asks the database for its schema, over a connection that nothing else uses."""

    async def open(self) -> None:
        """Ask. Raises SchemaError when the schema is wrong, and anything when there is no answer."""

    async def close(self) -> None:
        """Let go of the connection."""


class Verdict(Protocol):
    """How things are."""

    @property
    def well(self) -> bool:
        """All of it."""

    @property
    def alive(self) -> bool:
        """Nothing that another start would help against."""

    def as_json(self) -> dict[str, object]:
        """For whoever reads it."""


class Examiner(Protocol):
    """Whoever can tell how things are."""

    async def report(self) -> Verdict:
        """Look, and ask the database."""

    async def liveness(self) -> Verdict:
        """Look, and ask nobody."""


@dataclass(frozen=True, slots=True)
class Report:
    """The parts, each by a fixed word: nothing in it tells where the database is."""

    database: str
    schema: str
    loops: dict[str, str]
    slots: str
    running: bool

    @property
    def alive(self) -> bool:
        """Whatever has begun still runs. Before that a process waits for its database, or for its application."""
        return self.slots == STARTING or (self.running and all(part == OK for part in self.loops.values()))

    @property
    def well(self) -> bool:
        """All of it."""
        return self.running and not self.wrong

    @property
    def wrong(self) -> list[str]:
        """Whatever is not well."""
        parts = {"database": self.database, "schema": self.schema, "slots": self.slots, **self.loops}
        wrong = [f"{name}: {part}" for name, part in parts.items() if part not in {OK, UNASKED}]
        return wrong if self.running else [*wrong, "queue: not running"]

    def as_json(self) -> dict[str, object]:
        """For whoever reads it, with what is not well said once more in one list."""
        return {
            "well": self.well,
            "alive": self.alive,
            "database": self.database,
            "schema": self.schema,
            "loops": self.loops,
            "slots": self.slots,
            "running": self.running,
            "wrong": self.wrong,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Report:
        """What another process said."""
        return cls(said["database"], said["schema"], said["loops"], said["slots"], running=said["running"])


@dataclass(frozen=True, slots=True)
class Together:
    """Several processes, by number: the report of each, or a word for why there is none."""

    processes: Mapping[int, Report | str]

    @property
    def alive(self) -> bool:
        """Every one that there is answers and is alive. One that is gone or starts is its supervisor's to care for."""
        return all(
            each.alive if isinstance(each, Report) else each in {GONE, STARTING} for each in self.processes.values()
        )

    @property
    def well(self) -> bool:
        """Every one of them."""
        return all(isinstance(each, Report) and each.well for each in self.processes.values())

    def as_json(self) -> dict[str, object]:
        """In the words of one process, each part as it is where it is worst; then every process by itself."""
        reports = [each for each in self.processes.values() if isinstance(each, Report)]
        loops: dict[str, str] = {}
        for each in reports:
            loops.update((name, part) for name, part in each.loops.items() if loops.get(name, OK) == OK)
        wrong: list[str] = []
        for number, said in self.processes.items():
            parts = [said] if isinstance(said, str) else said.wrong
            wrong.extend(f"process {number}: {part}" for part in parts)
        return {
            "well": self.well,
            "alive": self.alive,
            "database": _worst(each.database for each in reports),
            "schema": _worst(each.schema for each in reports),
            "loops": loops,
            "slots": _worst(each.slots for each in reports),
            "running": len(reports) == len(self.processes) and all(each.running for each in reports),
            "wrong": wrong,
            "processes": {
                str(number): said if isinstance(said, str) else said.as_json()
                for number, said in self.processes.items()
            },
        }


def _worst(parts: Iterable[str]) -> str:
    """The first that is not well; unknown when nobody says anything."""
    said = list(parts) or [UNKNOWN]
    return next((part for part in said if part not in {OK, UNASKED}), said[0])


class Health:
    """Looks at the queue and asks the database, however many ask at once, one question at a time."""

    def __init__(self, patience: float = PATIENCE) -> None:
        """Nothing is known until there is a queue."""
        self._begun = False
        self._queue: Queue | None = None
        self._probe: Probe | None = None
        self._asking: asyncio.Future[None] | None = None
        self._patience = patience

    def watch(self, queue: Queue | None, probe: Probe | None) -> None:
        """From now on this queue is meant."""
        self._queue, self._probe = queue, probe

    async def report(self) -> Report:
        """How things are now, within the patience."""
        return self._look(*await self._ask())

    async def liveness(self) -> Report:
        """How things are in this process, at once."""
        return self._look(UNASKED, UNASKED)

    def _look(self, database: str, schema: str) -> Report:
        if self._queue is None:
            return Report(database, schema, {}, STARTING, running=False)
        health = self._queue.health()
        self._begun = self._begun or health.running
        if not self._begun:
            return Report(database, schema, {}, STARTING, running=False)
        loops = {name: OK if well else "not running" for name, well in health.loops.items()}
        return Report(database, schema, loops, "all hung" if health.slots_hung else OK, running=health.running)

    async def close(self) -> None:
        """Ask no more, whoever asks here."""
        probe, self._probe = self._probe, None
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking], timeout=1.0)
        if probe is not None:
            await probe.close()

    async def _ask(self) -> tuple[str, str]:
        if self._probe is None:
            return UNKNOWN, UNKNOWN
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._probe.open())
        # Not wait_for: whoever stops waiting must not cut the answer off for the others.
        asking = self._asking
        await asyncio.wait([asking], timeout=self._patience)
        if not asking.done() or asking.cancelled():
            return NO_ANSWER, UNKNOWN
        error = asking.exception()
        if error is None:
            return OK, OK
        if isinstance(error, ReadOnlyServer):
            return READ_ONLY, OK
        return (OK, WRONG) if isinstance(error, SchemaError) else (NO_ANSWER, UNKNOWN)
