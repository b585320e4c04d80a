"""`python -m tests.chaos`: the chaos runs, one after the other; exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.plan import Scenario
from tests.chaos.report import kinds, page
from tests.chaos.scenarios import FULL, QUICK
from tests.chaos.world import ROOT, Result, run
from tests.database import server
from tests.planted.trial import BUGS, trial

from brooq.postgres.local.binaries import find
from brooq.service.verify.report import show, spread


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the full tier, up to an hour")
    parser.add_argument("--seed", type=int, default=1, help="of the schedules")
    parser.add_argument("--only", nargs="+", metavar="RUN", help="these runs alone")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the page, planted bugs included")
    options = parser.parse_args()
    os.environ["BROOQ_LANG"] = "en"
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    logging.getLogger("brooq").setLevel(logging.CRITICAL)
    tier = FULL if options.full else QUICK
    results = []
    for scenario in tier:
        if options.only and scenario.name not in options.only:
            continue
        try:
            results.append(_tell(scenario, asyncio.run(run(scenario, options.seed))))
        except (OSError, ExceptionGroup) as error:
            sys.stdout.write(f"{scenario.name}: not run, {error}\n")
    if options.report:
        made = page(
            results, tier="full" if options.full else "quick", seed=options.seed, commit=_commit(),
            version=find().version, score=_score(),
        )  # fmt: skip
        options.report.write_text(made, encoding="utf-8")
    return int(any(each.violations or not each.power for each in results))


def _tell(scenario: Scenario, result: Result) -> Result:
    done = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds(result.done).items()))
    line = (
        f"{scenario.name} (seed {result.seed}): {result.jobs} jobs, {done}: {result.violations} violations in"
        f" {result.inspection.changes} changes, {result.seconds:.1f} s"
    )
    if result.recovery:
        median, p99, _ = spread(result.recovery)
        line += f", back after a kill within {median:.2f} s (p50), {p99:.2f} s (p99)"
    if result.zombies:
        line += f", {result.zombies}"
    if not result.power:
        line += f": not all that was planned, {result.done} of {dict(scenario.kinds)}"
    sys.stdout.write(line + "\n")
    if result.violations:
        accepted = result.zombies.accepted if result.zombies else []
        sys.stdout.write("\n".join([*show(result.inspection), *accepted, f"logs: {result.folder}"]) + "\n")
    sys.stdout.flush()
    return result


def _score() -> str:
    caught = 0
    with server("planted") as found:
        for bug in BUGS:
            original, planted = asyncio.run(trial(bug, found))
            caught += not original and bool({each.promise for each in planted} & set(bug.promises))
    line = f"{caught} of {len(BUGS)} planted bugs caught"
    sys.stdout.write(line + "\n")
    return line


def _commit() -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
