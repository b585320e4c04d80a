"""The application: `uvicorn examples.starlette_hooks.app:app`."""

from __future__ import annotations

from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from brooq import Claim, Job, PayloadError, Queue
from brooq.contrib.lifespan import lifespan
from brooq.postgres import PostgresStore
from examples.database import given

queue = Queue(PostgresStore(AsyncConnectionPool(given(), open=False)))


@queue.kind("hook.received")
async def received(claim: Claim) -> None:
    """What takes its time."""


async def take(request: Request) -> JSONResponse:
    """The sender's number is the key: a delivery that is repeated makes no second job."""
    job = Job("hook.received", await request.body(), idempotency_key=request.path_params["number"])
    try:
        job_id, created = await request.state.queue.enqueue(job)
    except PayloadError as error:
        return JSONResponse({"error": str(error)}, 422)
    return JSONResponse({"job": str(job_id)}, 202 if created else 200)


async def look(request: Request) -> JSONResponse:
    """How a job is."""
    record = await request.state.queue.find(request.path_params["job"])
    return JSONResponse({"state": record.state, "payload": record.payload} if record else {}, 200 if record else 404)


app = Starlette(
    routes=[
        Route("/hooks/{number}", take, methods=["POST"]),
        Route("/jobs/{job:uuid}", look),
    ],
    lifespan=lifespan(queue),
)
