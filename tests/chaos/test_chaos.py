"""The quick tier of the chaos runs: real processes, real faults, and no broken promise."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.plan import Scenario, orders, steps
from tests.chaos.report import page
from tests.chaos.scenarios import FULL, KILLS, QUICK
from tests.chaos.server import tmpfs
from tests.chaos.world import Result, run
from tests.documents import RELIABILITY, table

from brooq.service.verify.ledger import NEEDS
from brooq.service.verify.report import show


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", QUICK, ids=lambda each: each.name)
async def test_no_promise_is_broken_under_faults(
    scenario: Scenario, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.CRITICAL, "brooq")
    caplog.set_level(logging.CRITICAL, "psycopg")
    if scenario.tmpfs:
        skip_without_mounts(tmp_path)
    result = await run(scenario, seed=1)
    assert result.violations == 0, told(result)
    # Everything was done and everything was looked at: a run without faults or without logs proves nothing.
    assert result.power, f"{result.done}, {result.zombies}"
    assert result.eaten >= scenario.kinds.get("eat", 0) // 2
    if scenario.freezing:
        assert result.done["freeze"] >= 1
    checked = result.inspection.ledger.checked
    assert checked["C1"] >= scenario.jobs
    assert all(checked[promise] for promise in NEEDS), checked
    if scenario is KILLS:
        assert len(result.recovery) > 30, "kills that hit nobody"


def told(result: Result) -> str:
    """What was broken, and where to look."""
    accepted = result.zombies.accepted if result.zombies else []
    return "\n".join([*show(result.inspection), *accepted, f"logs: {result.folder}"])


def skip_without_mounts(folder: Path) -> None:
    """Only root may mount, and not everywhere."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    try:
        with tmpfs(folder, 1):
            pass
    except OSError as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")


def test_the_same_seed_is_the_same_schedule() -> None:
    for scenario in QUICK:
        assert steps(scenario, 7) == steps(scenario, 7)
        assert orders(scenario, 7) == orders(scenario, 7)
        assert orders(scenario, 7) != orders(scenario, 8)


def test_the_workload_is_the_standard_one() -> None:
    made = orders(KILLS, 1)
    shares = Counter(order.payload["do"] for order in made)
    assert set(shares) == {"fail once", "fail", "cancel", "delay", "preserve", "chain", "effect", "succeed"}
    assert {order.topic for order in made} == {"fast", "medium", "long"}
    assert any(order.keyed for order in made)
    assert any(order.canceled for order in made)
    full = next(each for each in FULL if each.name == KILLS.name)
    assert (KILLS.jobs, KILLS.kinds["kill"]) == (2000, 60)
    assert (full.jobs, full.kinds["kill"]) == (10_000, 500)


def test_the_published_page_knows_every_run_and_every_promise() -> None:
    text = RELIABILITY.read_text(encoding="utf-8")
    assert text.startswith(page([], tier="", seed=0, commit="", version="", score="").partition("\nTier")[0])
    runs = {row[0]: row for row in table(RELIABILITY, "run")}
    assert set(runs) == {each.name for each in QUICK}
    assert {row[7] for row in runs.values()} == {"0"}
    assert [row[0] for row in table(RELIABILITY, "promise")] == list(NEEDS)
    assert {row[3] for row in table(RELIABILITY, "promise")} == {"0"}
