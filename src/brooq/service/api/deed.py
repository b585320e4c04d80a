"""What each path of the API does, once it is known that whoever asks may ask, and that what is said is well formed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import asdict

from brooq.engine.reason import sanitize
from brooq.postgres.facts import Seen
from brooq.postgres.link import Link
from brooq.postgres.listing import Filter
from brooq.postgres.operator import Operator
from brooq.postgres.reader import Reader
from brooq.postgres.store import PostgresStore
from brooq.service.api import shape
from brooq.service.api.problem import Trouble
from brooq.service.token import Right
from brooq.vocabulary.job import Enqueued, Job, JobRecord, State, Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode

PATIENCE = 10.0
"""After how many seconds without an answer of the database a request is given up."""


class Desk:
    """What requests are answered with: one connection to read over, one to act over, and the store for what is enqueued."""

    def __init__(self, store: PostgresStore) -> None:
        """Connects to nothing yet."""
        self.store = store
        self.reader = Reader(store, PATIENCE)
        self._link = Link(store.driver, PATIENCE)

    def operator(self, actor: str) -> Operator:
        """Acts in the name of somebody."""
        return Operator(self.store, actor, self._link)

    async def close(self) -> None:
        """Close the connections; the pool is somebody else's."""
        await self.reader.close()
        await self._link.close()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. `said` is its body, `query` what stands behind the question mark, each in its type."""

    path: Mapping[str, str]
    said: Any
    query: Any
    actor: str
    right: Right

    @property
    def id(self) -> UUID:
        """The job that the path names. Raises Trouble."""
        try:
            return UUID(self.path["id"])
        except ValueError:
            raise Trouble("invalid", text("api.no_id")) from None

    @property
    def reason(self) -> str | None:
        """Why it is done, if that was said."""
        return None if self.said is None or self.said.reason is None else sanitize(self.said.reason, 2000)


Said: TypeAlias = tuple[int, Struct]
"""A status and what is said with it."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A path, a method, and what it does."""

    name: str
    method: str
    path: str
    right: Right
    do: Callable[[Desk, Ask], Awaitable[Said]]
    answers: Mapping[int, type[Struct]]
    problems: tuple[int, ...] = ()
    """Statuses of the problems that it can end in, beside those that everything can."""
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    shown: type[Struct] | None = None
    """What the document says of the body, when that is not how it is read."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas of what stands in the path."""

    @property
    def optional(self) -> bool:
        """Whether the body may be left out."""
        return self.body is shape.Why


async def enqueue(desk: Desk, ask: Ask) -> Said:
    """One job."""
    (answer,) = await desk.store.enqueue(None, [_job(ask.said)])
    return 201 if answer.created else 200, shape.Enqueued(*answer)


async def enqueue_many(desk: Desk, ask: Ask) -> Said:
    """Many jobs, in one transaction."""
    answers: list[Enqueued] = await desk.store.enqueue(None, [_job(each) for each in ask.said.jobs])
    return 200, shape.AllEnqueued([shape.Enqueued(*each) for each in answers])


async def jobs(desk: Desk, ask: Ask) -> Said:
    """A page of them."""
    said = {name: value for name, value in asdict(ask.query).items() if value is not UNSET}
    before, limit = said.pop("before", None), said.pop("limit")
    said |= {name: _moment(name, said[name]) for name in ("since", "until") if name in said}
    if "state" in said:
        said["state"] = State(said["state"])
    page = await desk.reader.page(Filter(**said), before=before, limit=limit)
    return 200, shape.Jobs([shape.Job(**_columns(each)) for each in page.jobs], page.next)


async def job(desk: Desk, ask: Ask) -> Said:
    """One, with its history."""
    record = await desk.reader.find(ask.id)
    if record is None:
        raise Trouble("no-such-job")
    deeds = await desk.reader.deeds(ask.id)
    found = shape.JobWithHistory(
        **_columns(record),
        operations=[
            shape.Operation(each.at, each.actor, each.action, each.done, each.reason, each.made) for each in deeds
        ],
        retries=[each.made for each in deeds if each.done and each.made is not None and each.action == "retry"],
    )
    if ask.right >= Right.WRITE:
        found.payload = Raw(record.payload.encode())
        found.result = Raw(encode(record.result).encode())
    return 200, found


async def cancel(desk: Desk, ask: Ask) -> Said:
    """A job that has not ended."""
    answer = await desk.operator(ask.actor).cancel(ask.id, ask.reason)
    if answer.state is None:
        raise Trouble("no-such-job")
    if not answer.canceled and answer.state is not State.CANCELED:
        raise Trouble("too-late", text("api.too_late_detail", state=answer.state))
    return 200, shape.Canceled(ask.id, answer.canceled, answer.state.value)


async def retry(desk: Desk, ask: Ask) -> Said:
    """A job that has ended, as a new one."""
    answer = await desk.operator(ask.actor).retry(ask.id, ask.reason)
    if answer.state is None:
        raise Trouble("no-such-job")
    if answer.standing is not None:
        raise Trouble("under-way", text("api.under_way_detail", job=answer.standing), answer.standing)
    if answer.id is None:
        raise Trouble("not-ended", text("api.not_ended_detail", state=answer.state))
    return 201, shape.Retried(answer.id, ask.id)


