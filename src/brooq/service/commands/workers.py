"""`brooq workers`: who works, on what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from datetime import datetime

    from brooq.postgres.facts import Seen


@click.command("workers", help=text("command.workers_long"))
@click.option("--slots", is_flag=True, help=text("command.slots_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def workers(*, slots: bool, as_json: bool) -> None:
    """List."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import cell, object_line, span, table  # noqa: PLC0415

    async def work() -> tuple[list[Seen], datetime]:
        async with session() as opened:
            return list(await opened.reader.workers()), (await opened.reader.pace()).now

    found, now = run(work())
    if as_json:
        for each in found:
            click.echo(object_line(_values(each, now)))
        return
    if not found:
        click.echo(text("explain.workers_none"), err=True)
        return
    if slots:
        running = ("id", "slot_topic", "attempts", "running", "worker")
        busy = [
            (str(slot.id), slot.topic, str(slot.attempt), span(slot.seconds) + _hung(hung=slot.hung), each.name)
            for each in found
            for slot in each.running
        ]
        table(
            [text(f"command.heading_{name}") for name in running], busy, right=[2, 3], flexible=[1, 4], optional=[2, 4]
        )
        return
    names = ("worker", "state", "up", "busy", "version", "topics")
    rows = [
        (each.name, stands(each, now), span((now - each.started_at).total_seconds()), f"{each.occupied}/{each.slots}",
         each.version, cell(", ".join(each.topics), 100))
        for each in found
    ]  # fmt: skip
    table([text(f"command.heading_{name}") for name in names], rows, right=[2, 3], flexible=[5, 0], optional=[4, 2])


def stands(each: Seen, now: datetime) -> str:
    """Whether it is there, stopping, or silent since when."""
    from brooq.service.output import ago  # noqa: PLC0415

    if not each.there(now):
        return text("command.worker_silent", span=ago(now, each.seen_at))
    return text("command.worker_stopping" if each.stopping else "command.worker_there")


def _hung(*, hung: bool) -> str:
    return f" {text('command.slot_hung')}" if hung else ""


def _values(each: Seen, now: datetime) -> dict[str, object]:
    return {
        "name": each.name, "host": each.host, "pid": each.pid, "version": each.version, "started_at": each.started_at,
        "seen_at": each.seen_at, "there": each.there(now), "stopping": each.stopping, "slots": each.slots,
        "occupied": each.occupied, "busy": dict(each.busy), "topics": list(each.topics),
        "running": [
            {"id": str(slot.id), "topic": slot.topic, "attempt": slot.attempt, "seconds": slot.seconds, "hung": slot.hung}
            for slot in each.running
        ],
    }  # fmt: skip
