"""The waker: a hint at once while jobs are rare, none asked for while they come in crowds, and looking all the same."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.engine.parts import memory, queue, until, until_state
from tests.simulation.virtual import VirtualRuntime, virtual

from brooq.engine.waker import CROWD, SETTLING, WINDOW, Waker
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import StoreRefused, StoreUnavailable
from brooq.vocabulary.job import Job, State


class ScriptedBell:
    """A bell that the test rings."""

    def __init__(self) -> None:
        self.hangs = False
        self.closed = 0
        self.errors: deque[Exception] = deque()
        self.cancels: list[UUID] = []
        self._rung: Callable[[str], None] = lambda _: None
        self._rings = 0
        self._heard = asyncio.Event()

    def ring(self, times: int = 1, topic: str = "t") -> None:
        self._rings += times
        self._heard.set()
        for _ in range(times):
            self._rung(topic)

    async def hang_up(self, rung: Callable[[str], None]) -> None:
        if self.errors:
            raise self.errors.popleft()
        self._rung = rung
        self.hangs = True

    async def take_down(self) -> None:
        self.hangs = False

    async def wait(self, seconds: float) -> int:
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            pass
        self._heard.clear()
        rings, self._rings = self._rings, 0
        if self.errors:
            raise self.errors.popleft()
        return rings

    def canceled(self) -> list[UUID]:
        told, self.cancels = self.cancels, []
        return told

    async def close(self) -> None:
        self.hangs = False
        self.closed += 1


class Ground:
    """A waker with a scripted bell; when it nudged, which topics it told of, and how many jobs were claimed."""

    def __init__(self) -> None:
        self.bell = ScriptedBell()
        self.nudged: list[float] = []
        self.rung: list[str] = []
        self.claimed = 0
        self.canceled: list[UUID] = []
        self.waker = Waker(
            self.bell, self._nudge, self.rung.append, lambda: self.claimed, VirtualRuntime(), self.canceled.extend
        )
        self.waker.start()

    def _nudge(self) -> None:
        self.nudged.append(asyncio.get_running_loop().time())

    async def settled(self) -> None:
        await asyncio.sleep(sum(SETTLING) + 0.01)
        self.nudged.clear()


@virtual
async def test_each_ring_is_a_look_at_once() -> None:
    ground = Ground()
    await ground.settled()
    for number in range(3):
        ground.bell.ring(topic=f"t{number}")
        assert ground.rung[number:] == [f"t{number}"]
        await asyncio.sleep(0.01)
    assert not ground.nudged, "only for the topic that was rung for"
    await ground.waker.stop()
    assert ground.bell.closed


@virtual
async def test_after_it_is_hung_there_are_looks_for_who_did_not_see_it() -> None:
    ground = Ground()
    await asyncio.sleep(sum(SETTLING) + 0.01)
    assert len(ground.nudged) == len(SETTLING) + 1
    assert ground.bell.hangs
    await ground.waker.stop()


@virtual
async def test_a_crowd_takes_the_bell_down_and_quiet_hangs_it_up_again() -> None:
    ground = Ground()
    await ground.settled()
    ground.bell.ring(CROWD)
    await until(lambda: not ground.bell.hangs)
    for _ in range(50):  # jobs go on coming: it looks again and again
        ground.claimed += 1
        await asyncio.sleep(0.01)
        assert not ground.bell.hangs
    assert len(ground.nudged) > 50
    begun = asyncio.get_running_loop().time()
    await until(lambda: ground.bell.hangs)
    assert asyncio.get_running_loop().time() - begun < 2 * WINDOW
    await ground.waker.stop()


@virtual
async def test_many_rings_over_a_long_time_are_no_crowd() -> None:
    ground = Ground()
    await ground.settled()
    for _ in range(CROWD * 2):
        ground.bell.ring()
        await asyncio.sleep(WINDOW / 10)
        assert ground.bell.hangs
    await ground.waker.stop()


@virtual
async def test_a_lost_bell_is_hung_up_again() -> None:
    ground = Ground()
    await ground.settled()
    ground.bell.errors.append(StoreUnavailable("away"))
    ground.bell.ring()
    await until(lambda: not ground.bell.errors and ground.bell.hangs)
    ground.rung.clear()
    ground.bell.ring()
    await until(lambda: ground.rung)
    await ground.waker.stop()


def test_where_there_can_be_none_it_ends() -> None:
    @virtual
    async def main() -> None:
        ground = Ground()
        ground.bell.errors.append(StoreRefused("a pooler"))
        await until(lambda: ground.bell.closed)
        await asyncio.sleep(10)
        assert not ground.bell.hangs
        await ground.waker.stop()

    main()


@virtual
async def test_a_queue_has_one_while_it_runs() -> None:
    store, bell = memory(), ScriptedBell()
    store.bell = lambda topics: bell  # type: ignore[method-assign]

    async def handler(claim: Claim) -> None:
        pass

    made = queue(store, handler, poll_interval=1000)
    producer = queue(store)
    async with made:
        await asyncio.sleep(1)
        await producer.enqueue(Job("t"))
        assert (await until_state(store, State.PENDING)).state is State.PENDING
        bell.ring()
        await until_state(store, State.DONE, seconds=0.1)
    assert bell.closed


@virtual
async def test_a_ring_is_a_claim_of_its_topic_and_a_full_one_is_followed_by_one_of_all() -> None:
    store, bell = memory(), ScriptedBell()
    store.bell = lambda topics: bell  # type: ignore[method-assign]
    asked: list[list[str]] = []
    exchange = store.exchange

    async def told(worker: str, outcomes: Any, topics: Any, limit: int, lease: Any) -> Any:
        asked.extend([sorted(topics)] if topics else [])
        return await exchange(worker, outcomes, topics, limit, lease)

    store.exchange = told  # type: ignore[method-assign]

    def state(id: UUID) -> State:
        (found,) = [job.state for job in store.jobs if job.id == id]
        return found

    async def handler(claim: Claim) -> None:
        pass

    made = queue(store, workers=2, poll_interval=1000)
    for topic in ("a", "b", "c"):
        made.register_kind(topic, handler)
    producer = queue(store)
    async with made:
        await asyncio.sleep(1)
        asked.clear()
        other, job = [(await producer.enqueue(Job(topic))).id for topic in ("a", "b")]
        bell.ring(topic="b")
        await until(lambda: state(job) is State.DONE)
        assert (asked, state(other)) == ([["b"]], State.PENDING)
        bell.ring(topic="c")
        bell.ring(topic="b")
        await until(lambda: len(asked) > 1)
        assert asked[1] == ["b", "c"]
        await producer.enqueue_many([Job("c"), Job("c"), Job("c")])
        bell.ring(topic="c")
        await until(lambda: state(other) is State.DONE)
        assert asked[2:4] == [["c"], ["a", "b", "c"]]


@virtual
async def test_a_cancel_that_is_heard_makes_the_worker_look_whether_it_still_holds_the_job() -> None:
    store, bell = memory(), ScriptedBell()
    store.bell = lambda topics: bell  # type: ignore[method-assign]
    ended: list[float] = []

    async def handler(claim: Claim) -> None:
        try:
            await asyncio.sleep(500)
        finally:
            ended.append(asyncio.get_running_loop().time())

    made = queue(store, handler, lease=300)
    async with made:
        await made.enqueue(Job("t"))
        await until_state(store, State.PROCESSING)
        (job,) = store.jobs
        bell.cancels.append(job.id)  # told, and not so: the handler goes on
        bell.ring()
        await asyncio.sleep(10)
        assert not ended
        await store.cancel(job.id)  # by another process
        begun = asyncio.get_running_loop().time()
        bell.cancels.append(job.id)
        bell.ring()
        await until(lambda: ended)
    assert ended[0] - begun < 0.1


@virtual
async def test_a_cancel_is_heard_in_a_crowd_too() -> None:
    ground = Ground()
    await ground.settled()
    ground.bell.ring(CROWD)
    await until(lambda: not ground.bell.hangs)
    ground.bell.cancels.append(UUID(int=1))
    for _ in range(20):
        ground.claimed += 1  # it stays as it is: jobs keep coming
        await asyncio.sleep(WINDOW / 20)
    assert not ground.bell.hangs
    assert ground.canceled == [UUID(int=1)]
    await ground.waker.stop()


@virtual
async def test_a_cancel_through_the_queue_that_runs_the_job_needs_no_bell() -> None:
    store = memory()
    ended: list[float] = []

    async def handler(claim: Claim) -> None:
        try:
            await asyncio.sleep(500)
        finally:
            ended.append(asyncio.get_running_loop().time())

    made = queue(store, handler, lease=300)
    async with made:
        answer = await made.enqueue(Job("t"))
        await until_state(store, State.PROCESSING)
        begun = asyncio.get_running_loop().time()
        await made.cancel(answer.id)
        await until(lambda: ended)
    assert ended[0] - begun < 0.1