async def pause(desk: Desk, ask: Ask) -> Said:
    """A topic, for the whole fleet."""
    topic = Topic(ask.path["topic"])
    return 200, shape.Steered(str(topic), await desk.operator(ask.actor).pause(topic, ask.reason))


async def resume(desk: Desk, ask: Ask) -> Said:
    """A topic that is paused."""
    topic = Topic(ask.path["topic"])
    return 200, shape.Steered(str(topic), await desk.operator(ask.actor).resume(topic, ask.reason))


async def stats(desk: Desk, ask: Ask) -> Said:
    """How many jobs there are, at a bounded cost."""
    census = await desk.reader.census()
    depths = [shape.Depth(each.topic, each.state.value, each.jobs, each.exact) for each in census.depths]
    topics = [
        shape.Topic(each.topic, each.paused_at, each.paused_by, each.pause_reason) for each in await desk.store.topics()
    ]
    return 200, shape.Stats(depths, census.oldest, topics)


async def workers(desk: Desk, ask: Ask) -> Said:
    """Who works, and at what."""
    now = datetime.now(UTC)
    return 200, shape.Workers([_worker(each, now) for each in await desk.reader.workers()])


async def dead(desk: Desk, ask: Ask) -> Said:
    """What jobs died of."""
    topic = None if ask.query.topic is UNSET else ask.query.topic
    groups = await desk.reader.dead(topic, limit=ask.query.limit)
    return 200, shape.Dead(
        [
            shape.DeadGroup(
                each.topic, each.kind, each.jobs, each.bounded, each.first, each.last, each.example, each.latest
            )
            for each in groups
        ]
    )


def _moment(name: str, written: str) -> datetime:
    try:
        return msgspec.convert(written, shape.Moment)
    except msgspec.ValidationError as error:
        raise Trouble("invalid", f"{error} - at `$.{name}`") from None


def _job(said: shape.RawJob) -> Job:
    given: dict[str, Any] = {} if said.id is None else {"id": said.id}
    return Job(
        said.topic, bytes(said.payload), said.idempotency_key, said.available_at, said.priority, said.max_attempts,
        tuple(said.tags), said.metadata, **given,
    )  # fmt: skip


def _columns(record: JobRecord) -> dict[str, Any]:
    columns = {name: getattr(record, name) for name in shape.Job.__struct_fields__}
    columns["state"] = record.state.value
    columns["failures"] = [shape.Failure(each.attempt, each.at, each.worker, each.error) for each in record.failures]
    columns["tags"] = list(record.tags)
    told = record.progress
    columns["progress"] = None if told is None else shape.Progress(told.done, told.note, told.at)
    return columns


def _worker(seen: Seen, now: datetime) -> shape.Worker:
    return shape.Worker(
        seen.name, seen.host, seen.pid, seen.version, seen.started_at, seen.seen_at, seen.there(now), seen.stopping,
        seen.slots, list(seen.topics), dict(seen.busy),
        [shape.Slot(each.id, each.topic, each.attempt, each.seconds, each.hung) for each in seen.running],
    )  # fmt: skip


_ID = {"id": {"type": "string", "format": "uuid"}}
_TOPIC = {"topic": {"type": "string", "pattern": "^[a-z0-9]+([.-][a-z0-9]+)*$", "maxLength": 128}}
_WRITE, _READ = Right.WRITE, Right.READ

DEEDS: tuple[Deed, ...] = (
    Deed("enqueue", "POST", "/jobs", _WRITE, enqueue, {201: shape.Enqueued, 200: shape.Enqueued},
         body=shape.RawJob, shown=shape.NewJob),
    Deed("jobs", "GET", "/jobs", _READ, jobs, {200: shape.Jobs}, query=shape.JobsQuery),
    Deed("enqueue_many", "POST", "/jobs/bulk", _WRITE, enqueue_many, {200: shape.AllEnqueued},
         body=shape.RawJobs, shown=shape.NewJobs),
    Deed("job", "GET", "/jobs/{id}", _READ, job, {200: shape.JobWithHistory}, (404,), parameters=_ID),
    Deed("cancel", "POST", "/jobs/{id}/cancel", _WRITE, cancel, {200: shape.Canceled}, (404, 409), body=shape.Why,
         parameters=_ID),
    Deed("retry", "POST", "/jobs/{id}/retry", _WRITE, retry, {201: shape.Retried}, (404, 409), body=shape.Why,
         parameters=_ID),
    Deed("pause", "POST", "/topics/{topic}/pause", _WRITE, pause, {200: shape.Steered}, body=shape.Why, parameters=_TOPIC),
    Deed("resume", "POST", "/topics/{topic}/resume", _WRITE, resume, {200: shape.Steered}, body=shape.Why,
         parameters=_TOPIC),
    Deed("stats", "GET", "/stats", _READ, stats, {200: shape.Stats}),
    Deed("workers", "GET", "/workers", _READ, workers, {200: shape.Workers}),
    Deed("dead", "GET", "/dead", _READ, dead, {200: shape.Dead}, query=shape.DeadQuery),
)  # fmt: skip
"""Everything that the API does."""
