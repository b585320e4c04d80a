"""`brooq migrate`: the schema, a deploy step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from brooq.service.commands.group import LazyGroup
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.postgres.migrate import MigrationStatus

_HERE = "brooq.service.commands.migrate:"
migrate = LazyGroup(
    "migrate",
    {name: f"{_HERE}{name}" for name in ("up", "down", "status")} | {"sql": f"{_HERE}sql_script"},
    help=text("command.migrate_long"),
)

_schema = click.option("--schema", metavar=text("command.schema_value"), help=text("command.schema_help"))
_json = click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))


@click.command("up", help=text("command.up"))
@_schema
@_json
def up(schema: str | None, *, as_json: bool) -> None:
    """Apply."""
    from brooq.postgres import migrate as runner  # noqa: PLC0415

    dsn, place = _place(schema)
    applied = runner.up(dsn, place)
    if as_json:
        _show(applied)
        return
    for each in applied:
        click.echo(text("command.applied", version=f"{each.version:05}", name=each.name))
    if not applied:
        click.echo(text("command.up_to_date", schema=place))


@click.command("down", help=text("command.down"))
@_schema
@click.option("--steps", type=click.IntRange(min=1), default=1, show_default=True, help=text("command.steps_help"))
@click.option("--yes", is_flag=True, help=text("command.yes_help"))
@_json
def down(schema: str | None, steps: int, *, yes: bool, as_json: bool) -> None:
    """Take back."""
    from brooq.postgres import migrate as runner  # noqa: PLC0415

    dsn, place = _place(schema)
    # A script means what it says; a person is asked once.
    if not yes and sys.stdin.isatty():
        click.confirm(text("command.down_confirm", schema=place), abort=True)
    taken = runner.down(dsn, place, steps=steps)
    if as_json:
        _show(taken)
        return
    for each in taken:
        click.echo(text("command.taken_back", version=f"{each.version:05}", name=each.name))
    if not taken:
        click.echo(text("command.nothing_applied", schema=place))


@click.command("status", help=text("command.status"))
@_schema
@_json
def status(schema: str | None, *, as_json: bool) -> int:
    """Show; exit code 1 when something is missing or wrong."""
    from brooq.postgres import migrate as runner  # noqa: PLC0415
    from brooq.service.output import moment, table  # noqa: PLC0415

    dsn, place = _place(schema)
    found = runner.status(dsn, place)
    if as_json:
        _show(found)
        return _wrong(found)
    rows = [
        (
            f"{each.version:05}",
            each.name,
            text("command.not_applied") if each.applied_at is None else moment(each.applied_at),
            _remark(changed=each.changed, known=each.known),
        )
        for each in found
    ]
    table(_headings("version", "name", "applied", "remark"), rows)
    return _wrong(found)


@click.command("sql", help=text("command.sql"))
@_schema
def sql_script(schema: str | None) -> None:
    """Print."""
    from brooq.postgres import migrate as runner  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    click.echo(runner.script(schema or load().schema), nl=False)


def _wrong(found: Sequence[MigrationStatus]) -> int:
    return int(any(each.applied_at is None or each.changed or not each.known for each in found))


def _show(found: Sequence[MigrationStatus]) -> None:
    from brooq.service.output import object_line  # noqa: PLC0415

    for each in found:
        values = {"version": each.version, "name": each.name, "applied_at": each.applied_at}
        click.echo(object_line(values | {"changed": each.changed, "known": each.known}))


def _place(schema: str | None) -> tuple[str, str]:
    from brooq.service.settings import load  # noqa: PLC0415

    settings = load(database=True)
    return settings.dsn, schema or settings.schema


def _remark(*, changed: bool, known: bool) -> str:
    if changed:
        return text("command.changed")
    return "" if known else text("command.newer")


def _headings(*names: str) -> Sequence[str]:
    return [text(f"command.heading_{name}") for name in names]
