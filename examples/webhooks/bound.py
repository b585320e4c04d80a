"""Becomes another program that ends when its parent does: python bound.py PARENT PROGRAM [ARGUMENT…]

So that nothing is left running when the demo itself is killed. Run as a script in a fresh process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Change into the program; on Linux the system ends it with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)  # it died before the signal was arranged
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
