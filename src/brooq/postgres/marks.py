"""Low-water marks: where the next claim of a long backlog goes on.

What a claim took leaves dead index entries behind, which a snapshot that is held open keeps from being cleaned away.
Starting after the last job taken, a claim does not walk them again. It is an accelerator, never the truth: marks count
only in a backlog that is deep, and are forgotten by a claim that was not full and once a second, so that retries,
requeues and late commits before a mark are found.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

LOOK_AGAIN = 1.0
"""After how many seconds a claim starts from the beginning, however long the backlog is."""

DEEP = 500
"""How many jobs in a row make a backlog deep: so few dead entries cost next to nothing."""

Place: TypeAlias = tuple[datetime, UUID]

NO_MARKS: list[list[Any]] = [[], [], [], []]
"""A claim from the beginning."""


class Marks:
    """The last job taken, by topic and priority."""

    def __init__(self) -> None:
        """Every claim starts from the beginning until `move` is called."""
        self._places: dict[tuple[str, int], Place] = {}
        self._taken = 0
        self._forgotten = time.monotonic()

    def columns(self) -> list[list[Any]]:
        """The marks as the four arrays that `exchange.sql` takes: topics, priorities, `available_at`, ids."""
        now = time.monotonic()
        if now - self._forgotten >= LOOK_AGAIN:
            self._places.clear()  # for one claim: the backlog is as deep as before
            self._forgotten = now
        if self._taken < DEEP:
            return NO_MARKS
        keys, places = list(self._places), list(self._places.values())
        return [
            [topic for topic, _ in keys],
            [priority for _, priority in keys],
            [ready for ready, _ in places],
            [id for _, id in places],
        ]

    def move(self, rows: Sequence[Sequence[Any]], *, full: bool) -> None:
        """A claim has taken these rows of `exchange.sql`; `full`: as many as it asked for, so there may be more."""
        if not full:
            self._forget()
            return
        self._taken += len(rows)
        # Rows come in order of readiness within a priority: the last one of each topic and priority stays.
        self._places.update(((row[2], row[6]), (row[7], row[0])) for row in rows)

    def _forget(self) -> None:
        self._places.clear()
        self._taken = 0
