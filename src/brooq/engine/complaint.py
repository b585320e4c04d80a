"""Complaints: what the log says of failed attempts, and how much of it.

A traceback costs more than everything else about a failed attempt. When a whole backlog fails, the first ones of a
second tell as much as all of them, and the rest is counted. Nothing is lost: every reason is in its row.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from brooq.engine.attempt import Attempt
from brooq.engine.reason import Relayed, name_of
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import Signal

log = logging.getLogger("brooq")

A_SECOND = 20
"""How many failed attempts of a topic are told one by one in a second."""


class Complaints:
    """Tells of failed attempts."""

    def __init__(self) -> None:
        """Nothing is told yet."""
        self._told: Counter[str] = Counter()
        self._closing: asyncio.TimerHandle | None = None

    def add(self, attempt: Attempt) -> None:
        """This attempt has failed, or asked for something by a signal. Nothing is said where it was interrupted."""
        error, claim = attempt.error, attempt.claim
        if error is None or claim.interruption is not None:
            return
        topic = attempt.topic
        self._told[topic] += 1
        if self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(1.0, self.close)
        if self._told[topic] > A_SECOND:
            return
        extra = {"job": str(claim.id), "topic": topic, "attempt": claim.attempt}
        if isinstance(error, Signal) or (isinstance(error, Relayed) and error.is_signal):
            log.info(text("engine.signal", job=claim.id, topic=topic, signal=name_of(error)), extra=extra)
            return
        message = text("engine.attempt_failed", job=claim.id, topic=topic, attempt=claim.attempt, kind=name_of(error))
        log.error(message, exc_info=error, extra=extra)

    def close(self) -> None:
        """The second is over: how many were not told."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        for topic, count in self._told.items():
            if count > A_SECOND:
                log.error(text("engine.more_failed", topic=topic, count=count - A_SECOND), extra={"topic": topic})
        self._told.clear()
