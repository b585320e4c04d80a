"""Colours on a terminal that wants them: none with NO_COLOR (no-color.org), none on a dumb one, none in a pipe."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO


def coloured(stream: TextIO | None = None) -> bool:
    """Whether what goes to a stream (stdout) may have colours."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(string: str, stream: TextIO | None = None, **style: Any) -> str:
    """The string in a style of click (`fg`, `bold`), where that may be."""
    if not coloured(stream):
        return string
    import click  # noqa: PLC0415  the extra's

    return click.style(string, **style)
