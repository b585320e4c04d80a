"""`brooq cancel`: cancel jobs, and say of each what was found."""

from __future__ import annotations

from uuid import UUID

import click

from brooq.service.commands.parameter import ID
from brooq.vocabulary.job import Cancellation, State
from brooq.vocabulary.message import text


@click.command("cancel", help=text("command.cancel_long"))
@click.argument("ids", type=ID, nargs=-1, required=True, metavar="ID...")
def cancel(ids: tuple[UUID, ...]) -> int:
    """Cancel. Exit code 1 when one of them is not canceled now."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415

    async def work() -> int:
        failed = 0
        async with session() as opened:
            for id in ids:
                answer = await opened.queue.cancel(id)
                click.echo(f"{id}  {_told(answer)}")
                failed += not (answer.canceled or answer.state is State.CANCELED)
        return failed

    return int(run(work()) > 0)


def _told(answer: Cancellation) -> str:
    if answer.canceled:
        return text("command.canceled", state=answer.state)
    if answer.state is None:
        return text("command.not_found")
    return text("command.too_late", state=answer.state)
