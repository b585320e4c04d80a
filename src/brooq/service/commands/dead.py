"""`brooq dead`: dead jobs by what they died of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import click

from brooq.service.commands.parameter import TOPIC
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.postgres.reader import DeadGroup, Reader

_MOST = 1000
_MARK = 8


def mark_of(group: DeadGroup) -> str:
    """A short name of a group, the same at every call: of its topic and what its jobs have in common."""
    return hashlib.sha256(f"{group.topic}\n{group.kind}".encode()).hexdigest()[:_MARK]


async def group_of(reader: Reader, mark: str) -> DeadGroup:
    """The group of a name. Raises UsageError when there is none."""
    for group in await reader.dead(limit=_MOST):
        if mark_of(group) == mark.lower():
            return group
    raise click.UsageError(text("command.no_group", group=mark[:40]))


@click.command("dead", help=text("command.dead_long"))
@click.option("--topic", type=TOPIC, help=text("command.topic_help"))
@click.option("--limit", type=click.IntRange(1, _MOST), default=20, show_default=True, help=text("command.groups_help"))
@click.option("--ids", "mark", metavar=text("command.group_value"), help=text("command.ids_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def dead(topic: Topic | None, limit: int, mark: str | None, *, as_json: bool) -> None:
    """List groups, or the ids of one."""
    from brooq.service.commands.session import Session, run, session  # noqa: PLC0415
    from brooq.service.output import cell, moment, object_line, table  # noqa: PLC0415
    from brooq.service.topics import meant  # noqa: PLC0415

    async def ids(opened: Session, mark: str) -> None:
        group = await group_of(opened.reader, mark)
        for id in await opened.reader.dead_group(group.topic, group.kind):
            click.echo(object_line({"id": id}) if as_json else str(id))

    async def work() -> None:
        async with session() as opened:
            if mark is not None:
                await ids(opened, mark)
                return
            groups = await opened.reader.dead(topic, limit=limit)
            if not groups and topic is not None and (hint := await meant(opened, topic)):
                click.echo(hint, err=True)
        if as_json:
            for each in groups:
                click.echo(object_line(_values(each)))
            return
        if not groups:
            click.echo(text("command.no_dead"), err=True)
            return
        rows = [
            (mark_of(each), str(each.jobs) + ("+" if each.bounded else ""), each.topic, moment(each.last),
             cell(each.kind, 120))
            for each in groups
        ]  # fmt: skip
        table(
            [text(f"command.heading_{name}") for name in ("group", "jobs", "topic", "last", "error")],
            rows,
            right=[1],
            flexible=[4, 2],
            optional=[3],
        )
        click.echo(text("command.dead_next"), err=True)

    run(work())


def _values(each: DeadGroup) -> dict[str, object]:
    return {
        "group": mark_of(each), "topic": each.topic, "error": each.kind, "jobs": each.jobs, "bounded": each.bounded,
        "first": each.first, "last": each.last, "example": each.example, "latest": each.latest,
    }  # fmt: skip
