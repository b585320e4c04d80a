"""Complaints: the first failures of a second in full, the rest counted."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.engine.parts import memory, queue, until
from tests.simulation.virtual import virtual

from brooq.engine.complaint import A_SECOND
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Job, State
from brooq.vocabulary.kind import KindOptions


async def fails(claim: Claim) -> None:
    raise RuntimeError(f"no {claim.payload}")


def told(caplog: pytest.LogCaptureFixture) -> tuple[int, list[str]]:
    """How many tracebacks there were, and the lines that count."""
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    return sum(bool(record.exc_info) for record in errors), [
        record.getMessage() for record in errors if not record.exc_info
    ]


@pytest.mark.parametrize(("jobs", "counted"), [(A_SECOND, 0), (A_SECOND + 7, 7)])
def test_a_crowd_of_failures_is_counted_and_every_reason_is_in_its_row(
    caplog: pytest.LogCaptureFixture, jobs: int, counted: int
) -> None:
    @virtual
    async def main() -> None:
        store = memory()
        async with queue(store, fails, KindOptions(max_attempts=1), workers=50) as made:
            await made.enqueue_many([Job("t", number) for number in range(jobs)])
            await until(lambda: all(job.state is State.DEAD for job in store.jobs))
            await asyncio.sleep(1.1)
            tracebacks, lines = told(caplog)
            assert tracebacks == A_SECOND
            assert [line.split()[0] for line in lines] == ([str(counted)] if counted else [])
            await made.enqueue(Job("t", "later"))
            await until(lambda: told(caplog)[0] == A_SECOND + 1)
        assert all(job.last_error and f"no {job.payload}" in job.last_error for job in store.jobs)

    main()


@virtual
async def test_a_stop_tells_what_was_not_told_yet() -> None:
    records: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    handler = Listening(logging.ERROR)
    logging.getLogger("brooq").addHandler(handler)
    try:
        store = memory()
        async with queue(store, fails, KindOptions(max_attempts=1), workers=50) as made:
            await made.enqueue_many([Job("t", number) for number in range(A_SECOND + 3)])
            await until(lambda: all(job.state is State.DEAD for job in store.jobs), seconds=0.9)
        assert sum(record.startswith("3 ") for record in records) == 1
    finally:
        logging.getLogger("brooq").removeHandler(handler)
