"""`brooq cancel`: cancel jobs, and say of each what was found."""

from __future__ import annotations

from uuid import UUID

import click

from brooq.service.commands.ids import ids_argument, read_ids
from brooq.vocabulary.job import Cancellation, State
from brooq.vocabulary.message import text


@click.command("cancel", help=text("command.cancel_long"))
@ids_argument(required=True)
@click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def cancel(ids: tuple[UUID | str, ...], reason: str | None, *, as_json: bool) -> int:
    """Cancel. Exit code 1 when one of them is not canceled now."""
    from brooq.engine.reason import sanitize  # noqa: PLC0415
    from brooq.service.commands.actor import acting  # noqa: PLC0415
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415
    from brooq.service.progress import counted  # noqa: PLC0415

    wanted = read_ids(ids)

    async def work() -> int:
        failed = 0
        async with acting() as opened:
            for id in counted(wanted):
                answer = await opened.operator.cancel(id, reason and sanitize(reason))
                if as_json:
                    click.echo(object_line({"id": id, "canceled": answer.canceled, "state": answer.state}))
                else:
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
