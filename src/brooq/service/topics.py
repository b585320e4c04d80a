"""Which topics there are, as far as jobs and workers know; and which one may have been meant."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.service.commands.session import Session


async def known(opened: Session) -> set[str]:
    """The topics of jobs that are counted, of workers that were seen, and those that something is set for."""
    census = await opened.store.census([])
    workers = await opened.reader.workers()
    return {depth.topic for depth in census.depths} | {topic for each in workers for topic in each.topics}


async def meant(opened: Session, topic: str, *, close_only: bool = False) -> str | None:
    """A word on a topic that nobody knows, with the one that may have been meant; None when it is known.

    `close_only`: None too when there is none that is written like it.
    """
    topics = await known(opened)
    if topic in topics:
        return None
    close = difflib.get_close_matches(topic, topics, 1, 0.8 if close_only else 0.6)
    if close_only and not close:
        return None
    hint = text("setting.did_you_mean", name=close[0]) if close else ""
    return text("command.topic_unknown", topic=topic) + hint


PATIENCE = 3.0
"""How many seconds a key of completion may take."""


def at_once() -> Sequence[str]:
    """The topics that there are; none when nobody says so at once, whatever the reason."""
    from brooq.service.commands.session import session  # noqa: PLC0415

    async def ask() -> set[str]:
        async with asyncio.timeout(PATIENCE), session() as opened:
            return await known(opened)

    with suppress(Exception):  # a line is being typed: there is nobody to tell
        return sorted(asyncio.run(ask()))
    return ()
