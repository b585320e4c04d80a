"""Fixtures of the service's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.service.brooq_process import Table


@pytest.fixture
def table(dsn: str) -> Iterator[Table]:
    """The table of jobs, from outside."""
    made = Table(dsn)
    yield made
    made.close()
