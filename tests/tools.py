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


def promtool() -> Tool:
    """Prometheus's checker of configuration, rules and metrics."""
    return _needed("promtool", ["prometheus"])


def prometheus() -> Tool:
    """Prometheus itself."""
    return _needed("prometheus", ["prometheus"])


def nginx() -> Tool:
    """nginx, to check a configuration."""
    return _needed("nginx", ["nginx", "libpcre2-8-0", "libssl3"], "-v")


def openssl() -> Tool:
    """For certificates that are good for a test."""
    return _needed("openssl", ["openssl", "libssl3"], "version")


def systemd_analyze() -> Tool:
    """systemd's checker of units. It needs no systemd that runs."""
    return _needed(
        "systemd-analyze",
        ["systemd", "libsystemd-shared", "libapparmor1", "libip4tc2", "libkmod2", "libseccomp2", "libcap2"],
    )


def fish() -> Tool:
    """The shell fish."""
    return _needed("fish", ["fish", "fish-common", "libpcre2-32-0"])


def zsh() -> Tool:
    """The shell zsh."""
    return _needed("zsh", ["zsh", "zsh-common"])


def faketime(offset: str) -> dict[str, str]:
    """What to add to a program's environment, so that its clock is wrong by so much (`+90s`)."""
    tool = _needed("faketime", ["faketime", "libfaketime"])
    # The program itself looks for its library where a package is installed, so it does not find one that is unpacked.
    places = (FOLDER / "usr", Path(tool.program).parent.parent)
    libraries = [found for place in places for found in sorted(place.glob("lib/**/libfaketime.so.1"))]
    assert libraries, tool.program
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME": offset}


def _needed(name: str, packages: Sequence[str], version: str = "--version") -> Tool:
    try:
        return find(name, packages, version)
    except ToolMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def find(name: str, packages: Sequence[str], version: str = "--version") -> Tool:
    """The program as it is installed, else as it is unpacked, else unpacked now. Raises ToolMissing.

    `version` is the option that makes it tell its version, which shows that it runs."""
    installed = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if installed and _runs(Tool(installed, dict(os.environ)), version):
        return Tool(installed, dict(os.environ))
    # Several workers of pytest-xdist may want it at once.
    with _alone():
        if tool := _unpacked(name, version):
            return tool
        _unpack(name, packages)
        if tool := _unpacked(name, version):
            return tool
    raise ToolMissing(f"{name}: the packages {', '.join(packages)} hold no program that runs here")


def _unpacked(name: str, version: str) -> Tool | None:
    found = [*FOLDER.glob("usr/lib/**/*.so.*"), *FOLDER.glob("lib/**/*.so.*"), *FOLDER.glob("usr/lib/**/*-[0-9]*.so")]
    libraries = {str(path.parent) for path in found} | {str(FOLDER / "usr/lib")}
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}
    for folder in ("usr/sbin", "usr/bin", "bin"):
        tool = Tool(str(FOLDER / folder / name), dict(environment))
        if _runs(tool, version):
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


def _runs(tool: Tool, version: str) -> bool:
    try:
        done = subprocess.run(
            [tool.program, version], env=tool.environment, capture_output=True, timeout=20, check=False
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
