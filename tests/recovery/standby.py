"""A standby made from a running server with the programs of the same PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from brooq.postgres.local import LocalPostgres
from brooq.postgres.local.binaries import find
from brooq.postgres.local.environment import environment


def make_standby(primary: LocalPostgres, folder: Path, settings: dict[str, str | int | bool]) -> LocalPostgres:
    """A streaming standby in `folder`, not started yet. Skips the test where `pg_basebackup` is missing."""
    program = find().folder / "pg_basebackup"
    if not program.is_file():
        pytest.skip(f"{program} is missing")
    folder.mkdir(mode=0o700)
    place = conninfo_to_dict(primary.dsn)
    line = [
        str(program), "--pgdata", str(folder / "data"), "--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream",
        "--host=127.0.0.1", f"--port={primary.port}", "--username=postgres", "--no-password",
    ]  # fmt: skip
    env = environment() | {"PGPASSWORD": str(place["password"])}
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    # The copy has the account of whoever made the data, and so the same password.
    shutil.copy(primary.path / "password", folder / "password")
    owner = (primary.path / "data").stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for place_of_it in (folder, *folder.rglob("*")):
            os.chown(place_of_it, owner.st_uid, owner.st_gid)
    return LocalPostgres(folder, settings=settings)


def follows(primary: str) -> bool:
    """Whether a synchronous standby streams from this server."""
    with psycopg.connect(primary, autocommit=True) as connection:
        rows = connection.execute("select sync_state from pg_stat_replication").fetchall()
    return ("sync",) in rows


def promote(standby: str) -> None:
    """Make it a server that writes. Returns when it does."""
    with psycopg.connect(standby, autocommit=True) as connection:
        assert connection.execute("select pg_promote(true, 60)").fetchone() == (True,)
