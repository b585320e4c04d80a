"""The queue at this moment, topic by topic: what there is to see of it in one look, read at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from brooq.postgres.facts import Pace, Seen
from brooq.vocabulary.job import State
from brooq.vocabulary.steering import TopicRecord

if TYPE_CHECKING:
    from brooq.engine.store import Census
    from brooq.service.commands.session import Session

WAITING = (State.PENDING, State.FAILED)


@dataclass(frozen=True, slots=True)
class Line:
    """A topic. Rates are jobs a second, `oldest` is how many seconds the first ready job has waited."""

    topic: str
    waiting: int
    exact: bool
    """Whether `waiting` was counted; else it is at least so many."""
    running: int
    dead: int
    made: float
    done: float
    died: float
    oldest: float
    paused: bool
    workers: int
    """How many workers that are there have a kind for it."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All topics, those that wait longest first, and all workers."""

    at: datetime
    lines: Sequence[Line]
    workers: Sequence[Seen]

    @property
    def there(self) -> list[Seen]:
        """The workers that have said something lately."""
        return [each for each in self.workers if each.there(self.at)]

    @property
    def busy(self) -> tuple[int, int]:
        """How many slots are occupied, of how many."""
        return sum(each.occupied for each in self.there), sum(each.slots for each in self.there)


async def look(opened: Session) -> Overview:
    """Read it. Raises StoreUnavailable."""
    pace = await opened.reader.pace()
    workers = await opened.reader.workers()
    known = {topic for each in workers if each.there(pace.now) for topic in each.topics}
    census = await opened.store.census(sorted(known))
    return overview(census, pace, workers, await opened.store.topics())


def overview(census: Census, pace: Pace, workers: Sequence[Seen], steered: Sequence[TopicRecord]) -> Overview:
    """What was read, put together."""
    depths = {(depth.topic, depth.state): depth for depth in census.depths}
    there = [each for each in workers if each.there(pace.now)]
    paused = {each.topic for each in steered if each.paused}
    topics = {depth.topic for depth in census.depths} | set(census.oldest) | set(pace.made) | set(pace.done) | paused

    def jobs(topic: str, *states: State) -> int:
        return sum(depths[topic, state].jobs for state in states if (topic, state) in depths)

    lines = [
        Line(
            topic=topic,
            waiting=jobs(topic, *WAITING),
            exact=all(depths[topic, state].exact for state in WAITING if (topic, state) in depths),
            running=jobs(topic, State.PROCESSING),
            dead=jobs(topic, State.DEAD),
            made=pace.made.get(topic, 0.0),
            done=pace.done.get(topic, 0.0),
            died=pace.dead.get(topic, 0.0),
            oldest=census.oldest.get(topic, 0.0),
            paused=topic in paused,
            workers=sum(topic in each.topics for each in there),
        )
        for topic in topics
    ]
    lines.sort(key=lambda line: (-line.oldest, -line.waiting, -line.running, -line.done, line.topic))
    return Overview(pace.now, lines, workers)


def as_values(found: Overview) -> dict[str, Any]:
    """All of it for a program."""
    busy, slots = found.busy
    return {
        "at": found.at,
        "workers": len(found.there),
        "slots": slots,
        "busy": busy,
        "topics": [
            {
                "topic": line.topic, "waiting": line.waiting, "exact": line.exact, "running": line.running,
                "dead": line.dead, "made_per_second": round(line.made, 3), "done_per_second": round(line.done, 3),
                "died_per_second": round(line.died, 3), "oldest_ready_seconds": round(line.oldest, 3),
                "paused": line.paused, "workers": line.workers,
            }
            for line in found.lines
        ],
    }  # fmt: skip
