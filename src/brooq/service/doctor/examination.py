"""All checks in their order, and what they come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from brooq.postgres.examination import Examination
from brooq.service.doctor import cleaning, jobs, server
from brooq.service.doctor.finding import Finding, Rules, Severity, note

CHECKS: Mapping[str, Callable[[Examination, Rules], Iterator[Finding]]] = {
    "server": server.server,
    "schema": jobs.schema,
    "rights": jobs.rights,
    "durability": server.durability,
    "session": server.session,
    "clock": server.clock,
    "pooler": server.pooler,
    "connections": server.connections,
    "horizon": cleaning.horizon,
    "vacuum": cleaning.vacuum,
    "indexes": cleaning.indexes,
    "wraparound": server.wraparound,
    "jobs": jobs.jobs,
    "workers": jobs.workers,
}
_PART = {
    "place": "schema", "granted": "rights", "pins": "horizon", "table": "vacuum", "indexes": "indexes",
    "suspects": "jobs", "topics": "workers", "workers": "workers", "connections": "connections",
}  # fmt: skip


def judge(found: Examination, rules: Rules) -> list[Finding]:
    """What every check came to, in their order: that all is well, or everything that is not."""
    told = []
    for check, judged in CHECKS.items():
        made = list(judged(found, rules))
        made += [
            note(check, "not_examined", check=check, reason=reason)
            for part, reason in found.missing.items()
            if _PART[part] == check
        ]
        # That all is well is said only where nothing else is.
        told += [each for each in made if each.severity is not Severity.OK] or made
    return told
