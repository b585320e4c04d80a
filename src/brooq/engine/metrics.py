"""What a worker counts (requirement O1): plain numbers, exposed by whoever wants to.

Labels are bounded: topics that this process has no kind for are counted together, under `_other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from brooq.engine.store import Census, Depth
from brooq.vocabulary.job import State

OTHER = "_other"
MAX_FOREIGN = 20
"""Up to how many topics without a kind here get a name of their own in the census."""

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histograms, in seconds."""


@dataclass(slots=True)
class Histogram:
    """Counts by bucket, the last one without an upper bound; and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(self.counts)


class Metrics:
    """The counters of one engine, by topic."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        """`topics` are the ones with a kind here; each has a series from the start, at zero."""
        self.topics: set[str] = set()
        self.claimed: Counter[str] = Counter()
        self.settled: Counter[tuple[str, str]] = Counter()
        self.attempt_seconds: dict[str, Histogram] = {}
        self.pickup_seconds: dict[str, Histogram] = {}
        self.lease_lost: Counter[str] = Counter()
        self.hung: Counter[str] = Counter()
        self.requeued: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.behind = 0
        """Ticks of retention that left old jobs for the next one."""
        self.census: Census | None = None
        self.census_at: float | None = None
        for topic in topics:
            self.add_topic(topic)

    def add_topic(self, topic: str) -> None:
        """Give a topic its series."""
        self.topics.add(topic)
        self.attempt_seconds[topic] = Histogram()
        self.pickup_seconds[topic] = Histogram()
        for counter in (self.claimed, self.lease_lost, self.hung, self.requeued, self.deleted):
            counter[topic] += 0

    def label(self, topic: str) -> str:
        """The topic itself when it has a kind here, else the common label."""
        return topic if topic in self.topics else OTHER

    def set_census(self, census: Census, now: float) -> None:
        """Keep a census: known topics have every state, foreign ones are named while they are few."""
        foreign = {depth.topic for depth in census.depths} | set(census.oldest) | set(census.suspects)
        foreign -= self.topics
        named = self.topics | (foreign if len(foreign) <= MAX_FOREIGN else set())
        counts: Counter[tuple[str, State]] = Counter()
        inexact: set[tuple[str, State]] = set()
        for topic in named:
            for state in State:
                counts[topic, state] = 0
        for depth in census.depths:
            key = (depth.topic if depth.topic in named else OTHER, depth.state)
            counts[key] += depth.jobs
            if not depth.exact:
                inexact.add(key)
        oldest = dict.fromkeys(named, 0.0)
        for topic, age in census.oldest.items():
            label = topic if topic in named else OTHER
            oldest[label] = max(oldest.get(label, 0.0), age)
        suspects = dict.fromkeys(named, 0)
        for topic, count in census.suspects.items():
            label = topic if topic in named else OTHER
            suspects[label] = suspects.get(label, 0) + count
        depths = [Depth(topic, state, count, (topic, state) not in inexact) for (topic, state), count in counts.items()]
        self.census = Census(depths, oldest, suspects)
        self.census_at = now
