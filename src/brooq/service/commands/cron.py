"""`brooq cron`: what comes by the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

from brooq.service.commands.group import LazyGroup
from brooq.service.commands.parameter import TOPIC
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.schedule import MOST_MISSED, Missed

if TYPE_CHECKING:
    from uuid import UUID

    from brooq.engine.queue import Queue
    from brooq.vocabulary.schedule import ScheduleRecord

T = TypeVar("T")
_HERE = "brooq.service.commands.cron:"
cron = LazyGroup(
    "cron",
    {
        "list": f"{_HERE}show",
        "add": f"{_HERE}add",
        "remove": f"{_HERE}remove",
        "pause": f"{_HERE}pause",
        "resume": f"{_HERE}resume",
        "run": f"{_HERE}run_now",
        "next": f"{_HERE}coming",
    },
    help=text("command.cron_long"),
    prefix="cron_",
)

_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")
_reason = click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
_json = click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
_timezone = click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar=text("command.timezone_value"),
    help=text("command.timezone_help"),
)


@click.command("list", help=text("command.cron_list"))
@_json
def show(*, as_json: bool) -> None:
    """List."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import cell, moment, table  # noqa: PLC0415

    async def work() -> list[ScheduleRecord]:
        async with session() as opened:
            return await opened.queue.schedules()

    found = run(work())
    if as_json:
        for each in found:
            _print_object(each)
        return
    if not found:
        click.echo(text("command.cron_none"), err=True)
        return
    names = ("name", "cron", "timezone", "topic", "next", "last", "from")
    rows = [
        (each.name, each.cron, each.timezone, each.topic,
         text("command.cron_paused") if each.paused else moment(each.next_at), moment(each.last_at),
         text("command.cron_code" if each.declared else "command.cron_hand"))
        for each in found
    ]  # fmt: skip
    table(
        [text(f"command.heading_{name}") for name in names], [[cell(value, 100) for value in row] for row in rows],
        flexible=[0, 3], optional=[6, 2, 5],
    )  # fmt: skip


@click.command("add", help=text("command.cron_add_long"))
@click.argument("name")
@click.argument("expression", metavar="CRON")
@click.argument("topic", type=TOPIC)
@click.argument("payload", required=False, metavar="[JSON]")
@_timezone
@click.option(
    "--missed", type=click.Choice([str(each) for each in Missed]), default=str(Missed.ONCE), show_default=True,
    help=text("command.missed_help"),
)  # fmt: skip
@click.option(
    "--missed-limit", type=click.IntRange(1, MOST_MISSED), default=100, show_default=True,
    help=text("command.missed_limit_help"),
)  # fmt: skip
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help=text("command.priority_help"))
@click.option(
    "--concurrency-key", default="", metavar=text("command.key_value"), help=text("command.concurrency_key_help")
)
@_reason
def add(
    name: str, expression: str, topic: Topic, payload: str | None, timezone: str, missed: str, missed_limit: int,
    priority: int, concurrency_key: str, reason: str | None,
) -> None:  # fmt: skip
    """Add, or change what is there."""
    from brooq.engine import calendar  # noqa: PLC0415
    from brooq.service.bulk import payload_problem  # noqa: PLC0415
    from brooq.service.output import moment  # noqa: PLC0415
    from brooq.vocabulary.schedule import Schedule  # noqa: PLC0415

    source = None if payload is None else payload.encode("utf-8", "surrogateescape")
    problem = None if source is None else payload_problem(source)
    if problem is not None:
        raise click.UsageError(problem)
    schedule = Schedule(
        name, expression, topic, source, timezone, missed, missed_limit, priority, None, concurrency_key
    )
    calendar.first(expression, timezone, datetime.now(UTC))  # before any connection

    async def one(queue: Queue, by: str) -> ScheduleRecord | None:
        await queue.schedule(schedule, reason, by=by)
        return next((each for each in await queue.schedules() if each.name == schedule.name), None)

    record = _acting(one)
    click.echo(text("command.cron_added", name=schedule.name, next=moment(record.next_at if record else None)))


@click.command("remove", help=text("command.cron_remove_long"))
@_names
@_reason
def remove(names: tuple[str, ...], reason: str | None) -> int:
    """Remove. Exit code 1 when one is not there."""
    return _each(names, lambda queue, name, by: queue.unschedule(name, reason, by=by), "command.cron_removed")


@click.command("pause", help=text("command.cron_pause_long"))
@_names
@_reason
def pause(names: tuple[str, ...], reason: str | None) -> int:
    """Pause. Exit code 1 when one is not there, or paused already."""
    return _each(names, lambda queue, name, by: queue.pause_schedule(name, reason, by=by), "command.cron_is_paused")


@click.command("resume", help=text("command.cron_resume_long"))
@_names
@_reason
def resume(names: tuple[str, ...], reason: str | None) -> int:
    """Resume. Exit code 1 when one is not there, or not paused."""
    return _each(names, lambda queue, name, by: queue.resume_schedule(name, reason, by=by), "command.cron_resumed")


@click.command("run", help=text("command.cron_run_long"))
@click.argument("name")
@_reason
def run_now(name: str, reason: str | None) -> int:
    """Enqueue a job now, and write down who did it; prints its id."""
    from brooq.service.commands.actor import acting  # noqa: PLC0415
    from brooq.service.commands.session import run  # noqa: PLC0415

    async def work() -> UUID | None:
        async with acting() as opened:
            return await opened.operator.run_schedule(name, reason)

    made = run(work())
    if made is None:
        click.echo(text("command.cron_unknown", name=name[:200]), err=True)
        return 1
    click.echo(str(made))
    return 0


@click.command("next", help=text("command.cron_next_long"))
@click.argument("what", metavar=text("command.cron_what"))
@_timezone
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help=text("command.count_help"))
def coming(what: str, timezone: str, count: int) -> int:
    """Print the next ticks of a schedule, or of an expression without asking the database."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    from brooq.engine import calendar  # noqa: PLC0415
    from brooq.vocabulary.schedule import Schedule  # noqa: PLC0415

    if " " not in what.strip() and not what.startswith("@"):
        found = next((each for each in _acting(lambda queue, by: queue.schedules()) if each.name == what), None)
        if found is None:
            click.echo(text("command.cron_unknown", name=what[:200]), err=True)
            return 1
        what, timezone = found.cron, found.timezone
    Schedule("check", what, "check", timezone=timezone)
    for tick in islice(calendar.ticks(what, timezone, datetime.now(UTC)), count):
        click.echo(f"{tick.astimezone(ZoneInfo(timezone)).isoformat()}  {tick:%Y-%m-%dT%H:%M:%SZ}")
    return 0


def _acting(act: Callable[[Queue, str], Awaitable[T]]) -> T:
    """Do something in the name of whoever calls the command."""
    from brooq.service.commands.actor import who  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415

    async def work() -> T:
        async with session() as opened:
            return await act(opened.queue, who())

    return run(work())


def _print_object(each: ScheduleRecord) -> None:
    from brooq.service.output import object_line  # noqa: PLC0415

    values = {name: getattr(each, name) for name in type(each).__slots__ if name != "payload"}
    click.echo(object_line(values, payload=each.payload or "null"))


def _each(names: tuple[str, ...], act: Callable[[Queue, str, str], Awaitable[bool]], done: str) -> int:
    async def work(queue: Queue, by: str) -> int:
        failed = 0
        for name in names:
            well = await act(queue, name, by)
            click.echo(text(done if well else "command.cron_not_done", name=name[:200]), err=not well)
            failed += not well
        return failed

    return int(_acting(work) > 0)
