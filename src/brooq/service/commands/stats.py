"""`brooq stats`: the table at a glance."""

from __future__ import annotations

import click

from brooq.vocabulary.job import State
from brooq.vocabulary.message import text


def _waited(seconds: float) -> str:
    from brooq.service.output import span  # noqa: PLC0415

    return span(seconds) if seconds > 0 else "-"


@click.command("stats", help=text("command.stats_long"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))
def stats(*, as_json: bool) -> None:
    """Count."""
    from brooq.engine.store import Census  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.output import object_line, table  # noqa: PLC0415

    async def work() -> Census:
        async with session() as opened:
            return await opened.store.census([])

    census = run(work())
    counts = {(depth.topic, depth.state): depth for depth in census.depths}
    topics = sorted({topic for topic, _ in counts} | {topic for topic, age in census.oldest.items() if age})
    if as_json:
        for topic in topics:
            depths = {state: counts.get((topic, state)) for state in State}
            line: dict[str, object] = {"topic": topic}
            line.update((str(state), depth.jobs if depth else 0) for state, depth in depths.items())
            line["oldest_ready_seconds"] = round(census.oldest.get(topic, 0.0), 3)
            line["estimated"] = [str(state) for state, depth in depths.items() if depth and not depth.exact]
            click.echo(object_line(line))
        return
    rows = []
    for topic in topics:
        found = [counts.get((topic, state)) for state in State]
        cells = [("" if each.exact else "~") + str(each.jobs) if each else "0" for each in found]
        rows.append((topic, *cells, _waited(census.oldest.get(topic, 0.0))))
    headings = [text("command.heading_topic"), *map(str, State), text("command.heading_oldest")]
    table(headings, rows, right=range(1, len(headings)), flexible=[0])
    if any(not depth.exact for depth in census.depths):
        click.echo(text("command.estimated"), err=True)
