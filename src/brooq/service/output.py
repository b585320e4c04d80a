"""What commands print: lines for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from brooq.service.colour import styled
from brooq.service.layout import laid_out
from brooq.service.line import one_line, shorten
from brooq.vocabulary.job import JobRecord
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    flexible: Sequence[int] = (),
    optional: Sequence[int] = (),
) -> None:
    """Print rows under headings. `right`: columns of numbers.

    On a terminal that is too narrow, cells of the `flexible` columns are cut, and where that is not enough the `optional`
    columns are left out, the first named first. A line never breaks: an id that is cut or broken is of no use.
    """
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    first, rule, *rest = laid_out(headings, rows, width, right=right, flexible=flexible, optional=optional)
    for line in [styled(first, bold=True), rule, *rest] if terminal else [first, *rest]:
        sys.stdout.write(line + "\n")


def paragraph(string: str, indent: int = 0, *, hanging: bool = False) -> None:
    """Print a line of text, on a terminal wrapped to its width. Blanks at its beginning indent all of it further.

    `hanging`: something stands where its first line would be indented.
    """
    line = one_line(string)
    indent += len(line) - len(line.lstrip(" "))
    first = " " * indent
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns, 40)
        # An id or a path that is longer than the line stays whole: it is there to be copied.
        wrapped = textwrap.wrap(
            line.strip(), width, initial_indent=first, subsequent_indent=first if hanging else f"{first}  ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines = "\n".join(wrapped)
    else:
        lines = f"{first}{line.strip()}"
    sys.stdout.write((lines[indent:] if hanging else lines) + "\n")


_SEVERITIES = {"ok": "green", "note": "yellow", "wrong": "red"}


def finding_line(severity: str, message: str, remedy: str = "") -> None:
    """Print how something is (`ok`, `note` or `WRONG`), a line of text beside it, and below it what helps."""
    word = text(f"command.{severity}")
    sys.stdout.write(f"{styled(word, fg=_SEVERITIES[severity])}  ")
    paragraph(message, len(word) + 2, hanging=True)
    if remedy:
        paragraph(f"→ {remedy}", len(word) + 2)


def object_line(values: Mapping[str, Any], **texts: str) -> str:
    """One JSON object on one line. `texts` are JSON and go in as they are: no number of them is read or rounded."""
    written = json.dumps(values, ensure_ascii=False, default=_as_json)
    for name, value in texts.items():
        written = f'{written[:-1]}{"" if written == "{}" else ", "}"{name}": {value}}}'
    return one_line(written)


def _as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def record_line(record: JobRecord) -> str:
    """A job as one JSON object. Its `payload` has to be JSON text, as the reader leaves it."""
    apart = {"payload", "failures", "result", "progress"}
    values = {name: getattr(record, name) for name in JobRecord.__slots__ if name not in apart}
    values["failures"] = [
        {"attempt": each.attempt, "at": each.at, "worker": each.worker, "error": each.error} for each in record.failures
    ]
    told = record.progress
    values["progress"] = told and {"done": told.done, "note": told.note, "at": told.at}
    return object_line(values, result=encode(record.result), payload=record.payload)


def moment(value: datetime | None) -> str:
    """A time in the user's own zone, to the second."""
    return "-" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """A length of time as a person says it, two units at most: `4m12s`, `3d2h`. Units are those of the settings."""
    seconds = abs(seconds)
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 and seconds % 1 >= 0.05 else f"{int(seconds)}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes:02}m" if minutes else f"{hours}h"
    return f"{minutes}m{rest:02}s" if rest else f"{minutes}m"


def size(count: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit in {"B", "kB"} else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def ago(now: datetime, then: datetime) -> str:
    """A moment as seen from now: `3m ago`, `in 3m`."""
    seconds = (then - now).total_seconds()
    return text("command.span_in" if seconds > 0 else "command.span_ago", span=span(seconds))


def cell(value: object, width: int = 60) -> str:
    """A value in a table: on one line, cut."""
    return "-" if value in {None, ""} else shorten(str(value), width)
