"""The reaper: jobs whose lease has expired go back into circulation (requirement L4)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from brooq.engine.metrics import Metrics
from brooq.engine.store import Store
from brooq.vocabulary.event import Event, JobRequeued
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

BATCH = 500
MAX_BATCHES = 100


class Reaper:
    """Runs in every process; many at once do no harm."""

    def __init__(self, store: Store, metrics: Metrics, emit: Callable[[Event], None]) -> None:
        """`emit` hears of every job that came back."""
        self._store = store
        self._metrics = metrics
        self._emit = emit

    async def tick(self) -> int:
        """Put back every job whose lease has expired; answers how many."""
        total: Counter[str] = Counter()
        for _ in range(MAX_BATCHES):
            batch = await self._store.reap(BATCH)
            for requeued in batch:
                total[requeued.topic] += 1
                self._metrics.requeued[self._metrics.label(requeued.topic)] += 1
                self._emit(JobRequeued(requeued.id, requeued.topic))
            if len(batch) < BATCH:
                break
        if total:
            topics = ", ".join(f"{topic} {count}" for topic, count in sorted(total.items()))
            log.info(text("engine.reaped", count=total.total(), topics=topics), extra={"count": total.total()})
        return total.total()
