"""Traces with OpenTelemetry's own SDK: the producer's goes on in the handler, over a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from brooq import Claim, Config, Job, KindOptions, MustCancel, Queue, State
from brooq.contrib.otel import instrument, traced
from brooq.postgres import PostgresStore, open_pool
from brooq.testing import MemoryStore


class Traces:
    """A provider of one's own, and what it has exported."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def spans(self) -> dict[str, ReadableSpan]:
        """By name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}


@asynccontextmanager
async def on_a_database(dsn: str) -> AsyncIterator[Queue]:
    """A queue that is quick."""
    async with open_pool(dsn, min_size=0, max_size=5) as pool:
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.05, backoff_base=0.05, max_attempts=2))
        yield queue
        await queue.close()


async def until_state(queue: Queue, id: Any, state: State) -> None:
    """Wait for the outcome."""
    async with asyncio.timeout(20):
        while (record := await queue.find(id)) is None or record.state is not state:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_handler_s_span_is_a_child_of_the_producer_s_and_so_is_what_it_makes(dsn: str) -> None:
    traces = Traces()

    async def handler(claim: Claim) -> None:
        with traces.tracer.start_as_current_span("inner"):
            await asyncio.sleep(0)

    async with on_a_database(dsn) as queue:
        queue.register_kind("mail", handler)
        instrument(queue, provider=traces.provider)
        await queue.start()
        with traces.tracer.start_as_current_span("outer") as outer:
            id, _ = await queue.enqueue(Job("mail", metadata={"mine": 1}))
        await until_state(queue, id, State.DONE)
        record = await queue.find(id)
    assert record is not None
    assert record.metadata is not None
    context = outer.get_span_context()
    # The names and the form of the W3C's recommendation, beside what was there.
    assert record.metadata["traceparent"][:-2] == f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    assert record.metadata["mine"] == 1
    spans = traces.spans()
    process = spans["mail process"]
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is not None
    assert (process.parent.span_id, process.context.trace_id) == (context.span_id, context.trace_id)
    assert process.attributes is not None
    assert dict(process.attributes) == {
        "messaging.system": "brooq", "messaging.operation.type": "process", "messaging.destination.name": "mail",
        "messaging.message.id": str(id), "brooq.attempt": 1,
    }  # fmt: skip
    inner = spans["inner"]
    assert inner.parent is not None
    assert inner.parent.span_id == process.context.span_id


async def test_a_plain_handler_in_a_thread_is_within_the_span(dsn: str) -> None:
    traces, seen = Traces(), []

    def handler(claim: Claim) -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    async with on_a_database(dsn) as queue:
        queue.register_kind("mail", handler)
        instrument(queue, provider=traces.provider)
        await queue.start()
        id, _ = await queue.enqueue(Job("mail"))
        await until_state(queue, id, State.DONE)
    assert seen == [traces.spans()["mail process"].context.span_id]


async def test_a_linked_span_begins_a_trace_of_its_own(dsn: str) -> None:
    traces = Traces()

    async def handler(claim: Claim) -> None:
        """Succeed."""

    async with on_a_database(dsn) as queue:
        queue.register_kind("mail", handler)
        instrument(queue, provider=traces.provider, link=True)
        await queue.start()
        with traces.tracer.start_as_current_span("outer") as outer:
            id, _ = await queue.enqueue(Job("mail"))
        await until_state(queue, id, State.DONE)
    process = traces.spans()["mail process"]
    assert process.parent is None
    assert [each.context.span_id for each in process.links] == [outer.get_span_context().span_id]


@pytest.mark.parametrize(
    ("ending", "state", "status", "signal", "events"),
    [
        (ValueError("boom"), State.DEAD, StatusCode.ERROR, None, ["exception"]),
        (MustCancel(), State.CANCELED, StatusCode.UNSET, "MustCancel", []),
    ],
)
async def test_a_span_says_how_the_attempt_ended(
    dsn: str, ending: Exception, state: State, status: StatusCode, signal: str | None, events: list[str]
) -> None:
    traces = Traces()

    async def handler(claim: Claim) -> None:
        raise ending

    async with on_a_database(dsn) as queue:
        queue.register_kind("mail", handler, KindOptions(max_attempts=1))
        instrument(queue, provider=traces.provider)
        await queue.start()
        id, _ = await queue.enqueue(Job("mail"))
        await until_state(queue, id, state)
    process = traces.spans()["mail process"]
    assert process.status.status_code is status
    assert process.attributes is not None
    assert process.attributes.get("brooq.signal") == signal
    assert [event.name for event in process.events] == events


async def test_an_interrupted_attempt_says_by_what() -> None:
    traces = Traces()

    async def handler(claim: Claim) -> None:
        await asyncio.sleep(60)

    queue = Queue(MemoryStore(), Config(poll_interval=0.05))
    queue.register_kind("mail", handler, KindOptions(attempt_timeout=0.05, max_attempts=1))
    instrument(queue, provider=traces.provider)
    async with queue:
        id, _ = await queue.enqueue(Job("mail"))
        await until_state(queue, id, State.DEAD)
    assert traces.spans()["mail process"].status.description == "AttemptTimeout"


@pytest.mark.parametrize("metadata", [{"traceparent": "nonsense"}, {"traceparent": 5}, {"traceparent": None}, {}, None])
async def test_what_is_no_trace_begins_a_new_one_and_harms_nobody(metadata: dict[str, Any] | None) -> None:
    traces = Traces()

    async def handler(claim: Claim) -> None:
        """Succeed."""

    queue = Queue(MemoryStore(), Config(poll_interval=0.05))
    queue.register_kind("mail", handler)
    instrument(queue, provider=traces.provider)
    async with queue:
        id, _ = await queue.enqueue(Job("mail", metadata=metadata))
        await until_state(queue, id, State.DONE)
    assert traces.spans()["mail process"].parent is None


def test_a_job_keeps_its_trace_and_without_one_it_stays_as_it_is() -> None:
    traces = Traces()
    job = Job("mail")
    assert traced(job) is job
    with traces.tracer.start_as_current_span("outer"):
        first = traced(job)
        assert first.id == job.id
        with traces.tracer.start_as_current_span("inner"):
            assert traced(first) is first
