"""What goes wrong, as problem details (RFC 9457): each with a fixed word, a title and its status."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from starlette.responses import Response

from brooq.service.api.shape import Problem, encode
from brooq.vocabulary.error import (
    BrooqError,
    OutcomeUnknown,
    SchemaError,
    StoreBusy,
    StoreError,
    StoreRefused,
)
from brooq.vocabulary.message import text

MEDIA_TYPE = "application/problem+json"

TITLES: Mapping[str, tuple[int, str]] = {
    "off": (404, "api.off"),
    "unauthorized": (401, "api.unauthorized"),
    "forbidden": (403, "api.forbidden"),
    "no-such-path": (404, "api.no_such_path"),
    "no-such-method": (405, "api.no_such_method"),
    "no-such-job": (404, "api.no_such_job"),
    "too-late": (409, "api.too_late"),
    "not-ended": (409, "api.not_ended"),
    "under-way": (409, "api.under_way"),
    "not-json": (400, "api.not_json"),
    "wrong-type": (415, "api.wrong_type"),
    "too-large": (413, "api.too_large"),
    "invalid": (422, "api.invalid"),
    "refused": (422, "api.refused"),
    "busy": (503, "api.busy"),
    "no-store": (503, "api.no_store"),
    "no-database": (503, "api.no_database"),
    "no-schema": (503, "api.no_schema"),
    "fault": (500, "api.fault"),
    "outcome-unknown": (503, "api.outcome_unknown"),
}
"""Every kind of problem: its status and the key of its title."""


class Trouble(Exception):
    """A request that ends in a problem."""

    def __init__(self, kind: str, detail: str = "", job: UUID | None = None) -> None:
        """`kind` is one of TITLES."""
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.job = job


def answer(trouble: Trouble, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as an answer."""
    status, key = TITLES[trouble.kind]
    said = Problem(f"urn:brooq:problem:{trouble.kind}", text(key), status, trouble.detail, trouble.job)
    more = dict(headers or {})
    if status == 503:
        more["retry-after"] = "5"
    if status == 401:
        more["www-authenticate"] = 'Bearer realm="brooq"'
    return Response(encode(said), status, more, media_type=MEDIA_TYPE)


def of_error(error: BrooqError) -> Trouble:
    """What an error of the library means to whoever asked."""
    kind = "invalid"
    if isinstance(error, OutcomeUnknown):
        kind = "outcome-unknown"
    elif isinstance(error, SchemaError):
        kind = "no-schema"
    elif isinstance(error, StoreBusy):
        kind = "busy"
    elif isinstance(error, StoreRefused):
        kind = "refused"
    elif isinstance(error, StoreError):
        kind = "no-database"
    return Trouble(kind, str(error))
