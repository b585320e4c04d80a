"""`brooq doctor`: what is wrong with the database, and what helps."""

from __future__ import annotations

from datetime import timedelta

import click

from brooq.service.commands.parameter import DURATION
from brooq.vocabulary.message import text


@click.command("doctor", help=text("command.doctor_long"))
@click.option(
    "--patience", type=DURATION, default="1m", show_default=True, metavar=text("command.duration_value"),
    help=text("command.patience_help"),
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def doctor(patience: timedelta, *, as_json: bool) -> int:
    """Examine. Exit code 1 when something is wrong."""
    from brooq.postgres.examination import examine  # noqa: PLC0415
    from brooq.postgres.migrate import LATEST  # noqa: PLC0415
    from brooq.service.doctor.examination import judge  # noqa: PLC0415
    from brooq.service.doctor.finding import Rules, Severity  # noqa: PLC0415
    from brooq.service.output import finding_line, object_line  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415
    from brooq.vocabulary.duration import to_timedelta  # noqa: PLC0415

    settings = load(database=True)
    rules = Rules(
        settings.schema, LATEST, prepared=settings.prepared,
        retention=bool(to_timedelta(settings.config.retention_ttl)), patience=patience,
    )  # fmt: skip
    found = judge(examine(settings.dsn, settings.schema), rules)
    for each in found:
        if as_json:
            shown = {"check": each.check, "severity": each.severity, "name": each.name, "message": each.message}
            click.echo(object_line(shown | {"remedy": each.remedy, "values": {**each.values}}))
            continue
        finding_line(each.severity, each.message, each.remedy)
    return int(any(each.severity is Severity.WRONG for each in found))
