"""The main job on real input: real PostgreSQL, real SMTP, a worker process killed half-way."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
from examples.webhooks.mail_server import SHARES
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.e2e.demo import ROOT, agree, audit, command, environment, run, was_killed_half_way

from brooq.postgres.local import LocalPostgres

REAL = ROOT.parent / "shared" / "data" / "webhooks.jsonl"


def test_the_shipped_sample_and_then_another_file_in_the_same_folder(tmp_path: Path) -> None:
    found = run(tmp_path)
    agree(found, 360)
    was_killed_half_way(found, 360)
    assert set(found.report["mail_server"]) == {*SHARES, "refused"}, "every misdeed was met"
    assert found.report["duplicates"] >= found.report["mail_server"]["lost_answer"]
    with LocalPostgres(tmp_path / "pg") as postgres:
        audit(make_conninfo(postgres.dsn, dbname="demo"), tmp_path, 360)

    few = tmp_path / "few.jsonl"
    few.write_text('{"event": "ping"}\n{"event": "ping"}\n\n{}', encoding="utf-8")
    again = run(tmp_path, "--input", few)
    agree(again, 3)
    with LocalPostgres(tmp_path / "pg") as postgres:
        audit(make_conninfo(postgres.dsn, dbname="demo"), tmp_path, 3)


@pytest.mark.skipif(not REAL.exists(), reason="../shared/data/webhooks.jsonl, the real deliveries, is absent")
def test_real_deliveries(tmp_path: Path, empty_dsn: str) -> None:
    deliveries = len(REAL.read_text(encoding="utf-8").splitlines())
    found = run(tmp_path, "--input", REAL, "--database", empty_dsn)
    agree(found, deliveries)
    was_killed_half_way(found, deliveries)
    audit(empty_dsn, tmp_path, deliveries)
    with psycopg.connect(empty_dsn) as connection:
        bodies = connection.execute(
            "select payload -> 'body' from job where topic = 'webhook.received' order by (payload ->> 'number')::int"
        ).fetchall()
    assert [body for (body,) in bodies] == [json.loads(line) for line in REAL.read_text(encoding="utf-8").splitlines()]
    password = conninfo_to_dict(empty_dsn).get("password")
    logs = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "run").glob("*.log"))
    assert logs
    if password:
        assert str(password) not in logs + found.output + found.errors + json.dumps(found.report)


def test_a_database_with_jobs_is_left_alone(tmp_path: Path, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into job (topic) values ('somebody.elses')")
    found = run(tmp_path, "--database", dsn)
    assert found.code == 1
    assert "has jobs already" in found.errors
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select topic, state, attempts from job").fetchall() == [
            ("somebody.elses", "pending", 0)
        ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b'{"event": "a"}\n{"event": \n', "line 2: no JSON"),
        (b'{"event": "a"}\n\n[1]\n', "line 3: a JSON object is needed, this is list"),
        (b'{"event": "\xff"}\n', "line 1: no UTF-8"),
        (b'{"event": "a\\u0000"}\n', "line 1: "),
        (b'{"event": NaN}\n', "line 1: "),
    ],
)
def test_bad_input_is_named_with_its_line_and_starts_nothing(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "in.jsonl"
    if content is not None:
        path.write_bytes(content)
    folder = tmp_path / "demo"
    found = run(folder, "--input", path)
    assert found.code == 2
    assert str(path) in found.errors
    assert problem in found.errors
    assert "Traceback" not in found.errors
    assert not folder.exists()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_process_behind(tmp_path: Path, empty_dsn: str, signal_number: int) -> None:
    demo = subprocess.Popen(
        command(tmp_path, "--database", empty_dsn),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        process = psutil.Process(demo.pid)
        _until(lambda: (tmp_path / "run" / "claims.jsonl").exists() and len(process.children()) >= 2)
        children = process.children(recursive=True)
        demo.send_signal(signal_number)
        output, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert "interrupted" in output
    assert "Traceback" not in output
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_a_demo_that_is_killed_takes_its_programs_along(tmp_path: Path, empty_dsn: str) -> None:
    demo = subprocess.Popen(
        command(tmp_path, "--database", empty_dsn), cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL
    )
    process = psutil.Process(demo.pid)
    try:
        _until(lambda: (tmp_path / "run" / "claims.jsonl").exists() and len(process.children()) >= 2)
        children = process.children(recursive=True)
    finally:
        demo.kill()
        demo.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def _until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
