"""The result as JSON, for programs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from examples.webhooks.checks import Verdict
from examples.webhooks.findings import Findings
from examples.webhooks.show import speed
from examples.webhooks.stage import Stage


def write(path: Path, stage: Stage, findings: Findings, verdicts: list[Verdict]) -> None:
    """Write the report; its folder is made when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(report(stage, findings, verdicts), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def report(stage: Stage, findings: Findings, verdicts: list[Verdict]) -> dict[str, Any]:
    """All figures and verdicts. The address of the database is left out: it holds a password."""
    course = findings.course
    counts = Counter((row.topic, str(row.state)) for row in findings.rows)
    return {
        "ok": all(verdict.ok for verdict in verdicts),
        "checks": [{"name": each.name, "ok": each.ok, "problem": each.problem} for each in verdicts],
        "deliveries": len(course.keys),
        "created": course.created,
        "created_again": course.created_again,
        "jobs": [{"topic": topic, "state": state, "count": count} for (topic, state), count in sorted(counts.items())],
        "attempts": sum(row.attempts for row in findings.rows),
        "killed_at": course.killed_at,
        "held_when_killed": course.held,
        "leases_recovered": findings.recovered,
        "mails_delivered": len(findings.mails),
        "duplicates": findings.duplicates,
        "mail_server": dict(sorted(findings.misdeeds.items())),
        "pickup_seconds": {
            "claims": len(findings.waits),
            "p50": findings.pickup(0.5),
            "p95": findings.pickup(0.95),
            "p99": findings.pickup(0.99),
        },
        "seconds": findings.seconds,
        "jobs_per_second": speed(findings),
        "postgres": stage.version,
        "mailbox": str(stage.mailbox),
    }
