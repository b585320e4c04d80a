"""Low-water marks: where the next claim of a long backlog goes on.

What a claim took leaves dead index entries behind, which a snapshot that is held open keeps from being cleaned away.
Starting after the last job taken, a claim does not walk them again. It is an accelerator, never the truth: marks count
only in a backlog that is deep, and are forgotten by a claim that was not full and once a second, so that retries,
requeues and late commits before a mark are found. Where such a look from the beginning takes long, since it walks what has
died since the oldest snapshot, the next one is put off: looking must not become what a worker does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

LOOK_AGAIN = 1.0
"""After how many seconds a claim starts from the beginning, however long the backlog is."""

SHARE = 50
"""How many times as long as the last look took longer than a claim does the next one is away at least."""

LATEST = 10.0
"""After how many seconds a claim starts from the beginning, however long that takes."""

DEEP = 500
"""How many jobs in a row make a backlog deep: so few dead entries cost next to nothing."""

Place: TypeAlias = tuple[datetime, UUID]

NO_MARKS: list[list[Any]] = [[], [], [], []]
"""A claim from the beginning."""

NO_LEVEL = -1
"""No job has this priority. A topic with a mark is not asked for its first priority, which is another walk over all that is
dead: with one at no level, a look takes half as long."""

NOWHERE: Place = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


class Marks:
    """The last job taken, by topic and priority."""

    def __init__(self) -> None:
        """Every claim starts from the beginning until `move` is called."""
        self._places: dict[tuple[str, int], Place] = {}
        self._taken = 0
        self._asked = self._looked = time.monotonic()
        self._looking = False
        self._usual = 0.0
        """How many seconds the last claim behind marks took."""
        self._pause = LOOK_AGAIN

    def columns(self) -> list[list[Any]]:
        """The marks as the four arrays that `exchange.sql` takes: topics, priorities, `available_at`, ids."""
        self._asked = time.monotonic()
        self._looking = self._asked - self._looked >= self._pause
        if self._looking:
            # For one claim: the backlog is as deep as before.
            self._places = {(topic, NO_LEVEL): NOWHERE for topic, _ in self._places}
            self._looked = self._asked
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
        took = time.monotonic() - self._asked
        if self._looking:
            self._pause = min(max(LOOK_AGAIN, SHARE * (took - self._usual)), LATEST)
            self._places.clear()
        else:
            self._usual = took
        self._taken += len(rows)
        # Rows come in order of readiness within a priority: the last one of each topic and priority stays.
        self._places.update(((row[2], row[6]), (row[7], row[0])) for row in rows)

    def _forget(self) -> None:
        self._places.clear()
        self._taken = 0
        self._pause = LOOK_AGAIN
