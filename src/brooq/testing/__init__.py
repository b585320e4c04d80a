"""For consumers' tests: a store in memory, a clock to set, running until nothing is left, and questions that fail in words.

It needs no database, no pytest and no plugin; with pytest there are fixtures too (`brooq.contrib.pytest`).
"""

from brooq.testing.clock import VirtualClock
from brooq.testing.drain import drain, in_memory
from brooq.testing.enqueued import assert_enqueued, assert_not_enqueued
from brooq.testing.idempotence import assert_idempotent
from brooq.testing.memory import MemoryStore, MemoryTx

__all__ = [
    "MemoryStore",
    "MemoryTx",
    "VirtualClock",
    "assert_enqueued",
    "assert_idempotent",
    "assert_not_enqueued",
    "drain",
    "in_memory",
]
