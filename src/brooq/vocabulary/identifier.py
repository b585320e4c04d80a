"""Ids of jobs: UUIDv7 (RFC 9562), made by the producer so that an enqueue can be repeated safely."""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import Any
from uuid import UUID, SafeUUID

AHEAD = 64
"""How many ids' random bits are asked for at once: a system call each costs more than all the rest of an id."""

_WORDS = struct.Struct(f"{AHEAD}Q").unpack
_lock = threading.Lock()
_last = 0
_random: list[int] = []

# What UUID(int=…) does, without looking at six other ways to say it. The slots of a UUID are its parts and nothing else.
_set_int: Any = vars(UUID)["int"].__set__
_set_is_safe: Any = vars(UUID)["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown


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
        if not _random:
            _random.extend(_WORDS(os.urandom(8 * AHEAD)))
        random = _random.pop()
    made = UUID.__new__(UUID)
    _set_int(made, (stamp >> 12 << 16 | 0x7000 | stamp & 0xFFF) << 64 | 0b10 << 62 | random >> 2)
    _set_is_safe(made, _UNKNOWN)
    return made


def _forget() -> None:
    """A forked child makes ids of its own: not from its parent's random bits, nor behind a lock that a thread of the
    parent held."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _random.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
