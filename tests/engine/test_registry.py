"""The registry: an engine is on the list while it runs, with what its slots do."""

from __future__ import annotations

import asyncio
import os

from tests.engine.parts import memory, queue, until
from tests.simulation.virtual import virtual

from brooq.engine import registry
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import StoreUnavailable
from brooq.vocabulary.job import Job
from brooq.vocabulary.version import VERSION


@virtual
async def test_an_engine_is_on_the_list_from_its_start_to_its_stop() -> None:
    store = memory()
    made = queue(store, nothing, workers=3)
    assert store.workers == []
    async with made:
        await until(lambda: store.workers)
        (said,) = store.workers
        assert said.name.startswith(f"test:{os.getpid()}:")
        assert (said.pid, said.version, said.slots, said.topics) == (os.getpid(), VERSION, 3, ("t",))
        assert (said.stopping, said.busy, said.running) == (False, {}, ())
        await asyncio.sleep(3 * registry.PERIOD)
        (later,) = store.workers
        assert later.name == said.name
        assert later.uptime >= said.uptime + 2 * registry.PERIOD
    assert store.workers == []


@virtual
async def test_the_list_says_what_each_slot_does_and_who_is_stopping() -> None:
    store, go = memory(), asyncio.Event()

    async def handler(claim: Claim) -> None:
        await go.wait()

    made = queue(store, handler, workers=2, shutdown_grace=100)
    await made.start()
    job, _ = await made.enqueue(Job("t"))
    await until(lambda: store.workers and store.workers[0].running)
    await asyncio.sleep(registry.PERIOD)
    (said,) = store.workers
    ((id, topic, attempt, seconds, hung),) = said.running
    assert said.busy == {"t": 1}
    assert (id, topic, attempt, hung) == (job, "t", 1, False)
    assert seconds >= registry.PERIOD / 2
    stop = asyncio.create_task(made.stop())
    await until(lambda: store.workers[0].stopping)
    go.set()
    await stop
    assert store.workers == []


@virtual
async def test_very_many_slots_are_told_of_in_part_the_oldest_first() -> None:
    store = memory()
    made = queue(store, forever, workers=registry.MOST + 50)
    await made.start()
    jobs = [await made.enqueue(Job("t")) for _ in range(registry.MOST + 20)]
    await until(lambda: len(made.running()) == len(jobs))
    await asyncio.sleep(registry.PERIOD)
    (said,) = store.workers
    assert [each.id for each in said.running] == [job.id for job in jobs[: registry.MOST]]
    await made.stop(0)


class Away(MemoryStore):
    """A store that takes no word about engines: never an answer to the last one."""

    async def announce(self, *_: object) -> None:
        raise StoreUnavailable("away")

    async def withdraw(self, worker: str) -> None:
        await asyncio.sleep(3600)


@virtual
async def test_a_list_that_cannot_be_written_holds_nothing_up() -> None:
    store, done = Away(), asyncio.Event()

    async def handler(claim: Claim) -> None:
        done.set()

    made = queue(store, handler)
    await made.start()
    await made.enqueue(Job("t"))
    await done.wait()
    assert made.health().well
    clock = asyncio.get_running_loop().time
    begun = clock()
    await made.stop()
    assert clock() - begun <= registry.FAREWELL + 0.5


async def nothing(claim: Claim) -> None:
    """A handler."""


async def forever(claim: Claim) -> None:
    """A handler that stays."""
    await asyncio.sleep(3600)
