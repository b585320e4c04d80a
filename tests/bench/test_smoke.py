"""The whole bench once, with tiny counts: brooq and the raw statements on a server of its own. No time is judged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench.place import pgbench

from brooq.postgres.local.binaries import LocalPostgresError, find

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("bench")]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where a smoke run has left its results; a short path, so that the server's socket has room."""
    try:
        find()
    except LocalPostgresError as error:
        pytest.skip(f"the bench starts a server of its own: {error}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as place:
        options = ["smoke", "--folder", place, "--output", f"{place}/results/latest.json"]
        environment = {key: value for key, value in os.environ.items() if key != "BENCH_DATABASE_URL"}
        answer = subprocess.run(
            [sys.executable, "-m", "bench", *options],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        yield Path(place) / "results"


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    """The results as they were written."""
    found: dict[str, Any] = json.loads((folder / "latest.json").read_text(encoding="utf-8"))
    return found


def test_everything_is_measured_and_its_jobs_are_counted(document: dict[str, Any]) -> None:
    # A step whose jobs are not all found done exactly once is not measured but told here.
    without_pgbench = [] if pgbench() else ["pgbench"]
    reasons = [
        row["reason"] for row in document["not_run"] if not any(row["config"].startswith(p) for p in without_pgbench)
    ]
    assert reasons == []
    measured = {(row["system"], row["measure"]) for row in document["results"]}
    assert measured >= {("raw SQL", "drain"), ("raw SQL", "enqueue")}
    assert measured >= {
        ("brooq", measure)
        for measure in (
            "drain",
            "drain, failing",
            "drain, two processes",
            "enqueue",
            "enqueue in a transaction",
            "bulk",
            "bulk with keys",
            "pickup p50",
            "pickup p99",
            "steady 500/s p99",
            "steady 500/s, WAL",
            "steady 500/s, dead tuples, last third",
            "growth, drain, plain table",
            "growth, drain, foreign backlog",
            "growth, pickup, 20 topics p50",
            "snapshot, last to first",
            "memory, idle",
            "memory, draining 2 k",
        )
    }


def test_results_are_well_formed(document: dict[str, Any]) -> None:
    (run,) = document["runs"]
    assert document["commands"] == [run["command"]] == ["make bench-smoke"]
    assert {"cores", "memory_gib", "system"} <= document["machine"].keys()
    assert {"postgresql", "python"} <= document["versions"].keys()
    for row in document["results"]:
        assert row["min"] <= row["median"] <= row["max"], row
        assert row["runs"] >= 1
        assert row["unit"] in {"jobs/s", "ms", "bytes/job", "rows", "%", "ratio", "jobs", "MB", "1/s"}
        assert row["run"] == run["id"]


def test_the_page_shows_every_result_and_its_charts_can_be_read(document: dict[str, Any], folder: Path) -> None:
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"### {row['measure']}\n" in page for row in document["results"])
    charts = re.findall(r"!\[[^\]]+\]\((\w+\.svg)\)", page)
    assert set(charts) == {"drain.svg", "bulk.svg", "pickup.svg", "steady.svg"} | {
        "growth.svg" for row in document["results"] if row["measure"].startswith("growth, drain")
    }
    for name in charts:
        assert ET.parse(folder / name).getroot().tag.endswith("svg")  # noqa: S314  written by us just now
