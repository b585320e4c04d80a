"""What the API is told and what it answers. The document is generated of these types: their names, fields and texts are
the interface (version 1), and fields are only ever added."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from brooq.vocabulary.job import MAX_KEY_BYTES, MAX_TAG, MAX_TAGS, MAX_TOPIC

MAX_BULK = 1000
MAX_PAGE = 200
MAX_REASON = 500

TopicName = Annotated[
    str, Meta(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$", min_length=1, max_length=MAX_TOPIC, examples=["email.send"])
]
Text = Annotated[str, Meta(pattern=r"^[^\x00]*$", max_length=MAX_KEY_BYTES)]
Key = Annotated[str, Meta(pattern=r"^[^\x00]*$", max_length=MAX_KEY_BYTES, description="At most 1024 bytes as UTF-8.")]
Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG, description="Printable.")]
Moment = Annotated[datetime, Meta(tz=True, description="With its offset, as RFC 3339 writes it.")]
Written = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A moment in a query: read by itself, since a number there would be taken for one too."""
StateName = Literal["pending", "processing", "failed", "done", "dead", "canceled"]


class NewJob(Struct, forbid_unknown_fields=True):
    """A job to be enqueued. Whoever repeats a request after a lost answer sends the same `id` or `idempotency_key`."""

    topic: TopicName
    payload: Annotated[Any, Meta(description="Anything that is JSON; kept as it is written.")] = None
    idempotency_key: Key = ""
    available_at: Moment | None = None
    priority: Annotated[int, Meta(ge=0, le=9, description="0 is first.")] = 0
    max_attempts: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    tags: Annotated[list[Tag], Meta(max_length=MAX_TAGS)] = []
    metadata: dict[str, Any] | None = None
    id: Annotated[UUID, Meta(description="A UUID of version 7; made here when it is left out.")] | None = None


class RawJob(NewJob, forbid_unknown_fields=True):
    """As it is read: the payload stays as it was written, digit by digit."""

    payload: Raw = Raw(b"null")


class NewJobs(Struct, forbid_unknown_fields=True):
    """Jobs to be enqueued together: all or none."""

    jobs: Annotated[list[NewJob], Meta(min_length=1, max_length=MAX_BULK)]


class RawJobs(Struct, forbid_unknown_fields=True):
    """As they are read."""

    jobs: Annotated[list[RawJob], Meta(min_length=1, max_length=MAX_BULK)]


class Enqueued(Struct):
    """`created` false: a job with that key existed, and this is its id."""

    id: UUID
    created: bool


class AllEnqueued(Struct):
    """In the order of the jobs."""

    jobs: list[Enqueued]


class Why(Struct, forbid_unknown_fields=True):
    """Why something is done by hand: it is written down."""

    reason: Annotated[str, Meta(max_length=MAX_REASON, pattern=r"^[^\x00]*$")] | None = None


class Failure(Struct):
    """A past failure."""

    attempt: int
    at: datetime
    worker: str
    error: str


class Progress(Struct):
    """How far the handler said that it is, from 0 to 1."""

    done: float
    note: str
    at: datetime


class Job(Struct):
    """A job as its row is now, without payload and result."""

    id: UUID
    topic: str
    state: StateName
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
    failures: list[Failure]
    tags: list[str]
    metadata: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    retry_of: UUID | None
    concurrency_key: str
    progress: Progress | None


class Operation(Struct):
    """What somebody did to a job by hand. `done` false: it was too late, or not needed. `made`: the job of a retry."""

    at: datetime
    actor: str
    action: str
    done: bool
    reason: str | None
    made: UUID | None


class JobWithHistory(Job):
    """A job with all that is known of it. Payload and result are shown to whoever may write."""

    operations: list[Operation]
    retries: list[UUID]
    payload: Any | UnsetType = UNSET
    result: Any | UnsetType = UNSET


class Jobs(Struct):
    """A page, newest first. `next` is the next page's `before`; null: there is nothing more. A page may hold fewer jobs than
    asked, even none, and have a next one: each looks at a bounded number of rows."""

    jobs: list[Job]
    next: UUID | None


class JobsQuery(Struct, forbid_unknown_fields=True):
    """What is asked for."""

    topic: TopicName | UnsetType = UNSET
    state: StateName | UnsetType = UNSET
    key: Key | UnsetType = UNSET
    since: Annotated[Written, Meta(description="Created then or later; with its offset.")] | UnsetType = UNSET
    until: Annotated[Written, Meta(description="Created before then; with its offset.")] | UnsetType = UNSET
    error: Annotated[Text, Meta(description="A part of last_error, in upper or lower case.")] | UnsetType = UNSET
    tag: Annotated[Text, Meta(min_length=1)] | UnsetType = UNSET
    worker: Annotated[Text, Meta(description="The beginning of the worker's name.")] | UnsetType = UNSET
    before: UUID | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50


class Canceled(Struct):
    """`state` is the one before; `canceled` false: it was canceled already."""

    id: UUID
    canceled: bool
    state: StateName


class Retried(Struct):
    """The new job."""

    id: UUID
    retry_of: UUID


class Steered(Struct):
    """`changed` false: it was so already."""

    topic: str
    changed: bool


class Depth(Struct):
    """`exact` false: an estimate."""

    topic: str
    state: StateName
    jobs: int
    exact: bool


class Topic(Struct):
    """What is set for a topic."""

    topic: str
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None


class Stats(Struct):
    """The table at a glance. `oldest`: for how many seconds each topic's oldest ready job has waited; 0: none is ready."""

    depths: list[Depth]
    oldest: dict[str, float]
    topics: list[Topic]


class Slot(Struct):
    """What a slot did when its worker was seen last, and for how many seconds by then."""

    id: UUID
    topic: str
    attempt: int
    seconds: float
    hung: bool


class Worker(Struct):
    """A worker as it said of itself last. `there`: that was lately."""

    name: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    there: bool
    stopping: bool
    slots: int
    topics: list[str]
    busy: dict[str, int]
    running: list[Slot]


class Workers(Struct):
    """Those seen last first."""

    workers: list[Worker]


class DeadQuery(Struct, forbid_unknown_fields=True):
    """Of one topic, or of all."""

    topic: TopicName | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50


class DeadGroup(Struct):
    """Dead jobs of a topic that died of the same thing. `bounded`: there may be more of them."""

    topic: str
    kind: str
    jobs: int
    bounded: bool
    first: datetime
    last: datetime
    example: str
    latest: UUID


class Dead(Struct):
    """The most frequent first."""

    groups: list[DeadGroup]


class Problem(Struct, omit_defaults=True):
    """What went wrong (RFC 9457). `type` is a fixed word; `job`: the job that stands in the way."""

    type: str
    title: str
    status: int
    detail: str = ""
    job: UUID | None = None


def encode(value: object) -> bytes:
    """As JSON."""
    return msgspec.json.encode(value)
