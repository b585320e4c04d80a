"""Programs of Debian that some tests need: found on this machine, or unpacked into `.brooq/tools`, never installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / ".brooq" / "tools"


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that runs here, with the environment that it needs to find its libraries."""

    program: str
    environment: dict[str, str]


class ToolMissing(Exception):
    """The program is not on this machine and cannot be had; the text says why."""


def pgbouncer() -> Tool:
    """PgBouncer, with its libraries. Without it the test fails in continuous integration and is skipped elsewhere."""
    return _needed("pgbouncer", ["pgbouncer", "libc-ares2", "libevent-2.1-7"])


def _needed(name: str, packages: Sequence[str]) -> Tool:
    try:
        return find(name, packages)
    except ToolMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def find(name: str, packages: Sequence[str]) -> Tool:
    """The program as it is installed, else as it is unpacked, else unpacked now. Raises ToolMissing."""
    installed = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if installed and _runs(Tool(installed, dict(os.environ))):
        return Tool(installed, dict(os.environ))
    # Several workers of pytest-xdist may want it at once.
    with _alone():
        if tool := _unpacked(name):
            return tool
        _unpack(name, packages)
        if tool := _unpacked(name):
            return tool
    raise ToolMissing(f"{name}: the packages {', '.join(packages)} hold no program that runs here")


def _unpacked(name: str) -> Tool | None:
    libraries = {str(path.parent) for path in FOLDER.glob("usr/lib/**/*.so.*")} | {str(FOLDER / "usr/lib")}
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}
    for folder in ("usr/sbin", "usr/bin"):
        tool = Tool(str(FOLDER / folder / name), dict(environment))
        if _runs(tool):
            return tool
    return None


def _unpack(name: str, packages: Sequence[str]) -> None:
    archives = FOLDER / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    for package in packages:
        _download(name, package, archives)
        for archive in archives.glob(f"{package}_*.deb"):
            _run(name, ["dpkg", "-x", str(archive), str(FOLDER)], archives)


def _download(name: str, package: str, archives: Path) -> None:
    try:
        _run(name, ["apt-get", "download", "-qq", package], archives)
    except ToolMissing:
        # A new machine has no lists of packages yet; ones of our own need no rights.
        own = []
        for option, place in (("State::Lists", "lists"), ("Cache", "cache")):
            (FOLDER / "apt" / place / "partial").mkdir(parents=True, exist_ok=True)
            own += ["-o", f"Dir::{option}={FOLDER / 'apt' / place}"]
        own += ["-o", "APT::Sandbox::User=root"]
        _run(name, ["apt-get", *own, "update", "-qq"], archives)
        _run(name, ["apt-get", *own, "download", "-qq", package], archives)


def _run(name: str, command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{name} is not installed, and {command[0]} cannot fetch it: {error}") from None
    if done.returncode:
        raise ToolMissing(f"{name} is not installed, and {' '.join(command)} failed: {done.stderr.strip()[-300:]}")


def _runs(tool: Tool) -> bool:
    try:
        done = subprocess.run(
            [tool.program, "--version"], env=tool.environment, capture_output=True, timeout=20, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


@contextmanager
def _alone() -> Iterator[None]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
