"""Tells the store what was counted since the last time, so that people see the course of things, over all workers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from brooq.engine.metrics import BUCKETS, Metrics
from brooq.engine.runtime import Runtime
from brooq.engine.store import Sample, Store
from brooq.vocabulary.error import BrooqError, StoreUnavailable
from brooq.vocabulary.job import State
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

MAX_FOREIGN = 20
"""How many topics of other workers get a sample of their depth from this one."""
_RARE = 0.05


class Sampler:
    """One tick after every census. Whatever happens to samples, the queue's work does not rest on them."""

    def __init__(self, store: Store, metrics: Metrics, runtime: Runtime) -> None:
        """Counts from now on."""
        self._store = store
        self._metrics = metrics
        self._clock = runtime.clock
        self._at = runtime.clock()
        self._last = _Counts(metrics)
        self._spoken: set[str] = set()
        self._complained = False

    async def tick(self) -> None:
        """Send the differences. Raises StoreUnavailable: they go with the next tick then."""
        now, counts = self._clock(), _Counts(self._metrics)
        samples = self._samples(counts)
        if samples:
            try:
                await self._store.sample(samples, now - self._at)
            except StoreUnavailable:
                raise
            except BrooqError as error:
                # A table that is not there or a right that was not given: charts stay empty, jobs go on.
                if not self._complained:
                    log.warning(text("engine.no_samples", reason=error))
                self._complained = True
        self._at, self._last = now, counts

    def _samples(self, counts: _Counts) -> Sequence[Sample]:
        depths, oldest = self._depths()
        topics = self._metrics.topics | set(sorted(depths.keys() - self._metrics.topics)[:MAX_FOREIGN])
        samples = []
        for topic in sorted(topics):
            depth = depths.get(topic, Counter())
            sample = counts.since(self._last, topic)._replace(
                waiting=depth[State.PENDING] + depth[State.FAILED],
                processing=depth[State.PROCESSING],
                oldest=oldest.get(topic, 0.0),
            )
            # A topic where nothing happens is told of once more, as empty, and then no longer.
            loud = any(sample[1:])
            if loud or topic in self._spoken:
                samples.append(sample)
            (self._spoken.add if loud else self._spoken.discard)(topic)
        return samples

    def _depths(self) -> tuple[dict[str, Counter[State]], dict[str, float]]:
        census = self._metrics.census
        depths: dict[str, Counter[State]] = {}
        for depth in census.depths if census is not None else ():
            # What was counted together under `_other` begins with what no topic begins with.
            if not depth.topic.startswith("_"):
                depths.setdefault(depth.topic, Counter())[depth.state] += depth.jobs
        return depths, census.oldest if census is not None else {}


class _Counts:
    """The counters at one moment."""

    def __init__(self, metrics: Metrics) -> None:
        self.settled = Counter(metrics.settled)
        self.attempts = {topic: (each.count, each.sum) for topic, each in metrics.attempt_seconds.items()}
        self.pickup = {topic: (list(each.counts), each.sum) for topic, each in metrics.pickup_seconds.items()}

    def since(self, last: _Counts, topic: str) -> Sample:
        """What was counted after `last`, without depths."""

        def settled(state: State) -> int:
            return self.settled[topic, str(state)] - last.settled[topic, str(state)]

        attempts, ran = self.attempts.get(topic, (0, 0.0))
        attempts_before, ran_before = last.attempts.get(topic, (0, 0.0))
        buckets, waited = self.pickup.get(topic, ([], 0.0))
        buckets_before, waited_before = last.pickup.get(topic, ([0] * len(buckets), 0.0))
        claims = [now - before for now, before in zip(buckets, buckets_before, strict=True)]
        return Sample(
            topic,
            done=settled(State.DONE),
            failed=settled(State.FAILED),
            dead=settled(State.DEAD),
            canceled=settled(State.CANCELED),
            attempts=attempts - attempts_before,
            ran=ran - ran_before,
            claimed=sum(claims),
            waited=waited - waited_before,
            waited_p95=rare(claims),
        )


def rare(counts: Sequence[int]) -> float:
    """What one in twenty exceeds, from counts by bucket: the upper bound of the bucket where that is; 0 without any."""
    beyond = sum(counts) * _RARE
    for bound, count in zip(reversed((*BUCKETS, BUCKETS[-1])), reversed(counts), strict=False):
        beyond -= count
        if count and beyond < 0:
            return bound
    return 0.0
