"""One job, as far as its history has been read, and what the reader has to know beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brooq.postgres.audit.history import Change, Version
from brooq.service.verify.logs import Run

TERMINAL = frozenset({"done", "dead", "canceled"})
WAITING = frozenset({"pending", "failed"})
HELD = "processing"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the reader of a history has to know beside it."""

    ttl: float = 0.0
    """At what age in seconds terminal rows may be deleted; 0: at any."""
    slack: float = 10.0
    """For how many seconds an expired lease may wait for the reaper."""
    skew: float = 1.0
    """By how many seconds the clocks of workers and database may differ."""
    drained: bool = False
    """Whether every job has to be at its end."""


@dataclass(slots=True)
class Life:
    """One job, as far as it has been read."""

    job: str
    runs: Mapping[int, Run] | None
    """What the journal says of it; None: its handlers write none."""
    rules: Rules = field(default_factory=Rules)
    version: Version | None = None
    made: bool = False
    """Whether its insert was seen."""
    gone: bool = False
    row: Change | None = None
    endings: int = 0
    done_by: int | None = None
    entered: set[int] = field(default_factory=set)
    left: list[tuple[int, str, str]] = field(default_factory=list)
    """Which claim left `processing`, for which state, when: by an outcome."""
    lost: list[tuple[int, str]] = field(default_factory=list)
    """Which claim lost the job otherwise, when."""
    effects: list[int] = field(default_factory=list)


def told(version: Version) -> str:
    """A version for people."""
    return f"{version[0]}/claim {version[1]}/attempts {version[2]}"
