"""`brooq check`: settings, database, schema, durability; everything that a deploy wants to know before it goes on."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from brooq.vocabulary.message import text

_OLDEST = 140000


@dataclass(frozen=True, slots=True)
class _Report:
    """Says of each thing how it is, to people or to programs."""

    as_json: bool

    def say(self, check: str, well: bool, message: str) -> bool:
        """It is well, or it is wrong."""
        return self._tell(check, well, "wrong", message)

    def warn(self, check: str, well: bool, message: str) -> None:
        """It is well, or somebody may want to know."""
        self._tell(check, well, "note", message)

    def _tell(self, check: str, well: bool, otherwise: str, message: str) -> bool:
        from brooq.postgres.dsn import mask  # noqa: PLC0415
        from brooq.service.output import finding_line, object_line  # noqa: PLC0415

        severity = "ok" if well else otherwise
        message = mask(message, os.environ.get("DATABASE_URL", ""))
        if self.as_json:
            click.echo(object_line({"check": check, "severity": severity, "message": message}))
        else:
            finding_line(severity, message)
        return well


@click.command("check", help=text("command.check_long"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def check(*, as_json: bool) -> int:
    """Look at everything that can be looked at, and say of each how it is. Exit code 1 when something is wrong."""
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.environment import exposed  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    report = _Report(as_json)
    settings = load(database=True)
    report.say("settings", True, text("command.check_settings"))
    if exposed():
        report.warn("settings", False, text("command.check_env"))
    if not (settings.http_token or settings.http_read_token) and settings.http_addr is not None:
        report.warn("settings", False, text("command.check_token"))
    return run(_ask(settings, report))


async def _ask(settings: object, report: _Report) -> int:
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
            report.say("database", False, text("migrate.unreachable", where=describe(settings.dsn), reason=error))
            return 1
        where = describe(settings.dsn)
        well = server.number >= _OLDEST
        report.say("database", well, text("command.check_database", where=where, version=server.version))
        if not well:
            report.say("database", False, text("command.check_old"))
        mode = unverified(settings.dsn)
        if mode is not None:
            report.warn("database", False, text("command.check_tls", mode=mode))
        if server.standby:
            well = report.say("database", False, text("command.check_standby"))
        try:
            await store.open()
        except (SchemaError, StoreError) as error:
            well = report.say("schema", False, str(error))
        else:
            report.say("schema", True, text("command.check_schema", schema=settings.schema, version=LATEST))
        durable = server.fsync and server.full_page_writes and server.synchronous_commit != "off"
        report.warn(
            "durability", durable,
            text("command.check_durable" if durable else "command.check_not_durable", fsync=_switch(server.fsync),
                 commit=server.synchronous_commit, pages=_switch(server.full_page_writes)),
        )  # fmt: skip
        if server.pooled:
            report.warn("pooler", not settings.prepared, text("command.check_pooled"))
        return 0 if well else 1
    finally:
        await reader.close()
        await store.close()


def _switch(on: bool) -> str:
    return "on" if on else "off"
