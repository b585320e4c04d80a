"""Ids of jobs: UUIDv7 (RFC 9562), made by the producer so that an enqueue can be repeated safely."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """A new UUIDv7, greater than every earlier one of this process, so that ties in `available_at` keep the
    order of enqueueing (requirement G4.10).

    48 bits of milliseconds, 12 bits of their fraction (as PostgreSQL 18 does), 62 random bits. When the clock stands
    still or steps back the stamp runs ahead of it by 1/4096 ms an id.
    """
    global _last  # noqa: PLW0603  the order must hold over the whole process
    stamp = time.time_ns() * 4096 // 1_000_000
    with _lock:
        if stamp <= _last:
            stamp = _last + 1
        _last = stamp
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=(stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | random)
