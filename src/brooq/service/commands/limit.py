"""`brooq limit`: how many jobs of a topic run at one time, and how fast, over all workers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from brooq.service.commands.parameter import TOPIC
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.vocabulary.steering import Limits, TopicRecord

_COUNT = click.IntRange(min=1)


class _RateType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """So many in a time, `100/1m`."""

    name = "rate"

    def convert(
        self, value: str, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, timedelta]:
        """Read it."""
        from brooq.service.settings import duration  # noqa: PLC0415

        count, _, period = value.partition("/")
        try:
            return int(count), duration(period)
        except (ValueError, OverflowError):
            self.fail(text("command.bad_rate", value=value[:60]), parameter, context)


@click.command("limit", help=text("command.limit_long"))
@click.argument("topic", type=TOPIC)
@click.option("--max-running", type=_COUNT, help=text("command.max_running_help"))
@click.option("--max-running-per-key", type=_COUNT, help=text("command.max_running_per_key_help"))
@click.option("--ordered", is_flag=True, help=text("command.limit_ordered_help"))
@click.option("--rate", type=_RateType(), metavar=text("command.rate_value"), help=text("command.rate_help"))
@click.option("--clear", is_flag=True, help=text("command.clear_help"))
@click.option("--none", "unlimited", is_flag=True, help=text("command.none_help"))
@click.option("--reason", metavar=text("command.reason_value"), help=text("command.reason_help"))
@click.option("--json", "as_json", is_flag=True, help=text("command.json_help"))
def limit(
    topic: Topic, max_running: int | None, max_running_per_key: int | None, rate: tuple[int, timedelta] | None,
    reason: str | None, *, ordered: bool, clear: bool, unlimited: bool, as_json: bool,
) -> None:  # fmt: skip
    """Set limits, hand them back, or tell them."""
    from brooq.engine.reason import sanitize  # noqa: PLC0415
    from brooq.service.commands.actor import acting  # noqa: PLC0415
    from brooq.service.commands.session import run  # noqa: PLC0415
    from brooq.service.output import object_line  # noqa: PLC0415
    from brooq.vocabulary.steering import Limits, TopicRecord  # noqa: PLC0415

    count, period = rate or (None, None)
    wanted = Limits(max_running, max_running_per_key, ordered, count, period)
    if (clear and unlimited) or ((clear or unlimited) and wanted.set):
        raise click.UsageError(text("command.limit_alone"))

    async def work() -> tuple[TopicRecord, bool]:
        done = True
        async with acting() as opened:
            if clear:
                done = await opened.operator.limit(topic, None, reason and sanitize(reason))
            elif unlimited or wanted.set:
                done = await opened.operator.limit(topic, wanted, reason and sanitize(reason))
            found = next((each for each in await opened.session.store.topics() if each.topic == topic), None)
        return found or TopicRecord(topic), done

    found, done = run(work())
    if as_json:
        click.echo(object_line({"topic": topic, "limits": found.limits.as_object(), "limits_by": found.limits_by}))
    elif done:
        by = found.limits_by or text("command.cron_code")
        click.echo(text("command.limited", topic=topic, limits=_told(found.limits), by=by))
    else:
        click.echo(text("command.limit_cleared_before", topic=topic))


def _told(limits: Limits) -> str:
    from brooq.service.output import span  # noqa: PLC0415

    parts = [
        text(f"command.limit_{name}", value=value)
        for name in ("max_running", "max_running_per_key")
        if (value := getattr(limits, name)) is not None
    ]
    if limits.ordered:
        parts.append(text("command.limit_ordered"))
    if limits.rate is not None and limits.period is not None:
        parts.append(text("command.limit_rate", value=limits.rate, span=span(limits.period)))
    return ", ".join(parts) or text("command.limit_none")
