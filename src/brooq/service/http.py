"""The HTTP surface: `/healthz` and `/metrics`, on loopback, within the event loop of the worker or of the supervisor of
several (requirements O2, O3)."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from brooq.service.health import Examiner
from brooq.service.loopback import is_loopback
from brooq.service.token import Tokens
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

MAX_HEADERS = 2 * 1024 * 1024
"""Up to this size in bytes a header is refused by us with an answer of its kind, beyond it by the server."""

_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
OTHER = "other"


def make_application(health: Examiner, registry: CollectorRegistry, tokens: Tokens) -> ASGIApp:
    """The ASGI application. Without tokens `/metrics` is open, as `/healthz` always is; there is nothing else."""

    async def healthz(request: Request) -> Response:
        report = await health.report()
        return JSONResponse(report.as_json(), 200 if report.well else 503)

    async def metrics(request: Request) -> Response:
        if tokens and not tokens.accept(request.scope["headers"]):
            return PlainTextResponse("unauthorized\n", 401, {"www-authenticate": 'Bearer realm="brooq"'})
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    routes = [Route("/healthz", healthz, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]
    return _Gate(Starlette(routes=routes), routes, registry)


def addressed_here(scope: Scope) -> bool:
    """Whether the Host header names loopback: a page that a browser got elsewhere must not read us by rebinding a name."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None:
        return False
    host = match.group(1).decode("ascii").strip("[]").lower()
    return host == "localhost" or is_loopback(host)


class _Gate:
    """Around every request: the Host check, the headers that every answer has, and the surface's own metrics."""

    def __init__(self, application: ASGIApp, routes: list[Route], registry: CollectorRegistry) -> None:
        self._application = application
        self._routes = routes
        labels = ["route", "method", "code"]
        self._requests = Counter(
            "brooq_http_requests", "Requests to the HTTP surface of the worker.", labels, registry=registry
        )
        self._seconds = Histogram(
            "brooq_http_request_duration_seconds",
            "How long requests to the HTTP surface took.",
            labels,
            registry=registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        code = "500"

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = str(message["status"])
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        try:
            if addressed_here(scope):
                await self._application(scope, receive, answer)
            else:
                await PlainTextResponse("misdirected request\n", 421)(scope, receive, answer)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else OTHER
            labels = (self._route(scope), method, code)
            self._requests.labels(*labels).inc()
            self._seconds.labels(*labels).observe(time.perf_counter() - begun)

    def _route(self, scope: Scope) -> str:
        """The pattern, never the path: labels must not grow with what strangers ask for."""
        return next((route.path for route in self._routes if route.matches(scope)[0] is not Match.NONE), OTHER)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the worker's."""
        yield


class Surface:
    """The server, on a socket that listens already."""

    def __init__(self, application: ASGIApp, listener: socket.socket) -> None:
        """Nothing runs before `start`."""
        config = uvicorn.Config(
            application,
            loop="none",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            limit_concurrency=100,
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
