"""What happened to a job (requirement V3). Events are past tense; states say where a job is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID


@dataclass(frozen=True, slots=True)
class JobClaimed:
    """A worker took the job; `waited` is the time from its readiness to the claim, in seconds."""

    id: UUID
    topic: str
    attempt: int
    token: int
    waited: float


@dataclass(frozen=True, slots=True)
class JobDone:
    """The attempt succeeded and `done` is recorded; `seconds` is how long the handler ran."""

    id: UUID
    topic: str
    attempt: int
    token: int
    seconds: float


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The attempt failed and the job waits for the next one; `error` is what `last_error` now holds."""

    id: UUID
    topic: str
    attempt: int
    token: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class JobDead:
    """The attempt failed and no attempt is left (or the handler gave up)."""

    id: UUID
    topic: str
    attempt: int
    token: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class JobCanceled:
    """The job is `canceled`: by its handler's signal, or through `Queue.cancel` in this process."""

    id: UUID
    topic: str


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """The job is back in circulation without an outcome: its lease had expired, or its worker stopped."""

    id: UUID
    topic: str


Event: TypeAlias = JobClaimed | JobDone | JobFailed | JobDead | JobCanceled | JobRequeued
