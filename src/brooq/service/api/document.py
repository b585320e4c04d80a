"""The document that describes the API: OpenAPI 3.1, generated of its types and of the table of its deeds."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from brooq.service.api import shape
from brooq.service.api.deed import DEEDS, Deed
from brooq.service.api.problem import MEDIA_TYPE
from brooq.service.token import Right
from brooq.vocabulary.message import text
from brooq.vocabulary.version import VERSION

PREFIX = "/api/v1"
_REFERENCE = "#/components/schemas/{name}"
_EVERYWHERE = (401, 404, 405, 422, 503)
_WITH_BODY = (400, 413, 415)


@cache
def document(language: str) -> bytes:
    """As JSON, in a language (the one that texts are in while it is made)."""
    types: set[type[Any]] = {shape.Problem}
    for deed in DEEDS:
        types.update(deed.answers.values())
        if deed.body is not None:
            types.add(deed.shown or deed.body)
    ordered = sorted(types, key=lambda each: each.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for deed in DEEDS:
        paths.setdefault(PREFIX + deed.path, {})[deed.method.lower()] = _operation(deed)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "brooq", "version": VERSION, "description": text("api.about")},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": text("api.token")}},
            },
            "security": [{"token": []}],
        }
    )


def _operation(deed: Deed) -> dict[str, Any]:
    problems = {*_EVERYWHERE, *deed.problems, *(_WITH_BODY if deed.body else ())}
    if deed.right is Right.WRITE:
        problems.add(403)
    said: dict[str, Any] = {
        "operationId": deed.name,
        "summary": text(f"api.do_{deed.name}"),
        "responses": {
            **{str(status): _content(kind, "application/json") for status, kind in deed.answers.items()},
            **{str(status): _content(shape.Problem, MEDIA_TYPE) for status in sorted(problems)},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema} for name, schema in deed.parameters.items()
    ]
    parameters += _query(deed)
    if deed.right is Right.WRITE:
        parameters.append(
            {
                "name": "X-Brooq-Actor",
                "in": "header",
                "description": text("api.actor"),
                "schema": {"type": "string"},
            }
        )
    if parameters:
        said["parameters"] = parameters
    if deed.body is not None:
        shown = deed.shown or deed.body
        said["requestBody"] = {"required": not deed.optional, "content": _content(shown, "application/json")["content"]}
    return said


def _content(kind: type[Any], media: str) -> dict[str, Any]:
    return {
        "description": (kind.__doc__ or "").split("\n")[0],
        "content": {media: {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}},
    }


def _query(deed: Deed) -> list[dict[str, Any]]:
    if deed.query is None:
        return []
    _, found = msgspec.json.schema_components([deed.query], ref_template=_REFERENCE)
    parameters = []
    for name, schema in found[deed.query.__name__]["properties"].items():
        parameters.append({"name": name, "in": "query", "schema": schema})
    return parameters
