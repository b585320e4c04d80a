"""What systemd's filters leave of the kernel to a service, put on a program without systemd.

Of a unit these lines are kept: `SystemCallFilter=`, `MemoryDenyWriteExecute=`, `RestrictAddressFamilies=`,
`NoNewPrivileges=`, `LimitCORE=` and `UMask=`. The names in a filter's groups are those of systemd itself.
"""

from __future__ import annotations

import ctypes.util
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools import systemd_analyze

CONFINE = Path(__file__).with_name("confine.py")


def settings(unit: Path) -> dict[str, list[str]]:
    """The lines of a unit by name, each name's values in order."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found.setdefault(name, []).append(value)
    return found


def group(name: str) -> set[str]:
    """The system calls of one of systemd's groups, such as `@system-service`."""
    tool = systemd_analyze()
    done = subprocess.run(
        [tool.program, "syscall-filter", name], env=tool.environment, capture_output=True, text=True, check=True
    )
    calls: set[str] = set()
    for line in done.stdout.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= group(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def allowed(unit: Path) -> set[str]:
    """The system calls that a unit leaves to its service."""
    calls: set[str] = set()
    for value in settings(unit)["SystemCallFilter"]:
        for word in value.removeprefix("~").split():
            named = group(word) if word.startswith("@") else {word}
            calls = calls - named if value.startswith("~") else calls | named
    # What systemd leaves to everybody, since the program itself is executed behind the filter.
    return calls | group("@default") | {"execve"}


def confined(unit: Path) -> list[str]:
    """What to put before a command. Skips the test where libseccomp is missing."""
    if ctypes.util.find_library("seccomp") is None:
        pytest.skip("libseccomp is missing: apt-get install libseccomp2")
    lines = settings(unit)
    policy = {
        "umask": int(lines["UMask"][0], 8),
        "core": int(lines["LimitCORE"][0]),
        "calls": sorted(allowed(unit)),
        "families": [getattr(socket, word).value for word in lines["RestrictAddressFamilies"][0].split()],
        "write_execute": lines["MemoryDenyWriteExecute"] != ["yes"],
    }
    return [sys.executable, str(CONFINE), json.dumps(policy)]
