"""The pytest plugin: fixtures for a queue in memory under virtual time. Loaded by its entry point; off unless used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from brooq.engine.queue import Queue
    from brooq.testing import MemoryStore, VirtualClock


@pytest.fixture
def brooq_clock() -> VirtualClock:
    """The clock of `brooq_store`: it stands still until the test, or `drain`, moves it."""
    from brooq.testing import VirtualClock  # noqa: PLC0415  a test run that asks for no fixture imports nothing

    return VirtualClock()


@pytest.fixture
def brooq_store(brooq_clock: VirtualClock) -> MemoryStore:
    """An empty store in memory."""
    from brooq.testing import MemoryStore  # noqa: PLC0415  as above

    return MemoryStore(brooq_clock)


@pytest.fixture
def brooq_queue(brooq_store: MemoryStore) -> Queue:
    """A queue over `brooq_store`, without kinds; for one of an application there is `brooq.testing.in_memory`."""
    from brooq.engine.queue import Queue  # noqa: PLC0415  as above

    return Queue(brooq_store)
