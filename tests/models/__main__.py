"""`python -m tests.models`: the shortest trace to every planted bug, then the largest searches of the right rules."""

from __future__ import annotations

import sys
import time

from tests.models.life import Bounds
from tests.models.protocol import Protocol
from tests.models.search import Found, search
from tests.models.variant import PLANTED

QUICK = (
    Bounds(claims=3),
    Bounds(jobs=2, claims=2, resets=0, lost=False),
    Bounds(claims=3, resets=0, lost=False, fences=True),
    Bounds(jobs=2, claims=2, resets=0, lost=False, limit=1),
)
LARGE = (Bounds(claims=4), Bounds(jobs=2, claims=2, resets=0))


def main() -> int:
    """1 when a bug is not found, or the right rules have one."""
    failed = False
    for planted in PLANTED:
        found = search(planted.rules(), planted.bounds)
        failed |= found.violation != planted.violation
        show(planted.rules, planted.bounds, found, 0.0)
    for bounds in (*QUICK, *LARGE):
        begun = time.monotonic()
        found = search(Protocol(), bounds)
        failed |= found.violation is not None
        show(Protocol, bounds, found, time.monotonic() - begun)
    return int(failed)


def show(rules: type[Protocol], bounds: Bounds, found: Found, seconds: float) -> None:
    """One search on standard output."""
    took = f", {seconds:.1f} s" if seconds else ""
    limits = ", ".join(f"{name} {value}" for name, value in bounds._asdict().items())
    sys.stdout.write(f"{rules.__name__} ({limits}{took}): {found}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
