"""The promises, how often each was looked at, and where one was broken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from brooq.vocabulary.message import text

AUDIT, JOURNAL, PRODUCERS, ORDERED = "audit", "journal", "producers", "ordered"

NEEDS: dict[str, str] = {
    "C1": PRODUCERS,
    "C2": PRODUCERS,
    "C3": AUDIT,
    "C4": AUDIT,
    "C5": AUDIT,
    "C6": AUDIT,
    "C7": AUDIT,
    "C8": AUDIT,
    "C9": AUDIT,
    "C10": JOURNAL,
    "C11": AUDIT,
    "C12": AUDIT,
    "C13": AUDIT,
    "C14": JOURNAL,
    "C15": AUDIT,
    "C16": AUDIT,
    "C17": AUDIT,
}
"""Every promise, and without what it cannot be looked at. Logs that are given beside the audit sharpen others too."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken. `at` is a moment as the audit writes it; None where there is none."""

    promise: str
    job: str | None
    what: str
    at: str | None = None


@dataclass
class Ledger:
    """What was looked at, and what was found."""

    keep: int = 1000
    """How many violations of one promise are kept whole; all are counted."""
    checked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    measured: dict[str, list[float]] = field(default_factory=dict)
    """Seconds, by name: what is reported and is no promise of its own."""
    counted: Counter[str] = field(default_factory=Counter)

    def violate(self, promise: str, job: str | None, key: str, at: str | None = None, **values: object) -> None:
        """Write down a broken promise; `key` is its text in the catalogue."""
        self.broken[promise] += 1
        if self.broken[promise] <= self.keep:
            self.violations.append(Violation(promise, job, text(key, **values), at))

    def measure(self, name: str, seconds: float) -> None:
        """Add one measurement."""
        self.measured.setdefault(name, []).append(seconds)
