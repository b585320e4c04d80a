"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime

from brooq.vocabulary.duration import Duration, to_timedelta


class VirtualClock:
    """The clock of a MemoryStore: `MemoryStore(VirtualClock())`. It only ever moves forward."""

    def __init__(self, start: datetime | None = None) -> None:
        """`start` is an aware datetime; now, unless given."""
        self._now = (start or datetime.now(UTC)).astimezone(UTC)

    def __call__(self) -> datetime:
        """What it shows."""
        return self._now

    def advance(self, duration: Duration) -> datetime:
        """Move on by a timedelta or by seconds; answers what it shows then. Raises ValueError for a step back."""
        return self.set(self._now + to_timedelta(duration))

    def set(self, moment: datetime) -> datetime:
        """Move on to an aware moment. Raises ValueError for one that is past: leases would come alive again."""
        if moment < self._now:
            raise ValueError(f"{moment.isoformat()} < {self._now.isoformat()}")
        self._now = moment.astimezone(UTC)
        return self._now
