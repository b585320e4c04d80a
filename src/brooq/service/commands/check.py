"""`brooq check`: settings, database, schema, durability; everything that a deploy wants to know before it goes on."""

from __future__ import annotations

import os

import click

from brooq.vocabulary.message import text

_OLDEST = 140000


@click.command("check", help=text("command.check_long"))
def check() -> int:
    """Look at everything that can be looked at, and say of each how it is. Exit code 1 when something is wrong."""
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.environment import exposed  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    settings = load(database=True)
    _say(True, text("command.check_settings"))
    if exposed():
        _warn(False, text("command.check_env"))
    if not settings.http_token and settings.http_addr is not None:
        _warn(False, text("command.check_token"))
    return run(_ask(settings))


async def _ask(settings: object) -> int:
    from brooq.postgres.dsn import describe, unverified  # noqa: PLC0415
    from brooq.postgres.migrate import LATEST  # noqa: PLC0415
    from brooq.postgres.reader import Reader  # noqa: PLC0415
    from brooq.postgres.store import PostgresStore  # noqa: PLC0415
    from brooq.service.settings import Settings  # noqa: PLC0415
    from brooq.vocabulary.error import SchemaError, StoreError  # noqa: PLC0415

    assert isinstance(settings, Settings)
    store = PostgresStore(settings.make_pool(driver="psycopg"), settings.schema)
    reader = Reader(store)
    try:
        try:
            server = await reader.server()
        except StoreError as error:
            _say(False, text("migrate.unreachable", where=describe(settings.dsn), reason=error))
            return 1
        where = describe(settings.dsn)
        well = server.number >= _OLDEST
        _say(well, text("command.check_database", where=where, version=server.version))
        if not well:
            click.echo(f"      {text('command.check_old')}")
        mode = unverified(settings.dsn)
        if mode is not None:
            _warn(False, text("command.check_tls", mode=mode))
        if server.standby:
            well = _say(False, text("command.check_standby"))
        try:
            await store.open()
        except (SchemaError, StoreError) as error:
            well = _say(False, str(error))
        else:
            _say(True, text("command.check_schema", schema=settings.schema, version=LATEST))
        durable = server.fsync and server.full_page_writes and server.synchronous_commit != "off"
        _warn(
            durable,
            text("command.check_durable" if durable else "command.check_not_durable", fsync=_switch(server.fsync),
                 commit=server.synchronous_commit, pages=_switch(server.full_page_writes)),
        )  # fmt: skip
        if server.pooled:
            _warn(not settings.prepared, text("command.check_pooled"))
        return 0 if well else 1
    finally:
        await reader.close()
        await store.close()


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _say(well: bool, message: str) -> bool:
    word = click.style(text("command.ok"), fg="green") if well else click.style(text("command.wrong"), fg="red")
    click.echo(f"{word}  {_masked(message)}")
    return well


def _warn(well: bool, message: str) -> None:
    word = click.style(text("command.ok"), fg="green") if well else click.style(text("command.note"), fg="yellow")
    click.echo(f"{word}  {_masked(message)}")


def _masked(message: str) -> str:
    from brooq.postgres.dsn import mask  # noqa: PLC0415

    return mask(message, os.environ.get("DATABASE_URL", ""))
