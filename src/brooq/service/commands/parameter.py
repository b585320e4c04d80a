"""Types of parameters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import click
from click.shell_completion import CompletionItem

from brooq.service.line import shorten
from brooq.vocabulary.error import TopicError
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text


class TopicType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A topic; says which one may have been meant."""

    name = "topic"

    def convert(self, value: str, parameter: click.Parameter | None, context: click.Context | None) -> Topic:
        """Check it."""
        try:
            return Topic(value)
        except TopicError as error:
            self.fail(f"{error}{_meant(value)}", parameter, context)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The topics that there are, where a database answers at once; nothing otherwise, and no complaint."""
        from brooq.service.topics import at_once  # noqa: PLC0415

        return [CompletionItem(topic) for topic in at_once() if topic.startswith(incomplete)]


def _meant(value: str) -> str:
    guess = "".join(c if c.isascii() and c.isalnum() else "." if c in "./:" else "-" for c in value.strip().lower())
    try:
        return text("setting.did_you_mean", name=Topic(guess))
    except TopicError:
        return ""


class IdType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A job's id."""

    name = "id"

    def convert(self, value: str, parameter: click.Parameter | None, context: click.Context | None) -> UUID:
        """Read it."""
        try:
            return UUID(value)
        except ValueError:
            self.fail(text("command.bad_id", value=shorten(value, 60)), parameter, context)


class MomentType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A moment: RFC 3339 with a zone, or a duration from now, `+10m`."""

    name = "time"

    def convert(self, value: str, parameter: click.Parameter | None, context: click.Context | None) -> datetime:
        """Read it."""
        from brooq.service.settings import duration  # noqa: PLC0415

        try:
            if value.startswith("+"):
                return datetime.now(UTC) + duration(value[1:])
            found = datetime.fromisoformat(value.upper().replace("Z", "+00:00") if value[-1:] in "zZ" else value)
        except (ValueError, OverflowError) as error:
            reason = str(error) if value.startswith("+") else ""
            self.fail(text("command.bad_time", value=shorten(value, 60), reason=reason).rstrip(), parameter, context)
        if found.tzinfo is None:
            self.fail(text("command.naive_time", value=shorten(value, 60)), parameter, context)
        return found


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A length of time with its unit, as in the settings: `90s`, `1h30m`; 0 needs none."""

    name = "duration"

    def convert(self, value: str, parameter: click.Parameter | None, context: click.Context | None) -> timedelta:
        """Read it."""
        from brooq.service.settings import duration  # noqa: PLC0415

        try:
            found = duration(value)
        except (ValueError, OverflowError) as error:
            self.fail(str(error), parameter, context)
        if found < timedelta(0):
            self.fail(text("command.negative_duration", value=shorten(value, 60)), parameter, context)
        return found


TOPIC, ID, MOMENT, DURATION = TopicType(), IdType(), MomentType(), DurationType()
