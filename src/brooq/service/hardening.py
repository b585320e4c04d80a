"""What the worker process denies to others: its memory holds the database's password (requirement S4)."""

from __future__ import annotations

import ctypes
import logging
import resource
import sys

from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

_PR_SET_DUMPABLE = 4


def harden() -> None:
    """No core dumps; and on Linux nobody but root reads this process's memory or environment through /proc."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            log.warning(text("process.dumpable", code=ctypes.get_errno()))
