"""Under which account the programs of PostgreSQL run: they refuse root, so root needs another one."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from brooq.postgres.local import launch
from brooq.postgres.local.binaries import Binaries, copy
from brooq.postgres.local.environment import environment


def command(account: str, bond: str, folder: Path, program: Path, *arguments: str) -> list[str]:
    """The command line that runs a program as an account, see `launch`. A fresh interpreter: threads cannot hurt it."""
    script = str(Path(launch.__file__))
    return [sys.executable, "-I", "-S", script, account, bond, str(os.getpid()), str(folder), str(program), *arguments]


def choose(path: Path, data: Path, binaries: Binaries) -> tuple[str, Binaries]:
    """The account for a server in `path`, and the programs as that account can reach them.

    A plain user keeps his own. Root gets a user namespace without a mapping: files stay root's, and the programs do not
    see root. Where namespaces are refused it becomes nobody; where the files are another user's already, that user.
    """
    if os.geteuid() != 0:
        return "keep", binaries
    owner = (data if data.exists() else path).stat()
    if owner.st_uid == 0:
        if _runs("namespace", path, binaries):
            return "namespace", binaries
        nobody = pwd.getpwnam("nobody")
        user, group = nobody.pw_uid, nobody.pw_gid
        # Only what is ours: the folder we were given and what we put there.
        for place in (path, data, *data.rglob("*")):
            if place.exists():
                os.chown(place, user, group, follow_symlinks=False)
    else:
        user, group = owner.st_uid, owner.st_gid
    account = f"{user}:{group}"
    if not _runs(account, path, binaries):
        binaries = copy(binaries, path / f"binaries-{binaries.version}")
    return account, binaries


def give(account: str, places: Iterable[Path]) -> None:
    """Hand files that root has made over to the account, so that its user can start the server without root too."""
    if ":" in account:
        user, group = (int(number) for number in account.split(":"))
        for place in places:
            if place.exists():
                os.chown(place, user, group, follow_symlinks=False)


def _runs(account: str, path: Path, binaries: Binaries) -> bool:
    line = command(account, "bound", path, binaries.postgres, "--version")
    return subprocess.run(line, capture_output=True, env=environment(), check=False).returncode == 0
