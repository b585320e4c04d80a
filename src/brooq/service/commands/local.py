"""`brooq local`: a PostgreSQL of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from brooq.service.commands.group import LazyGroup
from brooq.vocabulary.message import text

_HERE = "brooq.service.commands.local:"
local = LazyGroup(
    "local", {name: f"{_HERE}{name}" for name in ("start", "stop", "url")}, help=text("command.local_long")
)

_path = click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".brooq/pg"),
    show_default=True,
    help=text("command.path_help"),
)
_json = click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))


@click.command("start", help=text("command.start"))
@_path
@click.option("--port", type=click.IntRange(1, 65535), help=text("command.port_help"))
@_json
def start(path: Path, port: int | None, *, as_json: bool) -> None:
    """Start; nothing happens when it runs already."""
    from brooq.postgres.local import LocalPostgres  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415

    runs = LocalPostgres.running(path) is not None
    server = None if runs else LocalPostgres(path, port=port).start(detached=True)
    if as_json:
        made = {"version": server.version, "port": server.port} if server else {}
        click.echo(object_line({"path": str(path), "started": not runs} | made))
        return
    if server is None:
        click.echo(text("command.local_runs", path=path))
    else:
        click.echo(text("command.local_started", version=server.version, port=server.port, path=path))
    option = "" if path == Path(".brooq/pg") else f" --path {path}"
    # Never the DSN itself: it holds the password, and terminals are recorded. `url` is asked for on purpose.
    click.echo(f'  export DATABASE_URL="$(brooq local url{option})"')


@click.command("stop", help=text("command.stop"))
@_path
@_json
def stop(path: Path, *, as_json: bool) -> None:
    """Stop; nothing happens when none runs."""
    from brooq.postgres.local import LocalPostgres  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415

    stopped = LocalPostgres.stop_running(path)
    if as_json:
        click.echo(object_line({"path": str(path), "stopped": stopped}))
        return
    click.echo(text("command.local_stopped" if stopped else "command.local_not_running", path=path))


@click.command("url", help=text("command.url"))
@_path
def url(path: Path) -> None:
    """Print the DSN, password included: that is what it is for."""
    from brooq.postgres.local import LocalPostgres  # noqa: PLC0415

    dsn = LocalPostgres.running(path)
    if dsn is None:
        raise click.ClickException(text("command.local_not_running", path=path))
    click.echo(dsn)
