"""`brooq pause` and `brooq resume`: what workers claim, for all of them at once."""

from __future__ import annotations

import click

from brooq.service.commands.parameter import TOPIC
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text

_reason = click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
_topics = click.argument("topics", type=TOPIC, nargs=-1, required=True, metavar="TOPIC...")
_json = click.option("--json", "as_json", is_flag=True, help=text("command.json_list_help"))


@click.command("pause", help=text("command.pause_long"))
@_topics
@_reason
@_json
def pause(topics: tuple[Topic, ...], reason: str | None, *, as_json: bool) -> None:
    """Pause."""
    _steer(topics, reason, "pause", as_json=as_json)


@click.command("resume", help=text("command.resume_long"))
@_topics
@_reason
@_json
def resume(topics: tuple[Topic, ...], reason: str | None, *, as_json: bool) -> None:
    """Resume."""
    _steer(topics, reason, "resume", as_json=as_json)


def _steer(topics: tuple[Topic, ...], reason: str | None, action: str, *, as_json: bool) -> None:
    from brooq.engine.reason import sanitize  # noqa: PLC0415
    from brooq.service.commands.actor import Acting, acting  # noqa: PLC0415
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.line import shorten  # noqa: PLC0415
    from brooq.service.output import moment, object_line, paragraph  # noqa: PLC0415
    from brooq.service.topics import meant  # noqa: PLC0415

    async def one(opened: Acting, topic: Topic) -> None:
        act = opened.operator.pause if action == "pause" else opened.operator.resume
        done = await act(topic, reason and sanitize(reason))
        held = next((each for each in await opened.session.store.topics() if each.topic == topic and each.paused), None)
        if as_json:
            values = {
                "topic": topic,
                "done": done,
                "paused_at": held and held.paused_at,
                "paused_by": held and held.paused_by,
            }
            click.echo(object_line(values | {"reason": held and held.pause_reason}))
        elif action == "resume":
            click.echo(text("command.resumed" if done else "command.resumed_before", topic=topic))
        elif done:
            paragraph(text("command.paused", topic=topic))
        elif held is not None:
            said = {"at": moment(held.paused_at), "by": shorten(held.paused_by or "-", 120)}
            paragraph(text("command.paused_before", topic=topic, reason=shorten(held.pause_reason or "-", 200), **said))
        hint = await meant(opened.session, topic)
        if hint is not None:
            click.echo(hint, err=True)

    async def work() -> None:
        async with acting() as opened:
            for topic in topics:
                await one(opened, topic)

    run(work())
