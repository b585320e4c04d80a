"""Which topics there are, as far as jobs and workers know; and which one may have been meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.service.commands.session import Session


async def known(opened: Session) -> set[str]:
    """The topics of jobs that are counted, of workers that were seen, and those that something is set for."""
    census = await opened.store.census([])
    workers = await opened.reader.workers()
    return {depth.topic for depth in census.depths} | {topic for each in workers for topic in each.topics}


async def meant(opened: Session, topic: str) -> str | None:
    """A word on a topic that nobody knows, with the one that may have been meant; None when it is known."""
    topics = await known(opened)
    if topic in topics:
        return None
    close = difflib.get_close_matches(topic, topics, 1)
    hint = text("setting.did_you_mean", name=close[0]) if close else ""
    return text("command.topic_unknown", topic=topic) + hint
