"""The units of systemd: without a fault, hardened, and what they take away leaves the program everything it needs."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.deploy import sandbox
from tests.deploy.program import working
from tests.deploy.stand import ROOT
from tests.service.brooq_process import Table, inside
from tests.tools import systemd_analyze

from brooq.engine.config import Config
from brooq.postgres import migrate
from brooq.service.environment import SECRETS
from brooq.vocabulary.duration import to_timedelta

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
WORKER = ROOT / "deploy" / "systemd" / "brooq.service"
MOST_EXPOSED = 20
"""Tenths: systemd's scale goes from 0 (nothing is exposed) to 10."""

APP = """
from brooq import Claim, Queue
from brooq.postgres import PostgresStore
from brooq.service.settings import load

settings = load(database=True)
queue = Queue(PostgresStore(settings.make_pool()), settings.config)


@queue.kind("mail")
async def mail(claim: Claim) -> None:
    print("mail for", claim.payload["to"], flush=True)
"""

pytestmark = pytest.mark.xdist_group("build")  # shares the program


class Manager:
    """The service manager's end of the socket that it is told by."""

    def __init__(self, path: Path) -> None:
        """At this place."""
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def __enter__(self) -> Manager:
        """Listen."""
        self._socket.bind(str(self.path))
        self._socket.settimeout(60)
        return self

    def __exit__(self, *_: object) -> None:
        """Hear no more."""
        self._socket.close()

    def hear(self, word: str) -> None:
        """Wait until this is said."""
        while word not in self._socket.recv(4096).decode().splitlines():
            pass


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze to its end."""
    tool = systemd_analyze()
    return subprocess.run(
        [tool.program, *arguments], env=tool.environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_no_fault_in_a_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    assert "ExecStart=/opt/brooq/bin/brooq " in text
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/opt/brooq/bin/brooq", "/bin/true"), encoding="utf-8")  # a program that is there
    done = analyze("verify", "--man=no", str(copy))
    # Units that ours waits for may be missing here; what is said of ours is what counts.
    assert not [line for line in (done.stdout + done.stderr).splitlines() if unit.stem in line], done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_exposes_little(unit: Path) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit))
    assert done.returncode == 0, done.stdout
    assert re.search(r"Overall exposure level for [\w.-]+: 1\.\d", done.stdout)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_credentials_are_those_that_the_program_looks_for(unit: Path) -> None:
    names = {value.partition(":")[0] for value in sandbox.settings(unit)["LoadCredential"]}
    assert names <= {name.lower() for name in SECRETS}
    assert "database_url" in names


def test_systemd_waits_longer_for_the_end_than_the_worker_takes() -> None:
    (limit,) = sandbox.settings(WORKER)["TimeoutStopSec"]
    assert timedelta(seconds=int(limit)) > to_timedelta(Config().shutdown_grace) + timedelta(seconds=10)


@pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=["one", "several"])
def test_the_program_works_with_no_more_of_the_kernel_than_the_unit_leaves(
    program: Path, bare: dict[str, str], dsn: str, table: Table, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "database_url").write_text(dsn)
    (credentials / "database_url").chmod(0o400)
    cache = tmp_path / "cache"  # not unpacked yet: the first start is confined too
    env = {**bare, "CREDENTIALS_DIRECTORY": str(credentials), "PEX_ROOT": str(cache), "LOG_FORMAT": "json"}
    id = table.insert("mail", '{"to": "anna"}')
    before = sandbox.confined(WORKER)
    with Manager(tmp_path / "notify") as manager:
        env |= {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "3000000"}
        with working(program, "--app", "jobs:queue", *arguments, env=env, cwd=tmp_path, before=before) as worker:
            manager.hear("READY=1")
            manager.hear("WATCHDOG=1")
            assert table.wait(id, "done", 60) == ("done", 1, None)
            worker.send()
            manager.hear("STOPPING=1")
            assert worker.exit_code() == 0, worker.log


def test_the_sandbox_of_the_tests_denies_what_the_unit_denies() -> None:
    before = sandbox.confined(WORKER)

    def ends(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*before, sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ends("print('fine')").stdout == "fine\n"
    assert "not permitted" in ends("import socket; socket.socket(16, 3)").stderr  # AF_NETLINK
    assert "not permitted" in ends("import mmap; mmap.mmap(-1, 4096, prot=7)").stderr
    assert ends("import os; os.chroot('/')").returncode < 0  # killed


def test_the_migration_works_from_its_credential(empty_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "database_url").write_text(empty_dsn)
    (tmp_path / "database_url").chmod(0o400)
    assert inside("migrate", "up", cwd=tmp_path, CREDENTIALS_DIRECTORY=str(tmp_path)).returncode == 0
    assert [each.version for each in migrate.status(empty_dsn)][-1] == migrate.LATEST
