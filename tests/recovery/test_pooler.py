"""The whole workload through PgBouncer in transaction mode, and the pooler itself going away for a while."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.pooler import Pooler
from tests.recovery.workload import ask, at_work, calm, enqueue, settled, until

OUTAGE = 6.0


@pytest.mark.fault(32)
def test_every_sort_of_job_comes_to_its_end_through_a_pooler_that_restarts(
    dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Two workers and two server connections for both; nothing has a statement or a setting of another."""
    with ExitStack() as stack:
        pooler = stack.enter_context(Pooler(dsn, tmp_path))
        first, second = (
            stack.enter_context(at_work(pooler.dsn, tmp_path, QUEUE_PREPARED="off", QUEUE_RETENTION_PERIOD="200ms"))
            for _ in range(2)
        )
        enqueue(pooler.dsn, 40)
        until(lambda: ask(dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")
        with first.outage(OUTAGE) as outage:
            pooler.stop()
        calm(outage[0], request)
        pooler.start()
        enqueue(pooler.dsn, 5)
        settled(dsn, 45)
        workers = ask(dsn, "select count(distinct locked_by) from job")
        assert workers == [(2,)]
        assert "prepared statement" not in first.process.log + second.process.log
