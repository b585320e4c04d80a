"""`brooq top`: the queue as it moves."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from brooq.service.commands.parameter import DURATION
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.service.overview import Overview

_SHORTEST = timedelta(milliseconds=500)


@click.command("top", help=text("command.top_long"))
@click.option("--once", is_flag=True, help=text("command.once_help"))
@click.option(
    "--every", type=DURATION, default="2s", show_default=True, metavar=text("command.duration_value"),
    help=text("command.every_help"),
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=text("command.top_json_help"))
def top(every: timedelta, *, once: bool, as_json: bool) -> None:
    """Show, until Ctrl-C; once where nobody can watch."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415
    from brooq.service.overview import as_values, look  # noqa: PLC0415
    from brooq.service.screen import watch  # noqa: PLC0415

    period = max(every, _SHORTEST).total_seconds()

    async def work() -> None:
        async with session() as opened:
            if as_json:
                while True:
                    click.echo(object_line(as_values(await look(opened))))
                    sys.stdout.flush()
                    if once:
                        return
                    await asyncio.sleep(period)
            if once or not sys.stdout.isatty():
                _print(await look(opened))
                return
            await watch(lambda: look(opened), period)

    try:
        run(work())
    except KeyboardInterrupt:
        return  # that is how one leaves


def _print(found: Overview) -> None:
    from brooq.service.output import paragraph, table  # noqa: PLC0415
    from brooq.service.screen import FLEXIBLE, OPTIONAL, RIGHT, cells, head, headings  # noqa: PLC0415

    paragraph(head(found))
    rows = [cells(line) for line in found.lines]
    table(headings(), rows, right=RIGHT, flexible=FLEXIBLE, optional=OPTIONAL)
