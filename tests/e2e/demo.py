"""Runs the main job as a user does: a command, its exit code, its report."""

from __future__ import annotations

import json
import mailbox
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
REFUSED = "former.colleague@example.org"


@dataclass(frozen=True, slots=True)
class Run:
    """One run that has ended."""

    code: int
    output: str
    errors: str
    report: dict[str, Any]


def command(folder: Path, *arguments: str | Path) -> list[str]:
    """The command line of a run in a folder of its own."""
    return [sys.executable, "-m", "examples.webhooks", "--folder", str(folder), *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Without anything of the developer's own database."""
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return {**kept, "COLUMNS": "120", **more}


def run(folder: Path, *arguments: str | Path, more: Mapping[str, str] | None = None) -> Run:
    """Run to the end."""
    report = folder / "report.json"
    ended = subprocess.run(
        command(folder, "--report", report, *arguments),
        cwd=ROOT,
        env=environment(**(more or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return Run(ended.returncode, ended.stdout, ended.stderr, found)


def audit(dsn: str, folder: Path, deliveries: int) -> None:
    """Look at the table and the mailbox without the demo's own eyes."""
    with psycopg.connect(dsn) as connection:
        counted = connection.execute("select topic || ' ' || state, count(*) from job group by 1").fetchall()
        states: dict[str, int] = dict(counted)
        keys = connection.execute(
            "select count(distinct idempotency_key) from job where topic = 'webhook.received'"
        ).fetchone()
        done = {
            str(id) for (id,) in connection.execute("select id from job where topic = 'email.send' and state = 'done'")
        }
        dead = connection.execute("select payload ->> 'to', last_error from job where state = 'dead'").fetchall()
        refused = connection.execute(
            "select count(*) from job where topic = 'email.send' and payload ->> 'to' = %s", [REFUSED]
        ).fetchone()
    assert refused is not None
    assert keys == (deliveries,)
    assert states.pop("webhook.received done") == deliveries
    assert states.pop("email.send done") == deliveries - refused[0] == len(done)
    assert states.pop("email.send dead", 0) == refused[0] == len(dead)
    assert states == {}, "nothing else, in processing least of all"
    for to, reason in dead:
        assert to == REFUSED
        assert "550 5.1.1" in reason
    mails = Counter(
        str(mail["Message-ID"]).strip("<>").partition("@")[0]
        for mail in mailbox.Maildir(folder / "run" / "mailbox", create=False)
    )
    assert set(mails) == done


def agree(found: Run, deliveries: int) -> None:
    """The run succeeded, and its report says so in every place."""
    assert found.code == 0, found.output + found.errors
    report = found.report
    assert report["ok"] is True
    assert [check["name"] for check in report["checks"] if not check["ok"]] == []
    assert len(report["checks"]) == 9
    assert (report["deliveries"], report["created"], report["created_again"]) == (deliveries, deliveries, 0)
    refused = sum(number % 100 == 50 for number in range(1, deliveries + 1))
    assert report["mails_delivered"] == deliveries - refused
    assert {(each["topic"], each["state"]): each["count"] for each in report["jobs"]} == {
        ("webhook.received", "done"): deliveries,
        ("email.send", "done"): deliveries - refused,
        **({("email.send", "dead"): refused} if refused else {}),
    }
    assert report["pickup_seconds"]["claims"] >= 2 * deliveries
    assert 0 <= report["pickup_seconds"]["p50"] <= report["pickup_seconds"]["p95"] <= report["pickup_seconds"]["p99"]
    assert report["jobs_per_second"] > 0


def was_killed_half_way(found: Run, deliveries: int) -> None:
    """The worker was killed with jobs in its hands, and they came back."""
    report = found.report
    assert deliveries / 2 <= report["killed_at"] < deliveries
    assert report["held_when_killed"] >= 1
    assert report["leases_recovered"] >= report["held_when_killed"]
    assert report["attempts"] >= 2 * deliveries + report["held_when_killed"]
    assert "worker killed with" in found.output
