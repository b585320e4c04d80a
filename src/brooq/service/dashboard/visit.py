"""One request to the dashboard: who asks, what for, and what may be done for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from brooq.service.dashboard.access import COOKIE, Access, Session
from brooq.service.dashboard.desk import Desk
from brooq.service.dashboard.page import render

MAX_FORM = 256 * 1024
MAX_FIELDS = 1000


class Refused(Exception):
    """The request is not served; the code of the answer, and the key of its text."""

    def __init__(self, code: int, key: str) -> None:
        super().__init__(key)
        self.code = code
        self.key = key


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody who is logged in."""

    request: Request
    session: Session
    desk: Desk
    payloads: bool
    """Whether payloads and results may be shown."""

    def page(self, template: str, code: int = 200, **values: Any) -> Response:
        """A page."""
        return render(
            self.request, template, self.session, code, said=said(self.request), payloads=self.payloads, **values
        )

    def ask(self, name: str, limit: int = 1024) -> str | None:
        """A value of the address; None when it is empty."""
        value = self.request.query_params.get(name, "").strip()
        return value[:limit].replace("\0", "") or None


def said(request: Request) -> dict[str, Any] | None:
    """What the last action did, as its redirect tells: a word of ours and two counts, nothing that could be made up."""
    word = request.query_params.get("said", "")
    if word not in SAID:
        return None
    count, rest = (request.query_params.get(name, "0") for name in ("n", "m"))
    whole = [int(each) if each.isascii() and each.isdigit() and len(each) < 7 else 0 for each in (count, rest)]
    return {"key": f"board.said_{word}", "count": whole[0], "rest": whole[1], "bad": word in BAD}


BAD = frozenset({"nothing", "unknown", "busy", "unscheduled", "unreadable"})
SAID = frozenset({"canceled", "retried", "paused", "resumed", "held", "continued", "ran"}) | BAD


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form. Raises Refused when it is too large or of another kind."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "board.refused_form")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_FORM:
            raise Refused(413, "board.refused_form")
    try:
        return parse_qs(content.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Refused(400, "board.refused_form") from None


def came_from_here(request: Request) -> bool:
    """Whether a page of ours sent the form, by the word of the browser, which no page can forge."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin", "")
    return origin in {f"http://{request.headers.get('host')}", f"https://{request.headers.get('host')}"}


def session_of(request: Request, access: Access) -> Session | None:
    """Who asks."""
    return access.session(request.cookies.get(COOKIE))


def place(value: str | None) -> str:
    """A path of ours to go on at: never another site."""
    sound = value is not None and value.startswith("/") and not value.startswith(("//", "/\\")) and value.isprintable()
    return value if sound and value is not None and "\\" not in value else "/"


def go(to: str) -> Response:
    """On to a page."""
    return RedirectResponse(to, 303)
