"""The way of an upgrade and back, as the guide tells it: migrate while workers run, then replace them; to go back, take the
migration back with the new program, then put the old one in its place.

Old and new are two copies of the program; the new one has a migration more.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from tests.deploy.stand import ROOT
from tests.service.brooq_process import SHORT, Table, Worker, environment, write

from brooq.postgres.migrate import LATEST

MIGRATION = """
-- +goose Up
alter table job add column note text;
create table brooq_note (id bigint primary key);

-- +goose Down
drop table brooq_note;
alter table job drop column note;
"""

APP = """
    from pathlib import Path

    @queue.kind("mail")
    async def mail(claim: Claim) -> None:
        if claim.payload.get("wait"):
            print("begun", flush=True)
            while not Path("open").exists():
                await asyncio.sleep(0.02)
"""


@dataclass(frozen=True)
class Release:
    """A program as it is installed, and the folder of its application."""

    package: Path
    folder: Path
    dsn: str

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes."""
        return environment(self.dsn, PYTHONPATH=str(self.package), **SHORT)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "brooq", *arguments],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """A worker for the length of a block."""
        started = Worker(["--app", "jobs:queue"], self.environment, self.folder)
        try:
            yield started
        finally:
            started.process.kill()
            started.exit_code()
            if started.process.stdout is not None:
                started.process.stdout.close()


def install(name: str, folder: Path, dsn: str, *, migration: str | None = None) -> Release:
    """A copy of the program, with another migration if one is given."""
    package = folder / name
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
    if migration is not None:
        (package / "brooq/postgres/migrations" / f"{LATEST + 1:05}_note.sql").write_text(migration)
    return Release(package, folder, dsn)


def done(table: Table, ids: list[UUID]) -> None:
    """All of them, at their first attempt."""
    for id in ids:
        assert table.wait(id, "done", 60) == ("done", 1, None)


def ends_well(worker: Worker) -> None:
    """After a signal; and it has never complained."""
    worker.send()
    assert worker.exit_code() == 0, worker.log
    assert not [line for line in worker.lines if line["level"] in ("error", "critical")], worker.log


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    """What is closed at the end of the test."""
    with ExitStack() as stack:
        yield stack


def test_an_upgrade_with_workers_that_run_and_the_way_back(
    empty_dsn: str, tmp_path: Path, resources: ExitStack
) -> None:
    write(tmp_path, APP)
    old = install("old", tmp_path, empty_dsn)
    new = install("new", tmp_path, empty_dsn, migration=MIGRATION)
    assert old.run("migrate", "up").returncode == 0
    table = resources.enter_context(closing(Table(empty_dsn)))
    with old.worker() as running:
        done(table, [table.insert("mail") for _ in range(5)])
        held = table.insert("mail", '{"wait": true}')
        running.wait_for("begun")

        # The step of the deployment. The old worker goes on, with what it holds and with what comes.
        migrated = new.run("migrate", "up")
        assert migrated.returncode == 0, migrated.stderr
        (tmp_path / "open").touch()
        done(table, [held, *(table.insert("mail") for _ in range(5))])

        # From now on the old program does not start any more, and says why.
        refused = old.run("worker", "--app", "jobs:queue")
        assert refused.returncode == 1
        assert f"migration {LATEST + 1}, newer than" in refused.stderr

        # Both work side by side, until the old one is stopped.
        with new.worker() as successor:
            successor.wait_for("started")
            done(table, [table.insert("mail") for _ in range(20)])
            ends_well(running)
            done(table, [table.insert("mail") for _ in range(5)])
            ends_well(successor)

    # The way back: only the new program knows how to take its migration back.
    assert old.run("migrate", "down", "--yes").returncode == 1
    taken_back = new.run("migrate", "down", "--yes")
    assert taken_back.returncode == 0, taken_back.stderr
    with old.worker() as again:
        done(table, [table.insert("mail") for _ in range(5)])
        ends_well(again)
    with psycopg.connect(empty_dsn) as connection:
        counts = connection.execute("select count(*), count(*) filter (where state = 'done') from job").fetchall()
        assert counts == [(41, 41)]
