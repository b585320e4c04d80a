"""`brooq topics`: what is set for topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.vocabulary.steering import Limits, TopicRecord


@click.command("topics", help=text("command.topics_long"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def topics(*, as_json: bool) -> None:
    """List."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import cell, moment, object_line, table  # noqa: PLC0415

    async def work() -> list[TopicRecord]:
        async with session() as opened:
            return await opened.store.topics()

    found = [each for each in run(work()) if each.paused or each.limits.set]
    if as_json:
        for each in found:
            values: dict[str, object] = {"topic": each.topic, "paused_at": each.paused_at, "paused_by": each.paused_by}
            values |= {
                "pause_reason": each.pause_reason,
                "limits": each.limits.as_object(),
                "limits_by": each.limits_by,
            }
            click.echo(object_line(values))
        return
    if not found:
        click.echo(text("command.no_topics"), err=True)
        return
    names = ("topic", "paused", "by", "reason", "limits", "limits_by")
    rows = [
        (each.topic, moment(each.paused_at), cell(each.paused_by), cell(each.pause_reason), _shown(each.limits) or "-",
         (cell(each.limits_by) if each.limits_by else text("command.by_code")) if each.limits.set else "-")
        for each in found
    ]  # fmt: skip
    table([text(f"command.heading_{name}") for name in names], rows, flexible=[3, 0, 4, 2], optional=[5, 2])


def _shown(limits: Limits) -> str:
    """The limits as one would write them: `max_running=3 rate=10/1m`."""
    from brooq.service.output import span  # noqa: PLC0415

    found = limits.as_object()
    period = found.pop("rate_period", None)
    if period is not None:
        found["rate"] = f"{found['rate']}/{span(period)}"
    return " ".join(name if value is True else f"{name}={value}" for name, value in found.items())
