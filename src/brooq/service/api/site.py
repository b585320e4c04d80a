"""The way into the API: who may ask, how much may be said, and what is answered when something goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brooq.engine.reason import sanitize
from brooq.engine.store import Store
from brooq.postgres.store import PostgresStore
from brooq.service.api.deed import DEEDS, PATIENCE, Ask, Deed, Desk
from brooq.service.api.document import PREFIX, document
from brooq.service.api.problem import Trouble, answer, of_error
from brooq.service.api.shape import encode
from brooq.service.token import Right, Tokens
from brooq.vocabulary.error import BrooqError
from brooq.vocabulary.message import language, text

log = logging.getLogger("brooq")

MAX_BODY = 4 * 1024 * 1024
"""How large in bytes a request may be."""
MAX_ACTOR = 128
ACTOR = "x-brooq-actor"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LONGEST = 2 * PATIENCE + 5.0
"""How many seconds a request may take: waiting for its turn included."""


class Api:
    """The API on the surface. Off while there is no token; without a store every request ends in a problem."""

    def __init__(self, tokens: Tokens) -> None:
        """`tokens` say who may read and who may write."""
        self._tokens = tokens
        self._desk: Desk | None = None

    @property
    def routes(self) -> Sequence[Route]:
        """One for each path, so that a method that it has not is told from a path that there is not."""
        by_path: dict[str, dict[str, Deed]] = {}
        for deed in DEEDS:
            by_path.setdefault(deed.path, {})[deed.method] = deed
        found = [Route(f"{PREFIX}/openapi.json", self._describe, methods=["GET"])]
        # Fixed words before the places where a word stands: /jobs/bulk is no job.
        for path, deeds in sorted(by_path.items(), key=lambda each: "{" in each[0]):
            # Every method comes here, so that the first path that fits is the one that is meant.
            found.append(Route(PREFIX + path, self._serve(deeds), methods=list(METHODS)))
        return found

    def watch(self, store: Store) -> None:
        """Answer from this store from now on; one that is not in PostgreSQL has nothing to read from."""
        if isinstance(store, PostgresStore) and (self._desk is None or self._desk.store is not store):
            self._desk = Desk(store)

    def end_streams(self) -> None:
        """There are none: every answer has its end."""

    async def close(self) -> None:
        """Close the connections."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.close()

    def refuse(self, request: Request, error: HTTPException) -> Response | None:
        """No such path, or no such method."""
        if not request.url.path.startswith("/api/"):
            return None
        try:
            self._admit(request, Right.READ)
        except Trouble as trouble:
            return answer(trouble)
        kind = "no-such-method" if error.status_code == 405 else "no-such-path"
        return answer(Trouble(kind), error.headers)

    async def _describe(self, request: Request) -> Response:
        try:
            self._admit(request, Right.READ)
        except Trouble as trouble:
            return answer(trouble)
        return Response(document(language()), media_type="application/json")

    def _serve(self, deeds: dict[str, Deed]) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            deed = deeds.get("GET" if request.method == "HEAD" else request.method)
            try:
                if deed is None:
                    self._admit(request, Right.READ)
                    return answer(Trouble("no-such-method"), {"allow": ", ".join(sorted(deeds))})
                status, said = await self._do(deed, request)
            except Trouble as trouble:
                return answer(trouble)
            except BrooqError as error:
                return answer(of_error(error))
            except TimeoutError:
                kind = "outcome-unknown" if deed is not None and deed.right is Right.WRITE else "no-database"
                return answer(Trouble(kind, text("api.took_too_long", seconds=_LONGEST)))
            except Exception:
                log.exception(text("api.fault_logged", deed=request.url.path))
                return answer(Trouble("fault"))
            return Response(encode(said), status, media_type="application/json")

        return serve

    async def _do(self, deed: Deed, request: Request) -> tuple[int, Any]:
        right = self._admit(request, deed.right)
        said = None if deed.body is None else _read(await _body(request, deed), deed)
        query = None if deed.query is None else _query(request, deed.query)
        if deed.query is None and request.url.query:
            raise Trouble("invalid", text("api.no_query"))
        desk = self._desk
        if desk is None:
            raise Trouble("no-store")
        actor = sanitize(request.headers.get(ACTOR, "").strip(), MAX_ACTOR)
        ask = Ask(request.path_params, said, query, f"{actor} (api)" if actor else "api", right)
        async with asyncio.timeout(_LONGEST):
            return await deed.do(desk, ask)

    def _admit(self, request: Request, needed: Right) -> Right:
        """Who may ask; before anything of the request is read."""
        if not self._tokens:
            raise Trouble("off", text("api.off_detail"))
        right = self._tokens.right(request.scope["headers"])
        if right < Right.READ:
            raise Trouble("unauthorized", text("api.unauthorized_detail"))
        if right < needed:
            raise Trouble("forbidden", text("api.forbidden_detail"))
        return right


async def _body(request: Request, deed: Deed) -> bytes:
    """The body, never more of it than is allowed."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise Trouble("too-large", text("api.too_large_detail", limit=MAX_BODY))
    if not body and deed.optional:
        return b""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Trouble("wrong-type", text("api.wrong_type_detail"))
    return bytes(body)


def _read(body: bytes, deed: Deed) -> Any:
    if not body and deed.optional:
        return None
    assert deed.body is not None
    try:
        return msgspec.json.decode(body, type=deed.body)
    except msgspec.ValidationError as error:
        raise Trouble("invalid", str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Trouble("not-json", str(error)) from None


def _query(request: Request, kind: type[msgspec.Struct]) -> Any:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Trouble("invalid", text("api.twice", name=name[:80]))
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Trouble("invalid", str(error)) from None
