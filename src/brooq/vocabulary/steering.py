"""What people set for a topic, for all workers at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What is set for a topic now. A topic that nobody has set anything for has no record.

    `paused_at`, `paused_by`, `pause_reason`: since when no worker claims from it, by whose word and why; None: it is
    not paused.
    """

    topic: str
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

    @property
    def paused(self) -> bool:
        """Whether no worker claims from it."""
        return self.paused_at is not None
