"""What commands print: tables for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from brooq.service.line import one_line, shorten
from brooq.vocabulary.job import JobRecord


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print rows under headings; `right` are the columns of numbers. On a terminal with lines and to its width."""
    if sys.stdout.isatty():
        _rich_table(headings, rows, right)
        return
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    from rich import box  # noqa: PLC0415  only a terminal needs it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        # An id is useless when it is cut.
        made.add_column(heading, justify="right" if index in right else "left", no_wrap=index == 0, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))  # Text: what stands in a cell is no markup
    Console().print(made)


def object_line(values: Mapping[str, Any], payload: str | None = None) -> str:
    """One JSON object on one line. `payload` is JSON text and goes in as it is: no number of it is read or rounded."""
    written = json.dumps(values, ensure_ascii=False, default=_as_json)
    if payload is not None:
        written = f'{written[:-1]}{", " if values else ""}"payload": {payload}}}'
    return one_line(written)


def _as_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def record_line(record: JobRecord) -> str:
    """A job as one JSON object. Its `payload` has to be JSON text, as the reader leaves it."""
    values = {name: getattr(record, name) for name in JobRecord.__slots__ if name not in {"payload", "failures"}}
    values["failures"] = [
        {"attempt": each.attempt, "at": each.at, "worker": each.worker, "error": each.error} for each in record.failures
    ]
    return object_line(values, record.payload)


def moment(value: datetime | None) -> str:
    """A time in the user's own zone, to the second."""
    return "-" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def cell(value: object, width: int = 60) -> str:
    """A value in a table: on one line, cut."""
    return "-" if value in {None, ""} else shorten(str(value), width)
