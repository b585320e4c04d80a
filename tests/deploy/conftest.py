"""Fixtures of the tests of what is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.deploy.stand import ROOT
from tests.service.brooq_process import Table


def build(folder: Path) -> Path:
    """Build everything into a folder, answers the program."""
    done = subprocess.run(
        ["scripts/build", os.path.relpath(sys.executable, ROOT), str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin" / "brooq"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The self-contained program, as `make build` makes it. Its tests are in one group, so that it is built once."""
    return build(tmp_path_factory.mktemp("program"))


@pytest.fixture
def table(dsn: str) -> Iterator[Table]:
    """The table of jobs, from outside."""
    with closing(Table(dsn)) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with a Python and nothing else: no virtual environment, no settings, a fresh home."""
    folder = Path(sys.base_prefix) / "bin"
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "BROOQ_LANG": "en", "HTTP_ADDR": "127.0.0.1:0"}
