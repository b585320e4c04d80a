"""A database that is frozen: it neither answers nor hangs up, which is worse than being away."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from tests.service.brooq_process import Table, worker

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres
from brooq.service.tally import AGE


@contextmanager
def frozen(postgres: LocalPostgres) -> Iterator[None]:
    """The server and all its processes stand still."""
    server = psutil.Process(postgres.pid)
    processes = [server, *server.children(recursive=True)]
    for each in processes:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            each.send_signal(signal.SIGCONT)


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.mark.parametrize("processes", [1, 2])
def test_metrics_and_liveness_answer_at_once_while_the_database_is_frozen(tmp_path: Path, processes: int) -> None:
    arguments = ["--processes", str(processes)]
    with LocalPostgres(tmp_path / "pg") as postgres:
        migrate.up(postgres.dsn)
        with (
            closing(Table(postgres.dsn)) as table,
            worker(*arguments, dsn=postgres.dsn, cwd=tmp_path, QUEUE_LEASE="30s") as process,
        ):
            table.wait(table.insert("demo"), "done")
            where = f"http://127.0.0.1:{process.port()}"
            with httpx.Client(base_url=where, timeout=30, trust_env=False) as client:

                def read(path: str) -> tuple[httpx.Response, float]:
                    begun = time.perf_counter()
                    answer = client.get(path)
                    return answer, time.perf_counter() - begun

                def follow() -> list[float]:
                    ages = []
                    for _ in range(3):
                        ages.append(samples(client.get("/metrics").text)[AGE])
                        time.sleep(0.6)
                    return ages

                deadline = time.monotonic() + 60
                while AGE not in client.get("/metrics").text:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                with frozen(postgres):
                    for path in ("/metrics", "/healthz"):
                        # The best of three: other programs of this machine may take their time.
                        assert min(read(path)[1] for _ in range(3)) < 1.0
                    ages = follow()
                    for _ in range(processes):
                        # Each may have read the depths just before, and reports them only now: once.
                        if ages != sorted(ages):
                            ages = follow()
                    assert ages == sorted(ages)
                    assert ages[-1] > ages[0]  # who reads the depths is told how old they are
                    assert samples(client.get("/metrics").text)['brooq_claimed_total{topic="demo"}'] == 1
                    assert client.get("/healthz").status_code == 200
                    assert client.get("/readyz").json()["database"] == "no answer"
                table.wait(table.insert("demo"), "done", 60)
                deadline = time.monotonic() + 60
                while client.get("/readyz").status_code != 200:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            process.send()
            assert process.exit_code() == 0
