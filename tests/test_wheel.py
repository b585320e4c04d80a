"""The wheel as a consumer has it: with psycopg and nothing else, brooq enqueues and works (design, section 3)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ("psycopg", "psycopg_binary", "psycopg_pool", "typing_extensions")
"""What `dependencies` of pyproject.toml brings, psycopg's own needs included."""

PROGRAM = """
import asyncio, sys
import brooq, brooq.postgres, brooq.testing
from brooq import Config, Job, JobDone, Queue
from brooq.postgres import PostgresStore, migrate, open_pool, producer
import psycopg

assert "site-packages" in brooq.__file__, brooq.__file__
dsn = sys.argv[1]
migrate.up(dsn)
with psycopg.connect(dsn) as connection:
    assert producer.enqueue(connection, Job("hello", "from a producer")).created

async def main():
    said, done = [], asyncio.Event()
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.1))

        @queue.kind("hello")
        async def hello(claim):
            said.append(claim.payload)

        def told(event):
            if isinstance(event, JobDone) and len(said) == 2:
                done.set()

        queue.listen(told)
        await queue.enqueue(Job("hello", "from the queue"))
        async with queue, asyncio.timeout(60):
            await done.wait()
    print(sorted(said))

asyncio.run(main())
for name in ("asyncpg", "sqlalchemy", "django", "click", "starlette", "pytest", "prometheus_client"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} is here: this proves nothing")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make build` builds it, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    programs = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    line = [
        sys.executable,
        "-m",
        "uv",
        "--quiet",
        "--offline",
        "--no-cache",
        "build",
        "--wheel",
        "--no-build-isolation",
    ]
    line += ["--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run(line, cwd=ROOT, env=environment, check=True, timeout=100)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_all_that_is_not_python_too(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    ours = {
        str(path.relative_to(source))
        for path in (source / "brooq").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert ours <= packed
    assert "brooq/py.typed" in packed


def test_the_metadata_ask_for_psycopg_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    asked = re.findall(r"^Requires-Dist: (.+)$", archive.read(name).decode(), re.MULTILINE)
    assert [each for each in asked if "extra ==" not in each] == ["psycopg[binary,pool]>=3.2,<4"]


def test_the_core_works_with_psycopg_alone(wheel: Path, empty_dsn: str, tmp_path: Path) -> None:
    """In a fresh environment whose only other packages are psycopg's, by links to those of this one."""
    place = tmp_path / "fresh"
    venv.create(place, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    for found in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if found.name.partition("-")[0].partition(".")[0] in CORE:
            (packages / found.name).symlink_to(found)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PG"))}
    ended = subprocess.run(
        [place / "bin" / "python", "-I", "-c", dedent(PROGRAM), empty_dsn],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.strip() == "['from a producer', 'from the queue']"
