"""What of a claim and of jobs goes from the worker to a child process and back: plain JSON."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from brooq.engine.reason import Relayed, name_of, reason, trace_of
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Job
from brooq.vocabulary.payload import decode, encode
from brooq.vocabulary.signal import (
    AttemptTimeout,
    Interruption,
    LeaseLost,
    MaxExecutionExceeded,
    MustCancel,
    MustDelay,
    MustGiveUp,
    MustPreserveAttempt,
    ShuttingDown,
    Signal,
    delay_of,
    find_signal,
)

CAUSES = {each.__name__: each for each in (AttemptTimeout, MaxExecutionExceeded, LeaseLost, ShuttingDown)}
_SIGNALS = {each.__name__: each for each in (MustCancel, MustGiveUp, MustPreserveAttempt)}


def pack_claim(claim: Claim[Any]) -> dict[str, Any]:
    """What a child process needs to know of a claim."""
    return {
        "id": str(claim.id),
        "topic": claim.topic,
        "payload": claim._source,  # noqa: SLF001  the engine made it
        "metadata": claim._metadata,  # noqa: SLF001
        "attempt": claim.attempt,
        "max_attempts": claim.max_attempts,
        "token": claim.token,
        "owner": claim.lease.owner,
        "until": claim.lease.until.isoformat(),
    }


def pack_cause(cause: Interruption) -> dict[str, Any]:
    """Why a handler is interrupted."""
    return {"cause": type(cause).__name__, "text": str(cause)}


def unpack_cause(message: dict[str, Any]) -> Interruption:
    """Why this handler is interrupted."""
    return CAUSES.get(message["cause"], ShuttingDown)(message["text"])


def pack_job(job: Job) -> dict[str, Any]:
    """A job that a handler chains; its payload and metadata as JSON text, so that no digit is lost."""
    values = {each.name: getattr(job, each.name) for each in fields(job)}
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = value.isoformat()
        elif isinstance(value, UUID):
            values[name] = str(value)
    values["payload"] = encode(job.payload)
    if job.metadata is not None:
        values["metadata"] = encode(dict(job.metadata))
    return values


def unpack_job(values: dict[str, Any]) -> Job:
    """The job as it was. Raises what Job raises."""
    values = dict(values)
    for name, value in values.items():
        if name == "id" or (name.endswith("_of") and value is not None):
            values[name] = UUID(value)
    values["payload"] = str(values["payload"]).encode()
    if values["available_at"] is not None:
        values["available_at"] = datetime.fromisoformat(values["available_at"])
    if values["metadata"] is not None:
        values["metadata"] = decode(values["metadata"])
    values["tags"] = tuple(values["tags"])
    return Job(**values)


def pack_error(error: BaseException) -> dict[str, Any]:
    """What the worker has to know of a handler's error: what is recorded, what is logged, and the signal in it."""
    signal = find_signal(error)
    told: dict[str, Any] = {"error": reason(error), "name": name_of(error), "trace": trace_of(error), "signal": None}
    if signal is not None:
        name = next((each for each, kind in _SIGNALS.items() if isinstance(signal, kind)), "MustDelay")
        delay = delay_of(signal)
        told["signal"] = {
            "name": name,
            "delay": None if delay is None else delay.total_seconds(),
            "itself": signal is error,
        }
    return told


def unpack_error(told: dict[str, Any]) -> Relayed:
    """The error as the engine takes it: recorded and logged as it was there, caused by its signal."""
    error = Relayed(str(told["error"]), str(told["name"]), str(told["trace"]))
    if told["signal"] is not None:
        error.__cause__ = _signal(told["signal"])
        error.is_signal = bool(told["signal"]["itself"])
    return error


def _signal(told: dict[str, Any]) -> Signal:
    kind = _SIGNALS.get(told["name"])
    return MustDelay(told["delay"] or 0) if kind is None else kind()
