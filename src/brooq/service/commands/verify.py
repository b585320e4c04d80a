"""`brooq verify`: what the queue has promised, checked against what was written down."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from brooq.vocabulary.message import text

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_file = text("command.file_value")


@click.command("verify", help=text("command.verify_long"))
@click.option("--install", is_flag=True, help=text("command.install_help"))
@click.option("--uninstall", is_flag=True, help=text("command.uninstall_help"))
@click.option("--yes", is_flag=True, help=text("command.yes_help"))
@click.option("--schema", metavar=text("command.schema_value"), help=text("command.schema_help"))
@click.option("--audit-schema", metavar=text("command.schema_value"), help=text("command.audit_schema_help"))
@click.option("--journal", multiple=True, type=_FILE, metavar=_file, help=text("command.journal_help"))
@click.option("--producers", multiple=True, type=_FILE, metavar=_file, help=text("command.producers_help"))
@click.option("--faults", multiple=True, type=_FILE, metavar=_file, help=text("command.faults_help"))
@click.option("--drained", is_flag=True, help=text("command.drained_help"))
@click.option("--ordered", is_flag=True, help=text("command.ordered_help"))
@click.option(
    "--limit", type=click.IntRange(min=0), default=10, show_default=True, help=text("command.violations_help")
)
@click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))
def verify(
    *,
    install: bool,
    uninstall: bool,
    yes: bool,
    schema: str | None,
    audit_schema: str | None,
    journal: tuple[Path, ...],
    producers: tuple[Path, ...],
    faults: tuple[Path, ...],
    drained: bool,
    ordered: bool,
    limit: int,
    as_json: bool,
) -> int:
    """Install, take away, or check; exit code 1 when a promise was broken."""
    if install or uninstall:
        if (install and uninstall) or journal or producers or faults or drained or ordered or as_json:
            raise click.UsageError(text("verify.alone"))
        return _put(install=install, schema=schema, audit_schema=audit_schema, yes=yes)
    from brooq.service.settings import load  # noqa: PLC0415
    from brooq.service.verify.inspection import Sources, inspect  # noqa: PLC0415
    from brooq.service.verify.life import Rules  # noqa: PLC0415
    from brooq.service.verify.report import as_object, show  # noqa: PLC0415
    from brooq.vocabulary.duration import to_timedelta  # noqa: PLC0415

    settings = load(database=True)
    config = settings.config
    sources = Sources(settings.dsn, schema or settings.schema, audit_schema, journal, producers, faults)
    rules = Rules(
        ttl=to_timedelta(config.retention_ttl).total_seconds(), slack=config.reaper_seconds + 5.0, drained=drained
    )
    inspection = inspect(sources, rules, ordered=ordered, limit=limit)
    if as_json:
        click.echo(as_object(inspection))
    else:
        for line in show(inspection):
            click.echo(line)
    return int(bool(inspection.violations))


def _put(*, install: bool, schema: str | None, audit_schema: str | None, yes: bool) -> int:
    from brooq.postgres import audit  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    settings = load(database=True)
    place = schema or settings.schema
    there = audit.schema_for(place, audit_schema)
    if install:
        new = audit.install(settings.dsn, place, audit_schema)
        click.echo(text("verify.installed" if new else "verify.installed_before", schema=place, place=there))
        return 0
    if not yes and sys.stdin.isatty():
        click.confirm(text("verify.confirm", place=there), abort=True)
    gone = audit.uninstall(settings.dsn, place, audit_schema)
    click.echo(text("verify.uninstalled" if gone else "verify.uninstalled_before", place=there))
    return 0
