"""`brooq explain`: why a job is not running."""

from __future__ import annotations

from uuid import UUID

import click

from brooq.service.commands.parameter import ID
from brooq.vocabulary.message import text


@click.command("explain", help=text("command.explain_long"))
@click.argument("id", type=ID)
@click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))
def explain(id: UUID, *, as_json: bool) -> int:
    """Explain."""
    from brooq.postgres.facts import Facts  # noqa: PLC0415
    from brooq.service.commands.session import run, session  # noqa: PLC0415
    from brooq.service.explanation import explain as decide  # noqa: PLC0415
    from brooq.service.explanation_text import as_values, headline, remarks, sentence  # noqa: PLC0415
    from brooq.service.output import object_line, paragraph  # noqa: PLC0415
    from brooq.vocabulary.duration import Duration, to_timedelta  # noqa: PLC0415

    async def work() -> tuple[Facts | None, Duration]:
        async with session() as opened:
            return await opened.reader.facts(id), opened.settings.config.lease

    facts, length = run(work())
    if facts is None:
        raise click.ClickException(text("command.no_job", id=id))
    lease = to_timedelta(length)
    explanation = decide(facts)
    if as_json:
        click.echo(object_line(as_values(facts, explanation, lease)))
        return 0
    attempts = str(facts.attempts) if facts.max_attempts is None else f"{facts.attempts}/{facts.max_attempts}"
    click.echo(f"{facts.id}  {facts.topic}  {facts.state}  {text('command.heading_attempts')} {attempts}")
    paragraph(f"{headline(explanation)} {sentence(explanation.cause, facts)}")
    for line in remarks(facts, explanation, lease):
        paragraph(line, indent=2)
    return 0
