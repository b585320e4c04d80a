"""Take parts of the kernel away from this process, then become another program: `confine.py POLICY PROGRAM ARGUMENTS…`.

POLICY is JSON: `umask`, `core` (limit), `calls` that are left, `families` of sockets that are left, and whether memory may
be writable and executable (`write_execute`). It knows the standard library alone, so that it can be run as a file.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import mmap
import os
import resource
import sys
from typing import Any

_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050000 | 1
_EQUAL, _MASKED = 4, 7
_HIGHEST_FAMILY = 46


class _Comparison(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class _Seccomp:
    """As much of libseccomp as is needed."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(ctypes.util.find_library("seccomp"), use_errno=True)
        self._library.seccomp_init.restype = ctypes.c_void_p

    def filter(self, action: int) -> ctypes.c_void_p:
        """A filter that does this with what no rule is about."""
        return ctypes.c_void_p(self._library.seccomp_init(action))

    def add(self, context: ctypes.c_void_p, action: int, call: str, *conditions: tuple[int, int, int, int]) -> None:
        """A rule; a call that this machine does not have needs none."""
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        compared = (_Comparison * len(conditions))(*(_Comparison(*each) for each in conditions))
        arguments = (context, ctypes.c_uint32(action), number, len(conditions), compared)
        if number >= 0 and self._library.seccomp_rule_add_array(*arguments):
            raise OSError(ctypes.get_errno(), call)

    def load(self, context: ctypes.c_void_p) -> None:
        """From now on it holds, for whatever this process becomes."""
        if self._library.seccomp_load(context):
            raise OSError(ctypes.get_errno(), "seccomp_load")


def confine(policy: dict[str, Any]) -> None:
    """Give up everything that the policy does not leave."""
    os.umask(policy["umask"])
    resource.setrlimit(resource.RLIMIT_CORE, (policy["core"],) * 2)
    seccomp = _Seccomp()
    denied = seccomp.filter(_ALLOW)
    for family in set(range(_HIGHEST_FAMILY)) - set(policy["families"]):
        seccomp.add(denied, _EPERM, "socket", (0, _EQUAL, family, 0))
    if not policy["write_execute"]:
        both = mmap.PROT_EXEC | mmap.PROT_WRITE
        seccomp.add(denied, _EPERM, "mmap", (2, _MASKED, both, both))
        seccomp.add(denied, _EPERM, "mprotect", (2, _MASKED, mmap.PROT_EXEC, mmap.PROT_EXEC))
        seccomp.add(denied, _EPERM, "pkey_mprotect", (2, _MASKED, mmap.PROT_EXEC, mmap.PROT_EXEC))
    left = seccomp.filter(_KILL)
    for call in policy["calls"]:
        seccomp.add(left, _ALLOW, call)
    # The strictest last: loading one may not be among what is left.
    seccomp.load(denied)
    seccomp.load(left)


if __name__ == "__main__":
    confine(json.loads(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
