"""Claims of topics that have limits: a transaction each, beside the exchange that claims all others in one.

Which topics those are the exchange tells; where there are none, nothing of this happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from brooq.engine.store import Store, Taken
from brooq.vocabulary.error import StoreBusy

BUSY = 0.05
"""After how many seconds a topic is looked at again that another worker's claim had locked for long."""

SHORTEST = 0.001
"""Waits for a token are no shorter, in seconds."""


class LimitedTopics:
    """The limited topics of one worker that have jobs waiting."""

    def __init__(self, store: Store, worker: str, lease: timedelta, look: Callable[[], None]) -> None:
        """`look` makes the worker claim again."""
        self._store = store
        self._worker = worker
        self._lease = lease
        self._look = look
        self._topics: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._turn = False

    def __contains__(self, topic: object) -> bool:
        """Whether the topic had limits and waiting jobs when it was looked at last."""
        return topic in self._topics

    def told(self, topics: Sequence[str], asked: Sequence[str]) -> None:
        """What the last exchange has found among the topics that it was asked for, in any order."""
        # Their turns stay as they are.
        known = [topic for topic in self._topics if topic in topics or topic not in asked]
        self._topics = [*known, *(topic for topic in topics if topic not in known)]

    def share(self, limit: int) -> int:
        """How many of the free slots topics without limits may fill: all of them, or, where others wait too, half, and
        the odd one by turns."""
        if not self._topics:
            return limit
        self._turn = not self._turn
        return limit // 2 + (limit % 2 if self._turn else 0)

    async def claim(self, limit: int, begin: Callable[[list[Taken]], None]) -> bool:
        """Claim up to `limit` jobs, topic by topic in turns; `begin` gets those of each. Whether there may be more at once.

        Raises the store's errors; what was claimed before has begun then.
        """
        more = False
        for topic in self._topics[:]:
            if limit <= 0:
                return True
            self._topics.remove(topic)
            self._topics.append(topic)
            try:
                found = await self._store.claim_limited(self._worker, topic, limit, self._lease)
            except StoreBusy:
                self._look_in(BUSY)
                continue
            if found.taken:
                begin(found.taken)
            limit -= len(found.taken)
            more = more or found.more
            if found.wait is not None:
                self._look_in(found.wait)
        return more

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + max(seconds, SHORTEST)
        if self._timer is not None and not self._timer.cancelled() and loop.time() < self._timer.when() <= when:
            return  # it looks earlier already
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self._look)
