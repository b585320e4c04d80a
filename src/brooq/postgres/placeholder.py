"""Placeholders for drivers that do not know `$1`: the statements are written once, and adapted here mechanically."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*) | (?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*") | \$(?P<number>\d+)\b | (?P<percent>%)""",
    re.VERBOSE,
)


@cache
def named(statement: str) -> str:
    """The statement with `%(p1)s` for `$1` and with every other percent sign doubled, names and literals included;
    without its comments, which name the parameters too."""
    return _TOKEN.sub(_replace, statement)


def arguments(parameters: Sequence[Any]) -> dict[str, Any]:
    """The parameters by the names of `named`."""
    return {f"p{number}": value for number, value in enumerate(parameters, 1)}


def _replace(token: re.Match[str]) -> str:
    if token["comment"] is not None:
        return ""
    if token["quoted"] is not None:
        return token["quoted"].replace("%", "%%")
    return f"%(p{token['number']})s" if token["number"] else "%%"
