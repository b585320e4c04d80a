"""What a job is, on its way into the queue and on its row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from brooq.vocabulary.error import AvailableAtError, IdempotencyKeyError, JobError, TopicError
from brooq.vocabulary.identifier import uuid7
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import kind_name, printable

MAX_TOPIC = 128
MAX_KEY_BYTES = 1024
PRIORITIES = range(10)
MAX_TAGS = 20
MAX_TAG = 128
_TOPIC = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*", re.ASCII)
# timestamptz reaches further than datetime; datetime.max itself would overflow once shifted to another zone.
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)


class State(StrEnum):
    """Where a job is (requirement V2). `failed` is a waiting room, no verdict."""

    PENDING = "pending"
    PROCESSING = "processing"
    FAILED = "failed"
    DONE = "done"
    DEAD = "dead"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether the state is final: a terminal state is never overwritten."""
        return self in TERMINAL


TERMINAL = frozenset({State.DONE, State.DEAD, State.CANCELED})


class Topic(str):
    """The name of a line of jobs: lowercase words and digits joined by `-` or `.`, 1 to 128 characters (`email.send`).

    Raises TopicError for anything else (requirement V4).
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Topic:
        """Check the name; a Topic is returned as it is."""
        if type(name) is cls:
            return name
        if not isinstance(name, str):
            raise TopicError(text("job.topic_type", type=kind_name(name)))
        if len(name) > MAX_TOPIC or not _TOPIC.fullmatch(name):
            raise TopicError(text("job.topic", topic=printable(repr(name[: MAX_TOPIC + 1])), limit=MAX_TOPIC))
        return super().__new__(cls, name)


_known = lru_cache(1024)(Topic)
"""Names seen before: a producer says the same few again and again."""

_NEW: Any = None
"""Instead of an id: one that is made for this job."""


@dataclass(frozen=True, slots=True, init=False)
class Job:
    """A job to be enqueued.

    `payload` is anything JSON (or bytes that are JSON already); it is checked when the job is enqueued.
    `idempotency_key`: at most one job per topic and key while the row lives; "" means no key.
    `available_at`: an aware datetime before which no worker takes the job; None means at once.
    `priority` 0 to 9, 0 first. `max_attempts` overrides the kind's. `tags` and `metadata` are for the operator.
    `concurrency_key`: jobs of one topic and key share the limit of that key, and its line where the topic is ordered.
    `id` is known before the enqueue, so repeating the same Job object after a lost answer never makes two rows.

    Raises TopicError, IdempotencyKeyError, AvailableAtError or JobError, naming the field.
    """

    topic: str
    payload: Any = None
    idempotency_key: str = ""
    available_at: datetime | None = None
    priority: int = 0
    max_attempts: int | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    id: UUID = field(default_factory=uuid7)
    concurrency_key: str = ""

    def __init__(
        self,
        topic: str,
        payload: Any = None,
        idempotency_key: str = "",
        available_at: datetime | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        tags: tuple[str, ...] = (),
        metadata: Mapping[str, Any] | None = None,
        id: UUID = _NEW,
        concurrency_key: str = "",
    ) -> None:
        """Refuse what the table would refuse, before any SQL."""
        # By hand, since the one of a frozen dataclass takes three times as long, which a bulk enqueue feels.
        if type(topic) is not Topic:
            topic = _known(topic) if type(topic) is str else Topic(topic)
        if idempotency_key:
            _check_key("idempotency_key", idempotency_key, IdempotencyKeyError)
        if concurrency_key:
            _check_key("concurrency_key", concurrency_key, JobError)
        if available_at is not None:
            _check_available_at(available_at)
        if priority != 0 and priority not in PRIORITIES:
            raise JobError(text("job.priority", value=repr(priority)))
        if max_attempts is not None and not 1 <= max_attempts <= 2**31 - 1:
            raise JobError(text("job.max_attempts", value=repr(max_attempts)))
        _set_topic(self, topic)
        _set_payload(self, payload)
        _set_idempotency_key(self, idempotency_key)
        _set_available_at(self, available_at)
        _set_priority(self, priority)
        _set_max_attempts(self, max_attempts)
        _set_tags(self, _checked_tags(tags) if tags else tags)
        _set_metadata(self, metadata)
        _set_id(self, uuid7() if id is None else id)
        _set_concurrency_key(self, concurrency_key)


_set_topic: Any
_set_payload: Any
_set_idempotency_key: Any
_set_available_at: Any
_set_priority: Any
_set_max_attempts: Any
_set_tags: Any
_set_metadata: Any
_set_id: Any
_set_concurrency_key: Any
(
    _set_topic, _set_payload, _set_idempotency_key, _set_available_at, _set_priority, _set_max_attempts, _set_tags,
    _set_metadata, _set_id, _set_concurrency_key,
) = (vars(Job)[each.name].__set__ for each in fields(Job))  # fmt: skip


def _check_key(name: str, key: str, error: type[JobError]) -> None:
    if not isinstance(key, str):
        raise error(text("job.key_type", name=name, type=kind_name(key)))
    if "\0" in key:
        raise error(text("job.key_nul", name=name, key=printable(key[:80])))
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        raise error(text("job.key_surrogate", name=name, key=printable(key[:80]))) from None
    if size > MAX_KEY_BYTES:
        raise error(text("job.key_too_long", name=name, size=size, limit=MAX_KEY_BYTES))


def _check_available_at(moment: datetime) -> None:
    if not isinstance(moment, datetime):
        raise AvailableAtError(text("job.available_at_type", type=kind_name(moment)))
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise AvailableAtError(text("job.available_at_naive", value=moment.isoformat()))
    try:
        inside = _EARLIEST <= moment <= _LATEST
    except OverflowError:
        inside = False
    if not inside:
        raise AvailableAtError(text("job.available_at_range", value=moment.isoformat()))


def _checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    tags = (tags,) if isinstance(tags, str) else tuple(tags)
    sound = all(isinstance(tag, str) and 0 < len(tag) <= MAX_TAG and tag.isprintable() for tag in tags)
    if len(tags) > MAX_TAGS or not sound:
        raise JobError(text("job.tags", limit=MAX_TAGS, length=MAX_TAG))
    return tags


class Enqueued(NamedTuple):
    """What an enqueue answers: the job's id, and whether this call made the row.

    `created=False`: a job with that key existed; `id` is its id, whatever its state (requirement E2).
    """

    id: UUID
    created: bool


class Cancellation(NamedTuple):
    """What a cancel found (requirement I4).

    `canceled` says whether this call canceled the job; `state` is the state the job had before: None when there is
    no such job, and a terminal one when it was too late.
    """

    canceled: bool
    state: State | None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One past failure of a job: which attempt, when, held by whom, with what reason (cut)."""

    attempt: int
    at: datetime
    worker: str
    error: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a handler said that it is: `done` from 0 to 1, in its own words, and when it said so."""

    done: float
    note: str
    at: datetime


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job's row as it is now: one SELECT tells its fate (requirement G3)."""

    id: UUID
    topic: str
    payload: Any
    state: State
    priority: int
    attempts: int
    max_attempts: int | None
    claim_seq: int
    expired_leases: int
    idempotency_key: str
    available_at: datetime
    locked_by: str | None
    locked_until: datetime | None
    last_error: str | None
    failures: tuple[Failure, ...]
    tags: tuple[str, ...]
    metadata: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    retry_of: UUID | None = None
    """The finished job that this one repeats."""
    concurrency_key: str = ""
    """Jobs of one topic and key share the limit of that key."""
    result: Any = None
    """What the handler returned, where its kind keeps it."""
    progress: Progress | None = None
