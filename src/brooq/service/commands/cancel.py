"""`brooq cancel`: cancel jobs, and say of each what was found."""

from __future__ import annotations

import getpass
import os
import socket
from uuid import UUID

import click

from brooq.service.commands.parameter import ID
from brooq.vocabulary.job import Cancellation, State
from brooq.vocabulary.message import text


@click.command("cancel", help=text("command.cancel_long"))
@click.argument("ids", type=ID, nargs=-1, required=True, metavar="ID...")
@click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
def cancel(ids: tuple[UUID, ...], reason: str | None) -> int:
    """Cancel. Exit code 1 when one of them is not canceled now."""
    from brooq.engine.reason import sanitize  # noqa: PLC0415
    from brooq.postgres.operator import Operator  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415

    async def work() -> int:
        failed = 0
        async with session() as opened:
            operator = Operator(opened.store, sanitize(_who(), 128))
            try:
                for id in ids:
                    answer = await operator.cancel(id, reason and sanitize(reason))
                    click.echo(f"{id}  {_told(answer)}")
                    failed += not (answer.canceled or answer.state is State.CANCELED)
            finally:
                await operator.close()
        return failed

    return int(run(work()) > 0)


def _who() -> str:
    """The person, as far as the system knows: behind sudo the one who called it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    behind = os.environ.get("SUDO_USER")
    named = f"{behind} as {user}" if behind and behind != user else user
    return f"{named}@{socket.gethostname()}"


def _told(answer: Cancellation) -> str:
    if answer.canceled:
        return text("command.canceled", state=answer.state)
    if answer.state is None:
        return text("command.not_found")
    return text("command.too_late", state=answer.state)
