"""`brooq retry`: do finished jobs once more, each as a new job."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import click

from brooq.service.commands.ids import ids_argument, read_ids
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.postgres.operator import Retried
    from brooq.service.commands.session import Session


@click.command("retry", help=text("command.retry_long"))
@ids_argument(required=False)
@click.option("--group", "mark", metavar=text("command.group_value"), help=text("command.group_help"))
@click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def retry(ids: tuple[UUID | str, ...], mark: str | None, reason: str | None, *, as_json: bool) -> int:
    """Retry. Exit code 1 when one of them is not under way once more now."""
    from brooq.engine.reason import sanitize  # noqa: PLC0415
    from brooq.service.commands.actor import acting  # noqa: PLC0415
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415
    from brooq.service.progress import counted  # noqa: PLC0415

    if bool(ids) == bool(mark):
        raise click.UsageError(text("command.retry_what"))

    named = read_ids(ids)

    async def work() -> int:
        failed = 0
        async with acting() as opened:
            wanted = named if mark is None else await _of_group(opened.session, mark)
            for id in counted(wanted):
                answer = await opened.operator.retry(id, reason and sanitize(reason))
                if as_json:
                    values = {"id": id, "retried_as": answer.id, "state": answer.state, "standing": answer.standing}
                    click.echo(object_line(values))
                else:
                    click.echo(f"{id}  {_told(answer)}")
                failed += answer.id is None and answer.standing is None
        return failed

    return int(run(work()) > 0)


async def _of_group(opened: Session, mark: str) -> list[UUID]:
    from brooq.service.commands.dead import group_of  # noqa: PLC0415

    found = await group_of(opened.reader, mark)
    ids = await opened.reader.dead_group(found.topic, found.kind)
    if not ids:
        click.echo(text("command.group_done", group=mark), err=True)
    return list(ids)


def _told(answer: Retried) -> str:
    if answer.id is not None:
        return text("command.retried", id=answer.id)
    if answer.standing is not None:
        return text("command.retry_standing", id=answer.standing)
    if answer.state is None:
        return text("command.not_found")
    return text("command.retry_too_early", state=answer.state)
