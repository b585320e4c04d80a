"""Becomes a PostgreSQL program: run as a script in a fresh process, so that no thread of the caller can be in its way.

    python -I -S launch.py ACCOUNT BOND PARENT FOLDER PROGRAM [ARGUMENT…]

ACCOUNT  keep; namespace (root, but not in the program's eyes); or USER:GROUP, the numbers to become
BOND     bound (the program gets SIGINT when the thread that started this dies) or detached (it belongs to nobody)
PARENT   process id of the caller
FOLDER   the working folder, entered as the account

It imports nothing of brooq. Exits with 71 when the account cannot be had, 72 when the parent has died, 126 when the
program cannot be run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

NO_ACCOUNT = 71
NO_PARENT = 72
NOT_RUNNABLE = 126

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Change into the program; returns only when that failed."""
    account, bond, parent, folder, program = arguments[:5]
    if not _become(account):
        return NO_ACCOUNT
    if bond == "detached":
        # A child of a child: the caller has nobody to reap, and init takes the server.
        if child := os.fork():
            sys.stdout.write(f"{child}\n")
            return 0
        os.setsid()
        os.dup2(2, 1)  # so that the caller's pipe ends
    elif sys.platform == "linux":
        # After the change of account, which would clear it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
        if os.getppid() != int(parent):
            return NO_PARENT  # it died before the signal was arranged
    try:
        os.chdir(folder)
        os.execv(program, arguments[4:])
    except OSError as error:
        sys.stderr.write(f"{error}\n")
    return NOT_RUNNABLE


def _become(account: str) -> bool:
    if account == "keep":
        return True
    if account == "namespace":
        # Without a mapping the program sees itself as the overflow user, while its files stay those of root.
        return sys.platform == "linux" and bool(ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0)
    user, group = (int(number) for number in account.split(":"))
    try:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
