"""The pytest plugin, in a pytest of its own: fixtures for whoever asks, nothing for whoever does not."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parent.parent.parent


def pytest_in(folder: Path, source: str) -> str:
    """What pytest says of a file in a folder of its own."""
    (folder / "test_shop.py").write_text(dedent(source))
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    ended = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100)
    return ended.stdout + ended.stderr


def test_the_entry_point_is_the_plugin() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"brooq": "brooq.contrib.pytest"}
    assert {each.value for each in entry_points(group="pytest11") if each.name == "brooq"} == {"brooq.contrib.pytest"}


def test_a_consumers_test_has_a_queue_and_a_clock(tmp_path: Path) -> None:
    said = pytest_in(
        tmp_path,
        """
        from datetime import timedelta
        from brooq import Job
        from brooq.testing import assert_enqueued, drain

        async def test_reminder(brooq_queue, brooq_clock, brooq_store):
            sent = []

            @brooq_queue.kind("reminder")
            async def remind(claim):
                sent.append(claim.payload)

            await brooq_queue.enqueue(Job("reminder", "anna", available_at=brooq_clock() + timedelta(days=3)))
            assert_enqueued(brooq_store, "reminder", payload="anna", count=1)
            await drain(brooq_queue)
            assert sent == ["anna"]
        """,
    )
    assert "1 passed" in said, said


def test_who_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    said = pytest_in(
        tmp_path,
        """
        import sys

        def test_unused():
            assert "brooq.testing" not in sys.modules
            assert "psycopg" not in sys.modules
        """,
    )
    assert "1 passed" in said, said
