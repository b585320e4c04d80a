"""`make build`: a wheel and one file that is the whole program, made of the same bytes every time, which runs in a bare
environment on nothing but Python."""

from __future__ import annotations

import hashlib
import json
import zipfile
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from tests.deploy.conftest import build
from tests.deploy.program import APP, run, working
from tests.deploy.stand import ROOT
from tests.service.brooq_process import Table

pytestmark = pytest.mark.xdist_group("build")


def test_the_same_sources_make_the_same_bytes(program: Path, tmp_path: Path) -> None:
    again = build(tmp_path)

    def digests(folder: Path) -> dict[str, str]:
        files = [*folder.glob("dist/*"), folder / "bin" / "brooq"]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    assert len(digests(tmp_path)) == 2
    assert digests(program.parent.parent) == digests(again.parent.parent)


def test_everything_is_in_it_and_nothing_of_the_machine_that_built_it(program: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        names = archive.namelist()
        information = json.loads(archive.read("PEX-INFO"))
    found = {name.partition("-")[0] for name in information["distributions"]}
    assert {"asyncpg", "brooq", "click", "psycopg_binary", "psycopg_pool", "starlette", "uvicorn", "uvloop"} <= found
    for part in ("messages/ru/command.toml", "postgres/queries/exchange.sql", "postgres/migrations/00001_job.sql"):
        assert any(name.endswith(part) for name in names), part
    assert not [name for name in names if name.endswith(".pyc") or str(ROOT) in name]
    assert str(ROOT) not in json.dumps(information)
    assert str(ROOT).encode() not in program.read_bytes()


def test_it_is_a_whole_worker_in_a_bare_environment(
    program: Path, bare: dict[str, str], empty_dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    assert run(program, "--version", env=bare, cwd=tmp_path).startswith("brooq ")
    env = {**bare, "DATABASE_URL": empty_dsn, "LOG_FORMAT": "json", "QUEUE_DRIVER": "asyncpg"}
    run(program, "migrate", "up", env=env, cwd=tmp_path)
    with closing(Table(empty_dsn)) as table:
        do_both(program, table, env, tmp_path)


def do_both(program: Path, table: Table, env: dict[str, str], folder: Path) -> None:
    """A job of an application, by two processes; then one of the program itself."""
    for topic, arguments in (("mail", ["--app", "jobs:queue", "--processes", "2"]), ("demo", [])):
        said = run(program, "enqueue", topic, '{"to": "anna"}', env=env, cwd=folder)
        with working(program, *arguments, env=env, cwd=folder) as worker:
            table.wait(UUID(said.strip()), "done", 60)
            worker.send()
            assert worker.exit_code() == 0, worker.log
