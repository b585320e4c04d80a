"""A statement without what was put into it: its shape tells whose it is, its literals are nobody's business."""

from __future__ import annotations

import re

from brooq.service.line import shorten

# From left to right: what is inside of one of these is never looked at for another. PostgreSQL cuts long statements, so
# each of them may end with the text.
_PIECES = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<dollar>\$(?P<tag>[A-Za-z_]*)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<escaped>\b[eE]'(?:[^'\\]|''|\\.)*(?:'|\\?\Z))
    |(?P<literal>(?:\b[bBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|\Z))
    |(?P<identifier>"(?:[^"]|"")*(?:"|\Z))
    |(?P<number>(?<![\w$])[0-9][\w.]*)
    """,
    re.DOTALL | re.VERBOSE,
)


def outline(statement: str, width: int = 120) -> str:
    """The statement on one line, comments left out, every string and number a `?`, cut to a width."""

    def put(match: re.Match[str]) -> str:
        if match["comment"] is not None:
            return " "
        return match.group() if match["identifier"] is not None else "?"

    return shorten(" ".join(_PIECES.sub(put, statement).split()), width)
