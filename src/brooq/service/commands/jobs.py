"""`brooq jobs`: a list."""

from __future__ import annotations

import difflib

import click

from brooq.service.commands.parameter import ID, TOPIC
from brooq.vocabulary.job import State, Topic
from brooq.vocabulary.message import text

MAX_LIMIT = 100_000
_PAGE = 1000


@click.command("jobs", help=text("command.jobs_long"))
@click.option("--topic", type=TOPIC, help=text("command.topic_help"))
@click.option("--state", type=click.Choice([str(state) for state in State]), help=text("command.state_help"))
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=20, show_default=True, help=text("command.limit_help")
)
@click.option("--before", type=ID, help=text("command.before_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def jobs(topic: Topic | None, state: str | None, limit: int, before: object, *, as_json: bool) -> None:
    """List."""
    from uuid import UUID  # noqa: PLC0415

    from brooq.service.commands.session import Session, run, session  # noqa: PLC0415
    from brooq.service.output import cell, moment, record_line, table  # noqa: PLC0415
    from brooq.vocabulary.job import JobRecord  # noqa: PLC0415

    async def work() -> None:
        async with session() as opened:
            rows: list[JobRecord] = []
            last = before if isinstance(before, UUID) else None
            left = limit
            while left > 0:
                size = min(left, _PAGE)
                page = await opened.reader.list(
                    topic=topic, state=State(state) if state else None, before=last, limit=size
                )
                if as_json:
                    for record in page:
                        click.echo(record_line(record))
                else:
                    rows.extend(page)
                left -= len(page)
                if len(page) < size:
                    break
                last = page[-1].id
            if not as_json:
                show(rows)
            if left == limit:
                await explain(opened)

    def show(rows: list[JobRecord]) -> None:
        names = ("id", "topic", "state", "attempts", "available", "updated", "error")
        table(
            [text(f"command.heading_{name}") for name in names],
            [
                (str(row.id), row.topic, str(row.state), str(row.attempts), moment(row.available_at),
                 moment(row.updated_at), cell(row.last_error))
                for row in rows
            ],
            right=[3], flexible=[6, 1], optional=[4, 5, 3],
        )  # fmt: skip

    async def explain(opened: Session) -> None:
        """Nothing was found: a word on stderr, and the topic that may have been meant."""
        hint = ""
        if topic is not None:
            census = await opened.store.census([])
            known = {depth.topic for depth in census.depths}
            close = difflib.get_close_matches(topic, known - {topic}, 1) if topic not in known else []
            hint = text("setting.did_you_mean", name=close[0]) if close else ""
        click.echo(text("command.no_jobs") + hint, err=True)

    run(work())
