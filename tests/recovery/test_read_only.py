"""A server that only reads for a while: few tries, few lines, and on with the work as soon as it writes again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recovery.workload import ask, at_work, calm, enqueue, settled, until

from brooq.postgres.local import LocalPostgres

WARM_UP = 5.0
"""The first tries after the first failure come quickly; the pause between them grows to five seconds."""
OUTAGE = 12.0
LOOPS = 7
"""What writes in an idle worker: the lane, the reaper, retention, the samples, the list of workers and the schedules; and
the keeper while it has leases."""
LEAST = 2.5
"""How many seconds a loop pauses at least after many failures."""


@pytest.mark.fault(27)
def test_a_worker_waits_for_a_server_that_only_reads(
    server: LocalPostgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each loop tries every few seconds once it has backed off, counted in the server's own log."""
    dsn, log = server.dsn, server.path / "server.log"

    def refused() -> int:
        return log.read_text(errors="replace").count("in a read-only transaction")

    with at_work(dsn, tmp_path, QUEUE_RETENTION_PERIOD="500ms", QUEUE_POLL_INTERVAL="50ms") as patient:
        enqueue(dsn, 20)
        until(lambda: ask(dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")
        ask(dsn, "alter system set default_transaction_read_only = on")
        ask(dsn, "select pg_reload_conf()")
        patient.process.wait_for("read-only transaction")
        with patient.outage(WARM_UP) as early:
            pass
        before = refused()
        with patient.outage(OUTAGE) as outage:
            pass
        tries = refused() - before
        calm(early[0], request)
        calm(outage[0], request)
        print(f"{tries} tries in {outage[0].seconds:.1f} s")  # noqa: T201  a figure
        assert 0 < tries <= LOOPS * (outage[0].seconds / LEAST + 1)
        ask(dsn, "alter system reset default_transaction_read_only")
        ask(dsn, "select pg_reload_conf()")
        until(lambda: ask(dsn, "show default_transaction_read_only") == [("off",)], "it still only reads")
        enqueue(dsn, 5)
        settled(dsn, 25)
