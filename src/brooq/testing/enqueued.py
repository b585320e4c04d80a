"""Whether something was enqueued, in words when it was not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from brooq.engine.queue import Queue
from brooq.testing.memory import MemoryStore
from brooq.vocabulary.job import JobRecord, Topic
from brooq.vocabulary.message import text

ANY: Any = object()
"""Whatever it is."""

Jobs: TypeAlias = "Queue | MemoryStore | Iterable[JobRecord]"
"""Where to look: a queue in memory, its store, or rows that were read (`brooq.postgres.producer.jobs(connection)`)."""

SHOWN = 10


def assert_enqueued(
    jobs: Jobs, topic: str, *, payload: Any = ANY, count: int | None = None, **fields: Any
) -> list[JobRecord]:
    """Answer the jobs of a topic that have this payload and these fields of JobRecord (`idempotency_key`, `priority`,
    `available_at`, `state`…), in whatever state they are by now.

    Raises AssertionError, showing what there is, unless there are `count` of them, or at least one when none is given.
    """
    topic = Topic(topic)
    if unknown := fields.keys() - JobRecord.__dataclass_fields__.keys():
        raise TypeError(text("testing.no_field", names=", ".join(sorted(unknown))))
    everything = _records(jobs)
    wanted = fields if payload is ANY else {"payload": payload, **fields}
    found = [
        record
        for record in everything
        if record.topic == topic and all(getattr(record, name) == value for name, value in wanted.items())
    ]
    if len(found) == count or (count is None and found):
        return found
    asked = "".join(f", {name}={value!r}" for name, value in wanted.items())
    raise AssertionError(
        text(
            "testing.not_enqueued",
            topic=topic,
            asked=asked,
            wanted="≥ 1" if count is None else count,
            found=len(found),
            there="\n".join(_shown(everything, topic, wanted)),
        )
    )


def assert_not_enqueued(jobs: Jobs, topic: str, *, payload: Any = ANY, **fields: Any) -> None:
    """Raises AssertionError when there is such a job; otherwise as `assert_enqueued`."""
    assert_enqueued(jobs, topic, payload=payload, count=0, **fields)


def _records(jobs: Jobs) -> list[JobRecord]:
    if isinstance(jobs, Queue):
        if not isinstance(jobs.store, MemoryStore):
            raise TypeError(text("testing.not_in_memory", type=type(jobs.store).__qualname__))
        return jobs.store.jobs
    return jobs.jobs if isinstance(jobs, MemoryStore) else list(jobs)


def _shown(everything: list[JobRecord], topic: str, wanted: dict[str, Any]) -> list[str]:
    """What there is: of the topic in detail, of others their names."""
    own = [record for record in everything if record.topic == topic]
    names = dict.fromkeys(("state", "payload", *wanted))
    lines = ["  " + ", ".join(f"{name}={getattr(record, name)!r}" for name in names) for record in own[:SHOWN]]
    if len(own) > SHOWN:
        lines.append(f"  … {len(own) - SHOWN}")
    others = sorted({record.topic for record in everything} - {topic})
    return [*lines, *([f"  ({', '.join(others)})"] if others else [])] or ["  -"]
