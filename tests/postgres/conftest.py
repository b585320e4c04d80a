"""What the tests of the adapter share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.postgres.observer import Observer


@pytest.fixture
def observer(dsn: str) -> Iterator[Observer]:
    """A connection beside the store, to the same database."""
    found = Observer(dsn)
    yield found
    found.close()
