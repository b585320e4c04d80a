"""Progress of long work, on stderr when that is a terminal: pipes and logs see nothing of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

MANY = 50
"""From how many steps on a bar is worth showing."""


def counted(steps: Sequence[T]) -> Iterator[T]:
    """The steps one after the other, with a bar when there are many.

    Where stdout is a terminal too, the lines that the work prints there are progress enough.
    """
    if len(steps) < MANY or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from steps
        return
    from rich.console import Console  # noqa: PLC0415  only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        for step in steps:
            yield step
            progress.advance(task)
