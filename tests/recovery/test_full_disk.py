"""No space left: for the table, or for the log of the database itself, which then goes down. On a small tmpfs, as root."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.recovery.workload import ask, at_work, calm, enqueue, settled, until

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres
from brooq.postgres.local.cluster import alive

SETTINGS: dict[str, str | int | bool] = {
    "shared_buffers": "16MB", "max_connections": 30, "min_wal_size": "32MB", "max_wal_size": "32MB",
    "wal_recycle": False, "autovacuum": False,
}  # fmt: skip
OUTAGE = 6.0
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def tmpfs(place: Path, size: str) -> Iterator[Path]:
    """A small disk of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir(mode=0o700)
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, f"size={size},mode=0700".encode()) != 0:
        pytest.skip(f"mounting is not allowed here (errno {ctypes.get_errno()})")
    try:
        yield place
    finally:
        libc.umount2(os.fsencode(place), 2)  # MNT_DETACH: whoever still has it open shall not keep the folder


def fill(place: Path) -> Path:
    """Take all the space that is left."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        piece = b"x" * 65536
        while piece:
            try:
                file.write(piece)
            except OSError:
                piece = piece[: len(piece) // 2]
    return filler


def bulky(dsn: str) -> None:
    """Jobs that need new pages."""
    ask(dsn, "insert into job (topic, payload) select 'other', to_jsonb(repeat(gen_random_uuid()::text, 2000))"
             " from generate_series(1, 200)")  # fmt: skip


@pytest.mark.fault(13)
def test_a_worker_waits_for_space(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Enqueueing fails loudly, the server stays up, the worker stays alive; with space again everything is done."""
    local = LocalPostgres(folder / "pg", settings=SETTINGS)
    with local:
        migrate.up(local.dsn)
    with tmpfs(folder / "disk", "160M") as disk:
        # The table alone is on the small disk; the log of the database has all the space it needs.
        base = local.path / "data" / "base"
        shutil.copytree(base, disk / "base", symlinks=True)
        _same_owner(base, disk)
        shutil.rmtree(base)
        base.symlink_to(disk / "base")
        with local, at_work(local.dsn, tmp_path) as patient:
            dsn = local.dsn
            enqueue(dsn, 20)
            until(lambda: ask(dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")
            with patient.outage(OUTAGE) as outage:
                filler = fill(disk)
                with pytest.raises(psycopg.errors.DiskFull):
                    bulky(dsn)
                for _ in range(200):
                    try:
                        enqueue(dsn, 5)
                    except psycopg.errors.DiskFull:
                        break
            calm(outage[0], request)
            filler.unlink()
            rounds = ask(dsn, "select count(*) from job where payload ->> 'what' = 'done'")[0][0]
            settled(dsn, rounds)


@pytest.mark.fault(14)
def test_a_worker_waits_for_a_server_without_space_for_its_log(
    folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """PostgreSQL goes down by itself. What it acknowledged is there when it is started with space again."""
    local = LocalPostgres(folder / "pg", settings=SETTINGS)
    with local:
        migrate.up(local.dsn)
    with tmpfs(folder / "disk", "64M") as disk:
        wal = local.path / "data" / "pg_wal"
        shutil.copytree(wal, disk / "wal", symlinks=True)
        _same_owner(wal, disk)
        shutil.rmtree(wal)
        wal.symlink_to(disk / "wal")
        with local:
            dsn = local.dsn
            with at_work(dsn, tmp_path) as patient:
                enqueue(dsn, 20)
                until(lambda: ask(dsn, "select 1 from job where state = 'done'"), "nothing was done")
                filler = fill(disk)
                acknowledged = press_on(dsn, local.pid)
                with patient.outage(OUTAGE) as outage:
                    local.stop()
                calm(outage[0], request)
                filler.unlink()
                local.start()
                rows = ask(dsn, "delete from job where topic = 'other' returning id")
                assert acknowledged <= len(rows) <= acknowledged + 200
                enqueue(dsn, 5)
                settled(dsn, 25)


def press_on(dsn: str, server: int) -> int:
    """Write until the server has gone down; how many jobs it acknowledged."""
    acknowledged = 0
    deadline = time.monotonic() + 60
    while alive(server):
        assert time.monotonic() < deadline, "the server holds out"
        try:
            bulky(dsn)
        except psycopg.OperationalError:
            continue
        acknowledged += 200
    return acknowledged


def _same_owner(original: Path, disk: Path) -> None:
    """The server may run as another user than root."""
    owner = original.stat()
    for place in (disk, *disk.rglob("*")):
        os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)
