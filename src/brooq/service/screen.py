"""The live view of the queue: what `brooq top` shows, to the size of its terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from brooq.service.layout import laid_out
from brooq.service.line import one_line
from brooq.service.output import moment, span
from brooq.service.overview import Line, Overview
from brooq.vocabulary.error import StoreError
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from rich.text import Text

HEADINGS = ("topic", "waiting", "oldest", "running", "in", "out", "died", "dead", "workers")
RIGHT, FLEXIBLE, OPTIONAL = range(1, len(HEADINGS)), [0], [6, 4, 8, 7, 5]
_FEWEST_LINES = 10
_OTHERS = 4
"""Lines beside the topics: the head, two of the table, what is left out."""


async def watch(look: Callable[[], Awaitable[Overview]], period: float) -> None:
    """Look and show again and again, until canceled. While the database is away the last look stays, and it is said so."""
    from rich.console import Console  # noqa: PLC0415  only the live view needs it
    from rich.live import Live  # noqa: PLC0415

    console = Console()
    found, trouble = await look(), ""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(found, console.width, console.height, trouble), refresh=True)
            await asyncio.sleep(period)
            try:
                found, trouble = await look(), ""
            except StoreError as error:
                trouble = text("command.top_away", at=moment(found.at), reason=error)


def drawn(found: Overview, width: int, height: int, trouble: str = "") -> Text:
    """One picture, which fits its terminal; what does not fit is counted."""
    from rich.text import Text  # noqa: PLC0415  only the live view needs it

    picture = Text(no_wrap=True, overflow="ellipsis")
    picture.append(one_line(trouble)[:width] if trouble else head(found), style="bold red" if trouble else "bold")
    room = max(height, _FEWEST_LINES) - _OTHERS
    workers = worker_lines(found, width)[: max(room // 3, 3)]
    shown = found.lines[: room - len(workers)]
    options = {"right": RIGHT, "flexible": FLEXIBLE, "optional": OPTIONAL}
    first, rule, *rows = laid_out(headings(), [cells(line) for line in shown], width, **options)
    picture.append(f"\n{first[:width]}\n{rule[:width]}", style="dim")
    for line, row in zip(shown, rows, strict=True):
        picture.append(f"\n{row[:width]}", style=_style(line))
    if len(shown) < len(found.lines):
        picture.append("\n" + text("command.top_more", count=len(found.lines) - len(shown)), style="dim")
    for each in workers:
        picture.append(f"\n{each}", style="cyan")
    return picture


def head(found: Overview) -> str:
    """Everything in one line."""
    busy, slots = found.busy
    return text(
        "command.top_head", at=moment(found.at), waiting=sum(line.waiting for line in found.lines),
        rate=f"{sum(line.done for line in found.lines):.1f}", workers=len(found.there), busy=busy, slots=slots,
    )  # fmt: skip


def headings() -> list[str]:
    """Of the columns."""
    return [text(f"command.top_{name}") for name in HEADINGS]


def cells(line: Line) -> list[str]:
    """A topic in a table."""
    name = f"{line.topic} {text('command.top_paused')}" if line.paused else line.topic
    waiting = f"{line.waiting}{'' if line.exact else '+'}"
    oldest = span(line.oldest) if line.oldest > 0 else "-"
    rates = [f"{rate:.1f}" if rate else "-" for rate in (line.made, line.done, line.died)]
    return [name, waiting, oldest, str(line.running), *rates, str(line.dead), str(line.workers)]


def worker_lines(found: Overview, width: int) -> list[str]:
    """A line a worker, the busiest first, with a bar of its slots."""
    workers = sorted(found.there, key=lambda each: (-each.occupied, each.name))
    lines = []
    for each in workers:
        length = min(each.slots, 20)
        full = round(length * min(each.occupied / max(each.slots, 1), 1.0))
        bar = "█" * full + "░" * (length - full)
        lines.append(one_line(f"{each.name}  {bar} {each.occupied}/{each.slots}  {', '.join(each.topics)}")[:width])
    return lines


def _style(line: Line) -> str:
    if line.paused:
        return "yellow"
    return "red" if line.oldest > 0 and not line.workers else ""
