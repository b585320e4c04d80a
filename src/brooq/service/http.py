"""The HTTP surface, on loopback, within the event loop of the worker or of the supervisor of several: health, metrics, and
whatever parts are put on it (requirements O2, O3)."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from brooq.engine.store import Store
from brooq.service.connection import MAX_HEADERS, BoundedProtocol, bounded
from brooq.service.gate import Gate
from brooq.service.health import Examiner
from brooq.service.token import Tokens
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

BACKLOG = 128
"""How many connections are taken in one turn of the loop: jobs have their turn in between."""


class Part(Protocol):
    """Something that is put on the surface beside health and metrics."""

    @property
    def routes(self) -> Sequence[Route]:
        """What it answers to."""

    def refuse(self, request: Request, error: HTTPException) -> Response | None:
        """Its way to say that there is nothing at this path, or not by this method; None: the path is none of its own."""

    def watch(self, store: Store) -> None:
        """Show this store from now on."""

    def end_streams(self) -> None:
        """Let answers that have no end of their own come to one."""

    async def close(self) -> None:
        """Let go of what it opened."""


def make_application(
    health: Examiner, registry: CollectorRegistry, tokens: Tokens, load: Callable[[], Awaitable[Sequence[Part]]]
) -> ASGIApp:
    """The ASGI application. Without tokens `/metrics` is open, as health always is. `load` is asked for the parts when
    something else than these is asked for; they look after themselves."""
    parts: list[Part] = []

    async def healthz(request: Request) -> Response:
        verdict = await health.liveness()
        return JSONResponse(verdict.as_json(), 200 if verdict.alive else 503)

    async def readyz(request: Request) -> Response:
        verdict = await health.report()
        return JSONResponse(verdict.as_json(), 200 if verdict.well else 503)

    async def metrics(request: Request) -> Response:
        if tokens and not tokens.accept(request.scope["headers"]):
            return PlainTextResponse("unauthorized\n", 401, {"www-authenticate": 'Bearer realm="brooq"'})
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        for part in parts:
            answer = part.refuse(request, error)
            if answer is not None:
                return answer
        return PlainTextResponse(error.detail, error.status_code, error.headers)

    routes = [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
    application = Starlette(routes=routes, exception_handlers={HTTPException: refuse})

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if not parts and all(route.matches(scope)[0] is Match.NONE for route in routes):
            found = await load()
            if not parts:  # nobody else has asked meanwhile
                parts.extend(found)
                more = [route for part in found for route in part.routes]
                routes.extend(more)
                application.router.routes.extend(more)
        await application(scope, receive, send)

    return Gate(serve, routes, registry)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the worker's."""
        yield


class Surface:
    """The server, on a socket that listens already."""

    def __init__(
        self, application: ASGIApp, listener: socket.socket, protocol: type[BoundedProtocol] | None = None
    ) -> None:
        """Nothing runs before `start`. `protocol` bounds connections; by default as `bounded` says."""
        config = uvicorn.Config(
            application,
            loop="none",
            http=protocol or bounded(),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=MAX_HEADERS,
        )
        self._server = _Server(config)
        self._listener = listener
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._serve(), name="brooq http")

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._listener])
        except (Exception, SystemExit) as error:
            log.exception(text("surface.failed", reason=type(error).__name__))

    async def stop(self) -> None:
        """Answer what is being asked, within a second or two; then close the socket."""
        if self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task], timeout=2.0)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=1.0)
        self._listener.close()
