"""The slots: tasks for handlers that wait, one for all that do not, and nothing left behind from one to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tests.engine.parts import OPTIONS, until
from tests.simulation.virtual import VirtualRuntime, virtual

from brooq.engine.attempt import Attempt
from brooq.engine.kind import Kind
from brooq.engine.slots import Slots
from brooq.engine.store import Taken
from brooq.vocabulary.claim import Claim, Lease
from brooq.vocabulary.signal import ShuttingDown

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


class Ground:
    """Slots, and what they told."""

    def __init__(self, size: int) -> None:
        self.ended: list[int] = []
        self.armed: list[int] = []
        self.tasks: dict[int, asyncio.Task[Any] | None] = {}
        self.most = 0
        self.slots = Slots(size, VirtualRuntime(), started=self._started, waits=self._waits, ended=self._ended)

    def _started(self, attempts: list[Attempt]) -> None:
        self.most = max(self.most, len(self.slots.running))

    def _waits(self, attempt: Attempt) -> None:
        self.armed.append(attempt.token)

    def _ended(self, attempts: list[Attempt]) -> None:
        self.ended += [attempt.token for attempt in attempts]
        self.slots.leave(attempts)

    def attempts(self, count: int, handler: Callable[[Claim], Awaitable[Any]]) -> list[Attempt]:
        async def noted(claim: Claim) -> None:
            self.tasks[claim.token] = asyncio.current_task()
            await handler(claim)

        kind = Kind("t", noted, OPTIONS)
        until = datetime(2030, 1, 1, tzinfo=UTC)
        return [
            Attempt(Taken(UUID(int=n), "t", "null", 1, n, until, None, 0.0), kind, Lease("w", until), 0.0)
            for n in range(count)
        ]

    async def over(self, count: int) -> None:
        await until(lambda: len(self.ended) >= count)


async def quick(claim: Claim) -> None:
    pass


async def slow(claim: Claim) -> None:
    await asyncio.sleep(1)


@virtual
async def test_handlers_that_never_wait_share_a_task_and_need_no_timers() -> None:
    ground = Ground(100)
    ground.slots.add(ground.attempts(50, quick))
    await ground.over(50)
    assert ground.ended == list(range(50))
    assert len(set(ground.tasks.values())) == 1
    assert ground.armed == []


@virtual
async def test_handlers_that_wait_run_at_once_each_in_a_task_of_its_own() -> None:
    ground = Ground(100)
    ground.slots.add(ground.attempts(50, slow))
    begun = asyncio.get_running_loop().time()
    await ground.over(50)
    assert asyncio.get_running_loop().time() - begun < 1.1
    assert len(set(ground.tasks.values())) == 50
    assert sorted(ground.armed) == list(range(50))


@virtual
async def test_one_that_waits_does_not_hold_up_the_others() -> None:
    ground = Ground(10)

    async def handler(claim: Claim) -> None:
        if claim.token == 0:
            await asyncio.sleep(1)

    ground.slots.add(ground.attempts(5, handler))
    await ground.over(5)
    assert ground.ended == [1, 2, 3, 4, 0]
    assert ground.armed == [0]


@virtual
async def test_never_more_run_than_there_are_slots() -> None:
    ground = Ground(3)
    ground.slots.add(ground.attempts(10, slow))
    await ground.over(10)
    assert ground.most == 3


@virtual
async def test_a_slot_that_is_freed_from_outside_takes_the_next_attempt() -> None:
    """A closing transaction ends in another task than the handler's."""
    ground = Ground(1)
    closing: list[Attempt] = []
    ground.slots._ended = closing.extend
    ground.slots.add(ground.attempts(2, quick))
    await until(lambda: closing)
    await asyncio.sleep(1)
    assert [attempt.token for attempt in closing] == [0]
    closing[0].task = asyncio.current_task()
    ground.slots.leave(closing[:1])
    await asyncio.sleep(1)
    assert [attempt.token for attempt in closing] == [0, 1]


@virtual
async def test_context_variables_of_one_handler_do_not_reach_the_next() -> None:
    ground, seen = Ground(10), []

    async def handler(claim: Claim) -> None:
        seen.append(COLOUR.get())
        COLOUR.set(f"colour {claim.token}")

    ground.slots.add(ground.attempts(3, handler))
    await ground.over(3)
    assert seen == ["none", "none", "none"]


@virtual
async def test_a_cancellation_of_one_handler_does_not_reach_the_next() -> None:
    """Not even one that the handler itself asked for and did not wait to see."""
    ground = Ground(10)

    async def handler(claim: Claim) -> None:
        if claim.token == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return
        async with asyncio.timeout(5):
            await asyncio.sleep(0.1)

    attempts = ground.attempts(3, handler)
    ground.slots.add(attempts)
    await ground.over(3)
    assert [attempt.error for attempt in attempts] == [None, None, None]


@virtual
async def test_an_interruption_that_comes_too_late_hits_nobody() -> None:
    ground = Ground(10)
    attempts = ground.attempts(2, quick)

    async def interrupts_itself(claim: Claim) -> None:
        attempts[0].interrupt(ShuttingDown("stop"), 1.0, lambda _: None)

    attempts[0].kind = Kind("t", interrupts_itself, OPTIONS)
    attempts[1].kind = Kind("t", slow, OPTIONS)
    ground.slots.add(attempts)
    await ground.over(2)
    assert [attempt.error for attempt in attempts] == [None, None]


@virtual
async def test_long_runs_of_handlers_let_the_event_loop_have_its_turn() -> None:
    ground = Ground(1000)
    loop = asyncio.get_running_loop()
    turns: list[int] = []

    class Lagging(VirtualRuntime):
        lag = 0.0

        def clock(self) -> float:
            return super().clock() + self.lag

    runtime = ground.slots._runtime = Lagging()

    async def handler(claim: Claim) -> None:
        runtime.lag += 0.004  # as if it had computed for so long

    ground.slots.add(ground.attempts(30, handler))

    def turn() -> None:
        turns.append(len(ground.ended))
        if len(ground.ended) < 30:
            loop.call_soon(turn)

    loop.call_soon(turn)
    await ground.over(30)
    assert len({count for count in turns if 0 < count < 30}) >= 5


@virtual
async def test_what_is_removed_does_not_start() -> None:
    ground = Ground(1)
    attempts = ground.attempts(3, slow)
    ground.slots.add(attempts)
    ground.slots.remove(attempts[1])
    await ground.over(2)
    assert ground.ended == [0, 2]
