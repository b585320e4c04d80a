"""What is set for topics in the store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from brooq.vocabulary.job import JobRecord, State
from brooq.vocabulary.steering import Limits, TopicRecord

WAITING = (State.PENDING, State.FAILED)


class Steering:
    """What is set for topics, and which jobs a claim within limits may take."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """Nothing is set."""
        self._clock = clock
        self._topics: dict[str, TopicRecord] = {}
        self._declared: dict[str, Limits] = {}
        self._tokens: dict[str, tuple[float, datetime]] = {}

    def of(self, topic: str) -> TopicRecord:
        """What is set for a topic."""
        return self._topics.get(topic, TopicRecord(topic))

    def governs(self, topic: str) -> bool:
        """Whether an exchange leaves the topic alone."""
        return self.of(topic).paused or self.of(topic).limits.set

    def records(self) -> list[TopicRecord]:
        """What is set, by topic."""
        return [self._topics[topic] for topic in sorted(self._topics)]

    def pause(self, topic: str, by: str, reason: str | None) -> bool:
        """Shut a topic."""
        found = self.of(topic)
        if not found.paused:
            self._topics[topic] = replace(found, paused_at=self._clock(), paused_by=by, pause_reason=reason)
        return not found.paused

    def resume(self, topic: str) -> bool:
        """Open it."""
        found = self.of(topic)
        if found.paused:
            self._topics[topic] = replace(found, paused_at=None, paused_by=None, pause_reason=None)
        return found.paused

    def limit(self, topic: str, limits: Limits | None, by: str) -> bool:
        """Set limits by hand, or hand them back."""
        found = self.of(topic)
        if limits is None and found.limits_by is None:
            return False
        self._set(
            topic, self._declared.get(topic, Limits()) if limits is None else limits, None if limits is None else by
        )
        return True

    def declare(self, limits: Mapping[str, Limits | None]) -> None:
        """What code asks for."""
        for topic, wanted in limits.items():
            before = self._declared.pop(topic, None)
            if wanted is not None:
                self._declared[topic] = wanted
            if wanted != before and self.of(topic).limits_by is None:
                self._set(topic, wanted or Limits(), None)

    def _set(self, topic: str, limits: Limits, by: str | None) -> None:
        found = self.of(topic)
        if (found.limits.rate, found.limits.period) != (limits.rate, limits.period):
            self._tokens.pop(topic, None)
        self._topics[topic] = replace(found, limits=limits, limits_by=by)

    def choose(
        self, topic: str, records: Sequence[JobRecord], ready: Sequence[JobRecord], limit: int
    ) -> tuple[list[JobRecord], float | None]:
        """Which of the ready jobs may be taken, and how many seconds it is to the next token when there is none."""
        if self.of(topic).paused:
            return [], None
        limits = self.of(topic).limits
        running = Counter(record.concurrency_key for record in records if record.state is State.PROCESSING)
        tokens = self._bucket(topic, limits)
        room = limit if limits.max_running is None else min(limit, limits.max_running - running.total())
        room = room if tokens is None else min(room, int(tokens))
        per_key = 1 if limits.ordered else limits.max_running_per_key
        first: dict[str, UUID] = {}
        if limits.ordered:
            for record in records:
                if record.state in WAITING:
                    first[record.concurrency_key] = min(record.id, first.get(record.concurrency_key, record.id))
        chosen: list[JobRecord] = []
        for record in ready:
            key = record.concurrency_key
            free = not key or per_key is None or running[key] < per_key
            if len(chosen) < room and free and (not key or first.get(key, record.id) == record.id):
                chosen.append(record)
                running[key] += 1
        if tokens is None or limits.rate is None or limits.period is None:
            return chosen, None
        left = tokens - len(chosen)
        self._tokens[topic] = left, self._clock()
        return chosen, None if left >= 1 else (1 - left) / limits.rate * limits.period

    def _bucket(self, topic: str, limits: Limits) -> float | None:
        if limits.rate is None or limits.period is None:
            return None
        now = self._clock()
        tokens, at = self._tokens.get(topic, (float(limits.rate), now))
        return min(limits.rate, tokens + limits.rate * max((now - at).total_seconds(), 0.0) / limits.period)
