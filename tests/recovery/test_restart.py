"""The server goes away and comes back: the worker waits for it, says so, and goes on by itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import LiteralString

import pytest
from tests.recovery.workload import ask, at_work, calm, crash, enqueue, settled, until

from brooq.postgres.local import LocalPostgres

OUTAGE = 6.0
BACKENDS: LiteralString = "select pid from pg_stat_activity where application_name = 'brooq'"


@pytest.mark.fault(7)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in order", "at once"])
def test_a_worker_survives_a_restart(
    how: signal.Signals, server: LocalPostgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Shut down in order and without a checkpoint: nothing acknowledged is lost, nothing has two endings."""
    dsn = server.dsn
    with at_work(dsn, tmp_path) as patient:
        enqueue(dsn, 20)
        until(lambda: ask(dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")
        with patient.outage(OUTAGE) as outage:
            os.kill(server.pid, how)
            server.stop()
        calm(outage[0], request)
        server.start()
        enqueue(dsn, 5)
        settled(dsn, 25)
        patient.process.wait_for("well again")


@pytest.mark.fault(6)
def test_a_worker_survives_the_crash_of_a_backend(server: LocalPostgres, tmp_path: Path) -> None:
    """One backend is killed, and the server restarts all of them: ten times, while jobs run."""
    dsn = server.dsn
    with at_work(dsn, tmp_path) as patient:
        for _ in range(10):
            enqueue(dsn, 3)
            found = until(lambda: ask(dsn, BACKENDS), "the worker did not connect")
            crash(dsn, found[0][0])
        settled(dsn, 30)
        assert patient.process.process.poll() is None
