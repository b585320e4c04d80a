"""`brooq show`: everything about one job."""

from __future__ import annotations

import json
from uuid import UUID

import click

from brooq.service.commands.parameter import ID
from brooq.vocabulary.job import JobRecord
from brooq.vocabulary.message import text


@click.command("show", help=text("command.show_long"))
@click.argument("id", type=ID)
@click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))
def show(id: UUID, *, as_json: bool) -> int:
    """Show."""
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import record_line  # noqa: PLC0415

    async def work() -> JobRecord | None:
        async with session() as opened:
            return await opened.reader.find(id)

    record = run(work())
    if record is None:
        raise click.ClickException(text("command.no_job", id=id))
    if as_json:
        click.echo(record_line(record))
    else:
        _print(record)
    return 0


def _print(record: JobRecord) -> None:
    from brooq.service.line import one_line  # noqa: PLC0415
    from brooq.service.output import moment  # noqa: PLC0415
    from brooq.vocabulary.payload import encode  # noqa: PLC0415

    values: dict[str, str] = {
        "id": str(record.id),
        "topic": record.topic,
        "state": str(record.state),
        "priority": str(record.priority),
        "attempts": str(record.attempts) if record.max_attempts is None else f"{record.attempts}/{record.max_attempts}",
        "claim_seq": str(record.claim_seq),
        "expired_leases": str(record.expired_leases),
        "idempotency_key": record.idempotency_key,
        "available_at": moment(record.available_at),
        "locked_by": record.locked_by or "",
        "locked_until": moment(record.locked_until) if record.locked_until else "",
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "tags": ", ".join(record.tags),
        "metadata": json.dumps(record.metadata, ensure_ascii=False) if record.metadata else "",
        "last_error": record.last_error or "",
        "concurrency_key": record.concurrency_key,
        "retry_of": str(record.retry_of or ""),
        "progress": _progress(record),
        "result": "" if record.result is None else encode(record.result),
        "payload": record.payload,
    }
    width = max(map(len, values))
    for name, value in values.items():
        if value:
            # Lines of an error stay lines, indented; nothing in them reaches the terminal as a command to it.
            lines = [one_line(line) for line in value.split("\n")]
            click.echo(f"{name:<{width}}  {lines[0]}")
            for line in lines[1:]:
                click.echo(f"{'':<{width}}  {line}")
    for failure in record.failures:
        head = text("command.failure", attempt=failure.attempt, at=moment(failure.at), worker=failure.worker)
        click.echo(f"{'failure':<{width}}  {one_line(head)}: {one_line(failure.error)}")


def _progress(record: JobRecord) -> str:
    from brooq.service.output import moment  # noqa: PLC0415

    told = record.progress
    return "" if told is None else f"{told.done:.0%}  {told.note}  ({moment(told.at)})".replace("    (", "  (")
