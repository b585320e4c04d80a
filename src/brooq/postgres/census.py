"""Reading the table's depths at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence

from brooq.engine.store import SUSPECT, Census, Depth
from brooq.postgres.session import Session
from brooq.vocabulary.job import State

SMALL_TABLE = 16 * 1024 * 1024
"""Up to this many bytes the table is simply counted."""

COUNT_BUDGET = 10_000
"""About how many waiting rows one census looks at, over all topics."""

FOREIGN_TOPICS = 200
"""How many topics that nobody asked for are looked for."""


async def read_census(session: Session, statement: str, topics: Sequence[str]) -> Census:
    """Depths by topic and state, the age of each topic's oldest ready job, and how many jobs are suspect."""
    bound = max(100, COUNT_BUDGET // max(len(topics), 1))
    depths, oldest, suspects = [], dict.fromkeys(topics, 0.0), dict.fromkeys(topics, 0)
    for topic, state, count, exact, age in await session.fetch(
        statement, [list(topics), bound, FOREIGN_TOPICS, SMALL_TABLE, SUSPECT]
    ):
        if state is None and age is None:
            suspects[topic] = count
        elif state is None:
            oldest[topic] = age
        else:
            depths.append(Depth(topic, State(state), count, exact))
    return Census(depths, oldest, suspects)
