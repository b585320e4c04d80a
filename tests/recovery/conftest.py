"""Servers that may be hurt: each belongs to one test file and is nobody else's."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres

SETTINGS: dict[str, str | int | bool] = {"shared_buffers": "16MB", "max_connections": 30}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for a socket, and reachable for the account that the server runs as."""
    found = Path(tempfile.mkdtemp(prefix="brooq-", dir="/tmp"))
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture
def server(folder: Path) -> Iterator[LocalPostgres]:
    """A migrated server with durability as in production, on a port that it keeps over restarts."""
    local = LocalPostgres(folder / "pg", settings=SETTINGS)
    with local:
        migrate.up(local.dsn)
        yield local
