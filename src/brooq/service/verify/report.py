"""What `brooq verify` prints of a check: a table for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import quantiles
from typing import Any

from brooq.postgres.audit.history import Change
from brooq.service.line import one_line
from brooq.service.output import object_line, table
from brooq.service.verify.inspection import Finding, Inspection
from brooq.service.verify.ledger import NEEDS
from brooq.vocabulary.message import text


def rows(inspection: Inspection) -> list[tuple[str, str, str, str]]:
    """The table: promise, meaning, rows checked, violations."""
    found = []
    for promise in NEEDS:
        missing = inspection.missing(promise)
        checked = str(inspection.ledger.checked[promise])
        broken = str(inspection.ledger.broken[promise])
        if missing is not None:
            checked, broken = text("verify.not_checked", what=text(f"verify.need_{missing}")), "-"
        found.append((promise, text(f"verify.{promise.lower()}"), checked, broken))
    return found


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, 99th percentile, longest."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98], max(values)


def show(inspection: Inspection) -> Iterator[str]:
    """Print the table, then answer the lines below it."""
    table(
        [text(f"verify.heading_{name}") for name in ("promise", "meaning", "checked", "violations")], rows(inspection)
    )
    yield ""
    yield text("verify.read", changes=inspection.changes, jobs=inspection.jobs, seconds=inspection.seconds)
    if inspection.older:
        yield text("verify.older", count=inspection.older)
    if inspection.unreadable:
        yield text("verify.unreadable", count=inspection.unreadable)
    recovery = inspection.ledger.measured.get("recovery")
    if recovery:
        median, p99, worst = spread(recovery)
        yield text("verify.recovery", p50=median, p99=p99, worst=worst, count=len(recovery))
    for name in ("handed_back", "zombies", "overlapping_runs"):
        if inspection.ledger.counted[name]:
            yield text(f"verify.{name}", count=inspection.ledger.counted[name])
    for finding in inspection.findings:
        yield from _explain(finding)
    for promise in NEEDS:
        shown = sum(finding.violation.promise == promise for finding in inspection.findings)
        if inspection.ledger.broken[promise] > shown:
            yield text("verify.more", count=inspection.ledger.broken[promise] - shown, promise=promise)
    yield ""
    yield text("verify.broken", count=inspection.violations) if inspection.violations else text("verify.whole")


def _explain(finding: Finding) -> Iterator[str]:
    violation = finding.violation
    yield ""
    told = text("verify.history_of", promise=violation.promise, job=violation.job or "-", what=violation.what)
    yield one_line(told)
    for line in finding.history:
        yield one_line(text("verify.history_line", at=line.at, change=_change(line)))
    for seconds, fault in finding.faults:
        told = " ".join(f"{name}={value}" for name, value in fault.items() if name != "at")
        yield one_line(text("verify.fault_line", seconds=seconds, fault=told))


def _change(line: Change) -> str:
    """One change on one line: what was, what became of it, in whose hands."""
    parts = [line.op.lower(), f"{line.old_state or '-'} -> {line.state or '-'}"]
    for name in ("claim_seq", "attempts", "locked_by", "locked_until", "available_at"):
        old, new = getattr(line, f"old_{name}"), getattr(line, name)
        if old != new:
            parts.append(f"{name} {old or '-'} -> {new or '-'}")
        elif name in {"claim_seq", "attempts"}:
            parts.append(f"{name} {new}")
    return "  ".join([*parts, f"by {line.actor or '-'}"])


def as_object(inspection: Inspection) -> str:
    """All of it as one JSON object on one line."""
    promises = [
        {
            "promise": promise,
            "meaning": text(f"verify.{promise.lower()}"),
            "rows_checked": inspection.ledger.checked[promise],
            "violations": inspection.ledger.broken[promise],
            "needs": inspection.missing(promise),
        }
        for promise in NEEDS
    ]
    measured: dict[str, Any] = {}
    for name, values in inspection.ledger.measured.items():
        median, p99, worst = spread(values)
        measured[name] = {"count": len(values), "p50": median, "p99": p99, "max": worst}
    return object_line(
        {
            "changes": inspection.changes,
            "jobs": inspection.jobs,
            "older_jobs": inspection.older,
            "unreadable_lines": inspection.unreadable,
            "seconds": round(inspection.seconds, 3),
            "promises": promises,
            "measured": measured,
            "counted": dict(inspection.ledger.counted),
            "violations": [_finding(finding) for finding in inspection.findings],
        }
    )


def _finding(finding: Finding) -> dict[str, Any]:
    violation = finding.violation
    return {
        "promise": violation.promise,
        "job": violation.job,
        "what": violation.what,
        "at": violation.at,
        "history": [line._asdict() for line in finding.history],
        "faults": [{**fault, "seconds_after": round(seconds, 3)} for seconds, fault in finding.faults],
    }
