"""The routes of the dashboard, and what each asks for first: a session, a form that came from here, a database."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from brooq.engine.store import Store
from brooq.postgres.board import Board
from brooq.service.dashboard import action, detail, listing, overview, timetable
from brooq.service.dashboard.access import COOKIE, LIFETIME, Access, Session
from brooq.service.dashboard.desk import Desk
from brooq.service.dashboard.page import (
    LANGUAGE_COOKIE,
    POLICY,
    THEME_COOKIE,
    THEMES,
    assets,
    render,
    version,
)
from brooq.service.dashboard.pulse import Pulse
from brooq.service.dashboard.visit import Refused, Visit, came_from_here, form_of, go, place, session_of
from brooq.service.token import Tokens
from brooq.vocabulary.error import BrooqError, OutcomeUnknown, SchemaError
from brooq.vocabulary.message import LANGUAGES

log = logging.getLogger("brooq")

Look: TypeAlias = Callable[[Visit, Board], Awaitable[Response]]
Act: TypeAlias = Callable[[Visit, action.Form], Awaitable[Response]]
YEAR = 365 * 24 * 3600


class Dashboard:
    """The pages of one process. Shows a store once `desk.watch` has been told of it."""

    def __init__(self, tokens: Tokens, *, payloads: bool = False) -> None:
        """`tokens`: who gets in. `payloads`: whether payloads and results are shown to whoever may write."""
        self.desk = Desk()
        self._access = Access(tokens)
        self._payloads = payloads
        self._pulse = Pulse(self.desk)

    @property
    def routes(self) -> list[Route]:
        """For the surface."""
        return [
            Route("/", self._page(overview.overview), methods=["GET"]),
            Route("/topics", self._page(overview.topics), methods=["GET"]),
            Route("/topics/act", self._form(action.on_topic), methods=["POST"]),
            Route("/jobs", self._page(listing.jobs), methods=["GET"]),
            Route("/jobs/act", self._form(action.on_jobs), methods=["POST"]),
            Route("/jobs/{id}", self._page(detail.detail), methods=["GET"]),
            Route("/dead", self._page(listing.dead), methods=["GET"]),
            Route("/dead/act", self._form(action.on_group), methods=["POST"]),
            Route("/schedules", self._page(timetable.schedules), methods=["GET"]),
            Route("/schedules/act", self._form(action.on_schedule), methods=["POST"]),
            Route("/workers", self._page(listing.workers), methods=["GET"]),
            Route("/login", self._log_in, methods=["GET", "POST"]),
            Route("/logout", self._form(self._log_out, writing=False), methods=["POST"]),
            Route("/set", _set, methods=["GET"]),
            Route("/events", self._events, methods=["GET"]),
            Route("/static/{version}/{name}", _static, methods=["GET"]),
        ]

    def refuse(self, request: Request, error: HTTPException) -> Response | None:
        """Whoever asks for a page that is not there gets one that says so; programs get what they understand."""
        if "text/html" not in request.headers.get("accept", "") or error.status_code != 404:
            return None
        return self._refuse(request, Refused(404, "board.refused_path"))

    def watch(self, store: Store) -> None:
        """Show this store from now on."""
        self.desk.watch(store)

    def end_streams(self) -> None:
        """Tell every open page that this is the end; it comes back by itself."""
        self._pulse.end()

    async def close(self) -> None:
        """End the streams, close the connections."""
        await self._pulse.close()
        await self.desk.close()

    def _page(self, look: Look) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            session = session_of(request, self._access)
            if session is None:
                here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return go("/login" if here == "/" else f"/login?{urlencode({'next': here})}")
            board = self.desk.board
            if board is None:
                return render(request, "trouble.html", session, 503, key="board.no_store", reason="", said=None)
            try:
                return await look(self._visit(request, session), board)
            except Refused as refused:
                return self._refuse(request, refused)
            except BrooqError as error:
                return self._trouble(request, error)

        return serve

    def _form(self, act: Act, *, writing: bool = True) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            session = session_of(request, self._access)
            if session is None:
                return go("/login")
            try:
                form = await form_of(request)
                self._check(request, session, form, writing=writing)
                return await act(self._visit(request, session), form)
            except Refused as refused:
                return self._refuse(request, refused)
            except BrooqError as error:
                return self._trouble(request, error)

        return serve

    def _visit(self, request: Request, session: Session) -> Visit:
        # Whoever may only look sees no payload, here as anywhere (rule S7).
        return Visit(request, session, self.desk, self._payloads and session.writes)

    def _check(self, request: Request, session: Session, form: action.Form, *, writing: bool) -> None:
        """Raises Refused when this form may not do what it asks for."""
        if not came_from_here(request) or not session.accepts(form.get("seal", [""])[0]):
            raise Refused(403, "board.refused_foreign")
        if writing and not session.writes:
            raise Refused(403, "board.refused_reading")
        if writing and self.desk.board is None:
            raise Refused(503, "board.no_store")

    def _refuse(self, request: Request, refused: Refused) -> Response:
        session = session_of(request, self._access)
        return render(request, "trouble.html", session, refused.code, key=refused.key, reason="", said=None)

    def _trouble(self, request: Request, error: BrooqError) -> Response:
        session = session_of(request, self._access)
        key = "board.no_answer"
        if isinstance(error, SchemaError):
            key = "board.no_schema"
        elif isinstance(error, OutcomeUnknown):
            key = "board.unknown_outcome"
        return render(request, "trouble.html", session, 503, key=key, reason=str(error), said=None)

    async def _log_in(self, request: Request) -> Response:
        """Shows the form, or takes it. Who comes with a session already goes on."""
        if request.method == "GET":
            if session_of(request, self._access) is not None:
                return go(place(request.query_params.get("next")))
            return self._ask_in(request, 200)
        try:
            form = await form_of(request)
        except Refused as refused:
            return self._refuse(request, refused)
        if not came_from_here(request):
            return self._refuse(request, Refused(403, "board.refused_foreign"))
        cookie = self._access.log_in(form.get("token", [""])[0], form.get("name", [""])[0])
        if cookie is None:
            return self._ask_in(request, 403, wrong=True)
        # Behind a proxy that speaks TLS the browser says so: then the cookie never leaves it in the clear.
        secure = request.headers.get("origin", "").startswith("https:")
        response = go(place(form.get("next", [""])[0]))
        response.set_cookie(COOKIE, cookie, LIFETIME, path="/", secure=secure, httponly=True, samesite="strict")
        return response

    def _ask_in(self, request: Request, code: int, *, wrong: bool = False) -> Response:
        to = place(request.query_params.get("next"))
        return render(
            request, "login.html", None, code, wrong=wrong, closed=not self._access, next=to, said=None, payloads=False
        )

    async def _log_out(self, visit: Visit, form: action.Form) -> Response:
        response = go("/login")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def _events(self, request: Request) -> Response:
        """A stream that tells when to look anew."""
        if session_of(request, self._access) is None:
            return Response(status_code=401)
        if self._pulse.full:
            return Response(status_code=503, headers={"retry-after": "10"})
        return StreamingResponse(
            self._pulse.listen(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )


async def _static(request: Request) -> Response:
    asset = assets().get(request.path_params["name"])
    if asset is None:
        return Response(status_code=404)
    squeezed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"content-type": asset.type, "content-security-policy": POLICY, "vary": "accept-encoding"}
    if squeezed:
        headers["content-encoding"] = "gzip"
    # Only the version that is asked for may be kept: after an upgrade another one is asked for.
    if request.path_params["version"] == version():
        headers["cache-control"] = f"public, max-age={YEAR}, immutable"
    return Response(asset.squeezed if squeezed else asset.content, 200, headers)


async def _set(request: Request) -> Response:
    """Language and theme of the reader. They change nothing but how pages look, so a link may set them."""
    response = go(place(request.query_params.get("next")))
    for name, cookie, choices in (("lang", LANGUAGE_COOKIE, LANGUAGES), ("theme", THEME_COOKIE, THEMES)):
        chosen = request.query_params.get(name)
        if chosen in choices:
            response.set_cookie(cookie, str(chosen), YEAR, path="/", httponly=True, samesite="lax")
    return response
