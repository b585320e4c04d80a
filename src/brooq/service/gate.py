"""Around every request to the surface: the Host check, the headers that every answer has, and the surface's own metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.responses import PlainTextResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from brooq.service.loopback import is_loopback

_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}
"""An answer that brings one of these itself, a page for example, knows better."""
OTHER = "other"


def addressed_here(scope: Scope) -> bool:
    """Whether the Host header names loopback: a page that a browser got elsewhere must not read us by rebinding a name."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None:
        return False
    host = match.group(1).decode("ascii").strip("[]").lower()
    return host == "localhost" or is_loopback(host)


class Gate:
    """The way in."""

    def __init__(self, application: ASGIApp, routes: Sequence[Route], registry: CollectorRegistry) -> None:
        """`routes` are what the application answers to, now and later; their patterns are the labels of its metrics."""
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
        """Let a request in, or not."""
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        code = "500"

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = str(message["status"])
                own = list(message.get("headers", []))
                there = {name.lower() for name, _ in own}
                message = {**message, "headers": own + [each for each in _HEADERS.items() if each[0] not in there]}
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
