"""Templates, and what they may use: texts of the reader's language, figures, nothing that writes markup by itself."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from brooq.service.dashboard import figure
from brooq.service.dashboard.access import Session
from brooq.vocabulary.job import State
from brooq.vocabulary.message import LANGUAGES, language, phrase

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing is taken from elsewhere, and nothing that stands in a page itself is run or styled by."""
THEMES = ("auto", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE = "brooq_lang", "brooq_theme"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
MARKS = {
    State.PENDING: "○",
    State.PROCESSING: "◐",
    State.FAILED: "↻",
    State.DONE: "✓",
    State.DEAD: "✕",
    State.CANCELED: "⊘",
}
"""A state is told by its word and its mark, and only then by a colour."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page, as it is and compressed."""

    content: bytes
    squeezed: bytes
    type: str


@cache
def assets() -> dict[str, Asset]:
    """The files that pages use, by name."""
    found = {}
    for file in (files("brooq.service.dashboard") / "static").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = Asset(content, squeeze(content), kind)
    return found


@cache
def version() -> str:
    """Changes with any of the files, so that browsers may keep them for ever."""
    digest = hashlib.sha256(b"".join(each.content for _, each in sorted(assets().items())))
    return digest.hexdigest()[:12]


def squeeze(content: bytes) -> bytes:
    """Compressed as gzip; without the time, so that the same is always the same."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context  # noqa: PLC0415  megabytes, for who looks

    made = Environment(
        loader=PackageLoader("brooq.service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(asset=lambda name: f"/static/{version()}/{name}", State=State, marks=MARKS, LANGUAGES=LANGUAGES)
    made.filters.update(duration=pass_context(_duration), number=figure.number, short=figure.short, query=query)
    return made


def _duration(context: Context, seconds: float) -> str:
    return figure.duration(context["language"], seconds)


def query(values: dict[str, Any], **changed: Any) -> str:
    """A query string with some values changed; None and "" leave a name out."""
    merged = {name: value for name, value in {**values, **changed}.items() if value not in (None, "")}
    return f"?{urlencode(merged)}" if merged else "?"


def language_of(request: Request) -> str:
    """What the reader chose, else what their browser asks for, else the language of this process."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return str(chosen)
    for part in request.headers.get("accept-language", "").split(","):
        wanted = part.partition(";")[0].strip()[:2].lower()
        if wanted in LANGUAGES:
            return wanted
    return language()


def theme_of(request: Request) -> str:
    """Light, dark, or as the browser has it."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]


def render(request: Request, template: str, session: Session | None, code: int = 200, **values: Any) -> Response:
    """A whole page."""
    spoken = language_of(request)
    now = datetime.now(UTC)

    def when(moment: datetime | None) -> Markup:
        """A moment as people say it, with the exact one beside it."""
        if moment is None:
            return Markup("–")
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            moment.isoformat(), figure.exact(moment), figure.relative(spoken, moment, now)
        )

    page = (
        _environment()
        .get_template(template)
        .render(
            t=partial(phrase, spoken),
            language=spoken,
            theme=theme_of(request),
            session=session,
            seal=session.seal if session is not None else None,
            path=request.url.path,
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            when=when,
            now=now,
            **values,
        )
    )
    return answer(request, page.encode("utf-8", "replace"), "text/html; charset=utf-8", code)


def answer(request: Request, content: bytes, kind: str, code: int = 200) -> Response:
    """What is sent: compressed where the browser takes that."""
    headers = {
        "content-type": kind,
        "content-security-policy": POLICY,
        "vary": "accept-encoding, accept-language, cookie",
    }
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) > 500:
        content = squeeze(content)
        headers["content-encoding"] = "gzip"
    return Response(content, code, headers)
