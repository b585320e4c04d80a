"""Retention: terminal jobs that are old enough are deleted, in batches (requirements R1 to R4)."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta

from brooq.engine.metrics import Metrics
from brooq.engine.store import Store
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

MAX_BATCHES = 100
"""After this many batches the rest waits for the next tick: better than one pass without an end."""


class Retention:
    """Deletes in every process; two of them delete different rows."""

    def __init__(self, store: Store, metrics: Metrics, ttl: timedelta, batch: int) -> None:
        """`ttl` 0 turns it off: it never means "delete all" (R2)."""
        self._store = store
        self._metrics = metrics
        self._ttl = ttl
        self._batch = batch

    async def tick(self) -> int:
        """Delete what is old enough; answers how many rows."""
        if self._ttl <= timedelta(0):
            return 0
        total: Counter[str] = Counter()
        for _ in range(MAX_BATCHES):
            topics = await self._store.prune(self._ttl, self._batch)
            for topic in topics:
                total[topic] += 1
                self._metrics.deleted[self._metrics.label(topic)] += 1
            if len(topics) < self._batch:
                break
        else:
            self._metrics.behind += 1
            log.warning(text("engine.retention_behind", batches=MAX_BATCHES, count=total.total()))
        if total:
            topics_text = ", ".join(f"{topic} {count}" for topic, count in sorted(total.items()))
            log.info(text("engine.pruned", count=total.total(), topics=topics_text), extra={"count": total.total()})
        return total.total()
