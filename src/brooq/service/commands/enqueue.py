"""`brooq enqueue`: one job, or one for every line of a file."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO

import click

from brooq.service.commands.parameter import MOMENT, TOPIC
from brooq.vocabulary.job import Job, Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES

if TYPE_CHECKING:
    from brooq.service.bulk import Bulk

STDIN = "-"


@click.command("enqueue", help=text("command.enqueue_long"))
@click.argument("topic", type=TOPIC)
@click.argument("payload", required=False, metavar="[JSON | -]")
@click.option("--key", default="", metavar=text("command.key_value"), help=text("command.key_help"))
@click.option("--at", type=MOMENT, metavar=text("command.time_value"), help=text("command.at_help"))
@click.option(
    "--jsonl", type=click.Path(allow_dash=True), metavar=text("command.file_value"), help=text("command.jsonl_help")
)
@click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))
def enqueue(
    topic: Topic, payload: str | None, key: str, at: datetime | None, jsonl: str | None, *, as_json: bool
) -> int:
    """Enqueue."""
    if jsonl is None:
        return _one(topic, payload, key, at, as_json=as_json)
    if payload is not None or key:
        raise click.UsageError(text("command.jsonl_alone"))
    return _many(topic, at, jsonl, as_json=as_json)


def _one(topic: Topic, payload: str | None, key: str, at: datetime | None, *, as_json: bool) -> int:
    from brooq.service.bulk import payload_problem  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415
    from brooq.service.topics import meant  # noqa: PLC0415

    if payload is None:
        source = b"null"
    elif payload == STDIN:
        source = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        source = payload.encode("utf-8", "surrogateescape")
    job = Job(topic, source, key, at)
    # Before any connection: what is wrong with the usage does not depend on the database.
    problem = text("command.empty_input") if payload == STDIN and not source.strip() else payload_problem(source)
    if problem is not None:
        raise click.UsageError(problem)

    async def work() -> None:
        async with session() as opened:
            # A person may have mistyped it, and would wait for ever; a program has its topics from its source.
            hint = await meant(opened, topic, close_only=True) if sys.stderr.isatty() else None
            answer = await opened.queue.enqueue(job)
        if hint is not None:
            click.echo(hint, err=True)
        if as_json:
            click.echo(object_line({"id": answer.id, "created": answer.created}))
            return
        click.echo(str(answer.id))
        if not answer.created:
            click.echo(text("command.existed"), err=True)

    run(work())
    return 0


def _many(topic: Topic, at: datetime | None, path: str, *, as_json: bool) -> int:
    from brooq.service.bulk import Bulk  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415

    with ExitStack() as stack:
        source, size = _opened(path, stack)
        bulk = Bulk(topic, at)

        async def work() -> None:
            async with session() as opened:
                await bulk.run(opened.queue, source, size)

        try:
            run(work())
        except BaseException:
            _tell(bulk, "command.enqueued_before", as_json=as_json)
            raise
    _tell(bulk, "command.enqueued", as_json=as_json)
    return 0


def _opened(path: str, stack: ExitStack) -> tuple[BinaryIO, int | None]:
    if path == STDIN:
        return sys.stdin.buffer, None
    file = stack.enter_context(open(path, "rb"))  # noqa: PTH123, SIM115  a path that is a pipe has no size
    return file, os.fstat(file.fileno()).st_size or None


def _tell(bulk: Bulk, key: str, *, as_json: bool) -> None:
    """How many there are: on stdout for programs, whatever came of it; for people only when it is all."""
    from brooq.service.output import object_line  # noqa: PLC0415

    if as_json:
        click.echo(object_line({"enqueued": bulk.enqueued, "created": bulk.created}))
    else:
        click.echo(text(key, count=bulk.enqueued), err=key != "command.enqueued")
