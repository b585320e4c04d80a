"""The logs beside the audit: what handlers, producers and faults wrote, one JSON object a line.

Whoever writes them may have been killed in the middle of a line: what cannot be read is counted and left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RETURNED, RAISED = "returned", "raised"


@dataclass(slots=True)
class Run:
    """What the journal says of one claim of one job."""

    topic: str | None = None
    owner: str | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    starts: list[float] = field(default_factory=list)
    ended: float | None = None
    result: str | None = None
    interruption: str | None = None
    signal: str | None = None
    claimed: bool = False
    effects: int = 0
    """Effects that were to commit with the outcome."""
    told: list[str] = field(default_factory=list)
    """States that the engine said were recorded for this claim."""


@dataclass(slots=True)
class Chained:
    """A job that a run asked to be enqueued with its outcome."""

    parent: str
    token: int
    keyed: bool


@dataclass
class Journal:
    """All runs by job and claim."""

    runs: dict[str, dict[int, Run]] = field(default_factory=dict)
    children: dict[str, list[Chained]] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    """Those whose handlers write a journal."""
    unreadable: int = 0

    def read(self, path: Path, since: float) -> None:
        """Add a file, without what is older than `since`."""
        for line in _lines(path, self, since):
            self.add(line)

    def add(self, line: dict[str, Any]) -> None:
        """Add one line; kinds that are not known say nothing."""
        kind, job, token = line["kind"], line["job"], int(line.get("token") or 0)
        run = self.runs.setdefault(job, {}).setdefault(token, Run())
        if kind == "start":
            run.starts.append(line["at"])
            run.topic, run.owner = line.get("topic"), line.get("owner")
            run.attempt, run.max_attempts = line.get("attempt"), line.get("max_attempts")
            self.topics.add(str(run.topic))
        elif kind == "end":
            run.ended, run.result = line["at"], line.get("result")
            run.interruption, run.signal = line.get("interruption"), line.get("signal")
        elif kind == "effect" and line.get("tx"):
            run.effects += 1
        elif kind == "chain":
            self.children.setdefault(line["child"], []).append(Chained(job, token, bool(line.get("key"))))
        elif kind == "claimed":
            run.claimed = True
        elif kind in {"done", "failed", "dead"}:
            run.told.append(kind)


@dataclass(slots=True)
class Sent:
    """What the producers say of one job that they sent."""

    topic: str | None = None
    key: str = ""
    answers: list[tuple[str, bool]] = field(default_factory=list)
    """Acknowledged: the id, and whether the row was new."""
    undone: bool = False
    """Its transaction was rolled back, or it was refused."""


@dataclass
class Producers:
    """All sent jobs by the id that they were sent with."""

    sent: dict[str, Sent] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    unreadable: int = 0

    def read(self, path: Path, since: float) -> None:
        """Add a file, without what is older than `since`."""
        for line in _lines(path, self, since):
            self.add(line)

    def add(self, line: dict[str, Any]) -> None:
        """Add one line: `invoke`, then `ok`, `fail`, or `info` for an answer that is unknown."""
        kind = line["kind"]
        each = self.sent.setdefault(line["job"], Sent())
        if kind == "invoke":
            each.topic, each.key = line.get("topic"), line.get("key") or ""
            each.undone = False  # sent once more
            if each.topic:
                self.topics.add(each.topic)
        elif kind == "ok":
            each.answers.append((line.get("id") or line["job"], bool(line.get("created", True))))
        elif kind == "fail":
            each.undone = True


@dataclass
class Faults:
    """What was done to the system, and when."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0

    def read(self, path: Path) -> None:
        """Add a file."""
        self.lines.extend(_lines(path, self, job=False))
        self.lines.sort(key=lambda line: float(line["at"]))

    def around(self, at: float, seconds: float) -> list[dict[str, Any]]:
        """The faults within so many seconds of a moment."""
        return [line for line in self.lines if abs(line["at"] - at) <= seconds]


def _lines(
    path: Path, log: Journal | Producers | Faults, since: float = -math.inf, *, job: bool = True
) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in _objects(file, log, job=job):
            if line["at"] >= since:
                yield line


def _objects(lines: Iterable[str], log: Journal | Producers | Faults, *, job: bool) -> Iterator[dict[str, Any]]:
    for text in lines:
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            line["at"] = float(line["at"])
            sound = isinstance(line["kind"], str) and (not job or isinstance(line["job"], str))
        except (ValueError, TypeError, KeyError):
            sound = False
        if sound:
            yield line
        else:
            log.unreadable += 1
