"""Every example runs as its docstring says, and says what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem not in ("__init__", "database"))

SAYS = {
    "quickstart": ["created: True", "Hello, world! (attempt 1)", "done after 1 attempt"],
    "transaction": ["committed: the job is pending", "rolled back: 0 orders and 0 jobs more than before"],
    "outbox": ["anna asked: a new job", "boris asked: the job exists", "one report, asked for by anna first: pending"],
    "signals": [
        "fine: done, attempts 1, runs 1",
        "flaky: done, attempts 2, runs 2",
        "busy: done, attempts 2, runs 2",
        "deploying: done, attempts 1, runs 2",
        "unsubscribed: canceled, attempts 1, runs 1",
        "no such address: dead, attempts 1, runs 1; MustGiveUp: no further attempt can help",
        "wrapped: dead, attempts 1, runs 1; RuntimeError: delivery failed",
    ],
    "isolation": [
        "thread: done",
        "well: done",
        "crash: dead ProcessDied: killed by SIGSEGV after",
        "hang: dead AttemptTimeout: the attempt ran longer than 10 s; killed by SIGKILL after",
        "it was in match",
    ],
    "typed": [
        "done: {'cents': 4750}",
        "progress was told of, last: ",
        "dead: PayloadError: $.lines[0].cents: expected int, got str",
    ],
    "fence": ["claim 1 was refused", "booked by claims [2]"],
    "exactly_once": ["bookings: 1, cents: 1250", "done after 2 attempts"],
}


def run(example: str, folder: Path, dsn: str | None) -> str:
    """What the example says, run in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    if dsn is not None:
        environment["DATABASE_URL"] = dsn
    ended = subprocess.run(
        [sys.executable, "-m", f"examples.{example}"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_every_example_is_known_here() -> None:
    assert set(EXAMPLES) == set(SAYS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_says_what_it_promises(example: str, tmp_path: Path, dsn: str) -> None:
    said = run(example, tmp_path, dsn)
    for line in SAYS[example]:
        assert line in said


@pytest.mark.parametrize("example", ["outbox"])
def test_an_enqueue_that_is_repeated_finds_its_job_and_its_row(example: str, tmp_path: Path, dsn: str) -> None:
    """E5: also when the row beside the queue was lost, or never written."""
    run(example, tmp_path, dsn)
    with psycopg.connect(dsn) as connection:
        before = connection.execute("select id from job").fetchall()
        assert connection.execute("select job_id from example_outbox").fetchall() == before
        connection.execute("delete from example_outbox")
    assert "anna asked: the job exists" in run(example, tmp_path, dsn)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select id from job").fetchall() == before
        assert connection.execute("select job_id, tenant, asked_by from example_outbox").fetchall() == [
            (before[0][0], "lantern", "anna")
        ]


def test_the_quickstart_needs_no_database_of_yours(tmp_path: Path) -> None:
    said = run("quickstart", tmp_path, None)
    assert "done after 1 attempt" in said
    assert (tmp_path / ".brooq" / "examples").is_dir()
    # A second run finds its data and works as well.
    assert "done after 1 attempt" in run("quickstart", tmp_path, None)
