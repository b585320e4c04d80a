"""`brooq grants`: the roles of least privilege, printed for an administrator or applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import click

from brooq.postgres.grants import Roles
from brooq.vocabulary.message import text


def _role_options(command: Callable[..., None]) -> Callable[..., None]:
    """One option a role: `--worker NAME`."""
    for each in reversed(fields(Roles)):
        command = click.option(
            f"--{each.name}",
            default=each.default,
            show_default=True,
            metavar=text("command.role_value"),
            help=text(f"command.role_{each.name}"),
        )(command)
    return command


@click.command("grants", help=text("command.grants_long"))
@click.option("--schema", metavar=text("command.schema_value"), help=text("command.schema_help"))
@_role_options
@click.option("--apply", "apply_", is_flag=True, help=text("command.apply_help"))
def grants(schema: str | None, *, apply_: bool, **names: str) -> None:
    """Print, or apply to DATABASE_URL."""
    from brooq.postgres import grants as module  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    roles = Roles(**names)
    settings = load(database=apply_)
    place = schema or settings.schema
    if not apply_:
        click.echo(module.script(place, roles), nl=False)
        return
    module.apply(settings.dsn, place, roles)
    click.echo(text("command.granted", schema=place))
