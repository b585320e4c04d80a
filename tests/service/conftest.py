"""Fixtures of the service's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres.observer import Observer
from tests.service.brooq_process import Table


@pytest.fixture
def table(dsn: str) -> Iterator[Table]:
    """The table of jobs, from outside."""
    made = Table(dsn)
    yield made
    made.close()


@pytest.fixture
def observer(dsn: str) -> Iterator[Observer]:
    """A connection beside the store, to the same database."""
    found = Observer(dsn)
    yield found
    found.close()
