"""OpenTelemetry: the producer's trace goes on in the handler (extra `otel`).

`instrument(queue)` on either side is all there is to do. The context travels in the job's metadata under the names of the
W3C's Trace Context, `traceparent` and `tracestate`, so that programs in other languages can write and read it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from brooq.engine.kind import Call
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Job
from brooq.vocabulary.signal import Signal
from brooq.vocabulary.version import VERSION

_PROPAGATOR = TraceContextTextMapPropagator()
_SYSTEM = "brooq"


def instrument(queue: Queue, *, provider: TracerProvider | None = None, link: bool = False) -> None:
    """Put the current trace into every job that this queue enqueues, and a span around every attempt of its handlers.
    Before `start`.

    The span is a child of the producer's one, so that both are one trace. `link`: it begins a trace of its own that links
    to the producer's: for jobs that wait long, or that one trace enqueues by the thousand. `provider` is the global one
    unless it is given.
    """
    tracer = trace.get_tracer(_SYSTEM, VERSION, provider)

    def wrap(call: Call) -> Call:
        async def traced_call(claim: Claim[Any]) -> Any:
            came_from = _PROPAGATOR.extract(_carrier(claim))
            with tracer.start_as_current_span(
                f"{claim.topic} process",
                context=Context() if link else came_from,
                kind=SpanKind.CONSUMER,
                attributes={
                    "messaging.system": _SYSTEM,
                    "messaging.operation.type": "process",
                    "messaging.destination.name": claim.topic,
                    "messaging.message.id": str(claim.id),
                    "brooq.attempt": claim.attempt,
                },
                links=_links(came_from) if link else None,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    return await call(claim)
                except Signal as signal:
                    # The handler has decided what becomes of the job: nothing has failed.
                    span.set_attribute("brooq.signal", type(signal).__name__)
                    raise
                except asyncio.CancelledError:
                    cause = claim.interruption
                    span.set_status(Status(StatusCode.ERROR, type(cause).__name__ if cause else "canceled"))
                    raise
                except BaseException as error:
                    span.record_exception(error)
                    span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                    raise

        return traced_call

    queue.prepare(traced)
    queue.around(wrap)


def traced(job: Job) -> Job:
    """The job with the current trace in its metadata: for jobs that go another way than through an instrumented queue,
    `claim.chain(traced(Job(…)))`. One that has a trace keeps it; without a current span it is the job itself."""
    if job.metadata is not None and "traceparent" in job.metadata:
        return job
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return replace(job, metadata={**(job.metadata or {}), **carrier}) if carrier else job


def _carrier(claim: Claim[Any]) -> dict[str, str]:
    """What of the metadata can be a trace: whatever else stands there is none of our business."""
    metadata = claim.metadata
    return {name: value for name in _PROPAGATOR.fields if isinstance(value := metadata.get(name), str)}


def _links(context: Context) -> Sequence[Link]:
    found = trace.get_current_span(context).get_span_context()
    return [Link(found)] if found.is_valid else []
