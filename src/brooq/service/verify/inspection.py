"""One whole check of one database with its logs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brooq.postgres.audit.history import Change, History, moment
from brooq.service.verify.checker import ORDER_MARGIN, Checker, check_order
from brooq.service.verify.ledger import JOURNAL, NEEDS, PRODUCERS, Ledger, Violation
from brooq.service.verify.life import Rules
from brooq.service.verify.logs import Faults, Journal, Producers
from brooq.service.verify.setting import check_settings

NEAR = 5.0
"""How many seconds around a violation its faults are looked for."""
SKEW = 5.0
"""By how many seconds the clocks of logs and database may differ where a log begins before the audit."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read."""

    dsn: str
    schema: str = "public"
    audit_schema: str | None = None
    journal: Sequence[Path] = ()
    producers: Sequence[Path] = ()
    faults: Sequence[Path] = ()


@dataclass(slots=True)
class Finding:
    """A violation with what explains it."""

    violation: Violation
    history: list[Change]
    faults: list[tuple[float, dict[str, Any]]]
    """With how many seconds they came after it."""


@dataclass(slots=True)
class Inspection:
    """What a check has come to."""

    ledger: Ledger
    changes: int
    jobs: int
    older: int
    unreadable: int
    seconds: float
    given: frozenset[str]
    findings: list[Finding] = field(default_factory=list)

    @property
    def violations(self) -> int:
        """How many, shown or not."""
        return self.ledger.broken.total()

    def missing(self, promise: str) -> str | None:
        """Without what this promise could not be looked at; None: it was."""
        need = NEEDS[promise]
        return need if need in {JOURNAL, PRODUCERS} - self.given else None


def inspect(
    sources: Sources, rules: Rules, *, ordered: bool = False, limit: int = 10, margin: float = ORDER_MARGIN
) -> Inspection:
    """Read everything and check it. At most `limit` violations of each promise come with their histories.

    Raises SchemaError (there is no audit), StoreUnavailable, ConfigError, OSError.
    """
    began = time.monotonic()
    with History.open(sources.dsn, sources.schema, sources.audit_schema) as history:
        since = moment(history.installed).timestamp() - SKEW
        journal = Journal() if sources.journal else None
        producers = Producers() if sources.producers else None
        faults = Faults()
        for path in sources.journal:
            assert journal is not None
            journal.read(path, since)
        for path in sources.producers:
            assert producers is not None
            producers.read(path, since)
        for path in sources.faults:
            faults.read(path)
        checker = Checker(rules, journal, producers, installed=history.installed)
        ledger = checker.check(history.jobs())
        settings = history.settings()
        if settings:
            check_settings(settings, history.in_order(), ledger, margin)
        if ordered:
            check_order(history.in_order(), ledger, margin)
        found = _findings(history, ledger, faults, limit)
        unreadable = sum(each.unreadable for each in (journal, producers, faults) if each is not None)
        given = {name for name, log in ((JOURNAL, journal), (PRODUCERS, producers)) if log is not None}
    seconds = time.monotonic() - began
    return Inspection(
        ledger, checker.changes, checker.jobs, checker.older, unreadable, seconds, frozenset(given), found
    )


def _findings(history: History, ledger: Ledger, faults: Faults, limit: int) -> list[Finding]:
    shown: dict[str, list[Violation]] = {promise: [] for promise in NEEDS}
    for violation in ledger.violations:
        if len(shown[violation.promise]) < limit:
            shown[violation.promise].append(violation)
    chosen = [violation for many in shown.values() for violation in many]
    jobs = sorted({violation.job for violation in chosen if violation.job is not None})
    histories = history.some(jobs) if jobs else {}
    findings = []
    for violation in chosen:
        lines = histories.get(violation.job or "", [])
        at = violation.at or (lines[-1].at if lines else None)
        near = []
        if at is not None:
            stamp = moment(at).timestamp()
            near = [(fault["at"] - stamp, fault) for fault in faults.around(stamp, NEAR)]
        findings.append(Finding(violation, lines, near))
    return findings
