"""Ids of jobs as arguments, or from standard input: what other commands print can be piped in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import click

from brooq.service.commands.parameter import ID
from brooq.service.line import shorten
from brooq.vocabulary.message import text

STDIN = "-"


class _IdOrInput(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    name = "id"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return value if value == STDIN else ID.convert(value, parameter, context)


def read_ids(values: Sequence[UUID | str]) -> list[UUID]:
    """All ids, each once, in their order. Everything is read before anything is done: a bad line changes nothing.

    Raises UsageError naming the line.
    """
    found: dict[UUID, None] = {}
    for value in values:
        found.update(dict.fromkeys(_read() if isinstance(value, str) else [value]))
    return list(found)


def _read() -> Iterator[UUID]:
    for number, line in enumerate(sys.stdin, 1):
        if line.strip():
            id = _id_of(line.strip())
            # The heading of a table is no fault of whoever pipes it in.
            if id is None and number == 1 and line.split(maxsplit=1)[0] == text("command.heading_id"):
                continue
            if id is None:
                raise click.UsageError(text("command.bad_id_line", number=number, line=shorten(line.strip(), 60)))
            yield id


def _id_of(line: str) -> UUID | None:
    """The id at the beginning of a line of text, or in a line of JSON."""
    try:
        if line.startswith("{"):
            return UUID(str(json.loads(line)["id"]))
        return UUID(line.split(maxsplit=1)[0])
    except (ValueError, KeyError, RecursionError):
        return None


def ids_argument(*, required: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The argument `ids`: one or several, `-` for those on standard input, one a line. To be read by `read_ids`."""
    return click.argument("ids", type=_IdOrInput(), nargs=-1, required=required, metavar="ID... | -")
