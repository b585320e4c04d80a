"""Prefetch: jobs claimed ahead of the slots are held like those that run, and never lost."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.parts import memory, queue, until
from tests.simulation.virtual import virtual

from brooq import Config, ConfigError
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.job import Job, State
from brooq.vocabulary.kind import KindOptions


async def slow(claim: Claim) -> None:
    await asyncio.sleep(10)


def states(store: MemoryStore) -> list[str]:
    return sorted(str(job.state) for job in store.jobs)


@virtual
async def test_so_many_are_claimed_ahead_and_no_more_run_than_there_are_slots() -> None:
    store = memory()
    async with queue(store, slow, workers=2, prefetch=3, lease=3) as made:
        await made.enqueue_many([Job("t") for _ in range(10)])
        await until(lambda: states(store).count("processing") == 5)
        await asyncio.sleep(5)  # longer than the lease: what waits is kept as well
        assert states(store) == ["pending"] * 5 + ["processing"] * 5
        assert len(made.running()) == 2
        await until(lambda: all(job.state is State.DONE for job in store.jobs), seconds=100)
        assert all(job.attempts == 1 for job in store.jobs)


@virtual
async def test_a_stop_hands_back_what_was_not_started() -> None:
    store = memory()
    async with queue(store, slow, workers=1, prefetch=4, shutdown_grace=20) as made:
        await made.enqueue_many([Job("t") for _ in range(5)])
        await until(lambda: states(store).count("processing") == 5)
        begun = asyncio.get_running_loop().time()
        stopping = asyncio.ensure_future(made.stop())
        await until(lambda: states(store).count("pending") == 4)
        assert asyncio.get_running_loop().time() - begun < 1
        assert [job.attempts for job in store.jobs if job.state is State.PENDING] == [0] * 4
        await stopping
    assert states(store) == ["done"] + ["pending"] * 4


@virtual
async def test_a_job_that_is_lost_while_it_waits_never_starts() -> None:
    store, started = memory(), []

    async def handler(claim: Claim) -> None:
        started.append(claim.id)
        await asyncio.sleep(5)

    async with queue(store, handler, workers=1, prefetch=1) as made:
        await made.enqueue_many([Job("t"), Job("t")])
        await until(lambda: states(store) == ["processing"] * 2)
        (second,) = [job.id for job in store.jobs if job.id not in started]
        assert (await made.cancel(second)).canceled
        await until(lambda: states(store) == ["canceled", "done"])
        await asyncio.sleep(10)
        assert second not in started
        assert made.metrics.lease_lost["t"] == 1


@virtual
async def test_the_time_of_an_attempt_begins_at_its_start() -> None:
    store = memory()
    options = KindOptions(attempt_timeout=11, max_execution_timeout=12)
    async with queue(store, slow, options, workers=1, prefetch=2) as made:
        await made.enqueue_many([Job("t") for _ in range(3)])
        await until(lambda: all(job.state is State.DONE for job in store.jobs), seconds=100)
        assert all(job.attempts == 1 for job in store.jobs)


@pytest.mark.parametrize("value", [-1, 1.5, True, "5"])
def test_it_is_a_whole_number_from_zero(value: object) -> None:
    with pytest.raises(ConfigError, match="prefetch"):
        Config(prefetch=value)  # type: ignore[arg-type]
