"""The lease keeper: renewals, and the fence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from tests.engine.parts import memory, queue, until
from tests.simulation.virtual import VirtualRuntime, virtual

from brooq.engine.config import Config
from brooq.engine.keeper import BATCH, LeaseKeeper
from brooq.engine.store import Hold, Renewal, Renewer
from brooq.testing import MemoryStore
from brooq.vocabulary.error import StoreUnavailable

LEASE = 3.0
A, B = Hold(UUID(int=1), 1), Hold(UUID(int=2), 1)


class Script(MemoryStore):
    """A store whose renewals do what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, list[Hold]]] = []
        self.lost: set[Hold] = set()
        self.unknown: set[Hold] = set()
        self.error: Exception | None = None
        self.takes = 0.0
        self.closed = False

    async def renewer(self) -> Renewer:
        return ScriptRenewer(self)


class ScriptRenewer:
    def __init__(self, script: Script) -> None:
        self.script = script

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        script = self.script
        script.asked.append((asyncio.get_running_loop().time(), list(holds)))
        if script.takes:
            await asyncio.sleep(script.takes)
        if script.error is not None:
            raise script.error
        kept = [hold for hold in holds if hold not in script.lost | script.unknown]
        return Renewal(kept, [hold for hold in holds if hold in script.lost])

    async def close(self) -> None:
        self.script.closed = True


class Told:
    """When which hold was told to be lost."""

    def __init__(self) -> None:
        self.at: dict[Hold, float] = {}

    def __call__(self, holds: list[Hold]) -> None:
        self.at.update((hold, asyncio.get_running_loop().time()) for hold in holds)


def keeping(script: Script) -> tuple[LeaseKeeper, Told]:
    told = Told()
    keeper = LeaseKeeper(script, "w", Config(lease=LEASE), VirtualRuntime(), told)
    keeper.start()
    return keeper, told


@virtual
async def test_every_lease_is_renewed_each_third_of_it() -> None:
    script = Script()
    keeper, told = keeping(script)
    keeper.hold([A, B], 0.0)
    await asyncio.sleep(10.5)
    assert [at for at, _ in script.asked] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], abs=0.01)
    assert all(holds == [A, B] for _, holds in script.asked)
    assert not told.at
    await keeper.stop()
    assert script.closed
    assert not keeper.alive


@virtual
async def test_nothing_held_asks_nothing() -> None:
    script = Script()
    keeper, _ = keeping(script)
    keeper.hold([A], 0.0)
    keeper.release(A)
    keeper.release(B)
    await asyncio.sleep(5)
    assert not script.asked
    await keeper.stop()


@virtual
async def test_a_hold_that_is_gone_is_told_at_the_next_renewal() -> None:
    script = Script()
    script.lost = {B}
    keeper, told = keeping(script)
    keeper.hold([A, B], 0.0)
    await until(lambda: B in told.at)
    assert told.at == {B: pytest.approx(LEASE / 3, abs=0.02)}
    await keeper.stop()


@pytest.mark.fault(7)
@pytest.mark.parametrize("error", [StoreUnavailable("away"), TypeError("odd")], ids=repr)
def test_one_failed_renewal_is_tried_again_inside_the_lease(error: Exception) -> None:
    """Fault 7: an error is no loss, and does not end the heartbeat."""

    async def main() -> None:
        script = Script()
        keeper, told = keeping(script)
        keeper.hold([A], 0.0)
        script.error = error
        await until(lambda: script.asked)
        script.error = None
        await asyncio.sleep(10)
        assert script.asked[1][0] - script.asked[0][0] <= LEASE / 12 + 0.01
        assert not told.at
        assert keeper.alive
        await keeper.stop()

    virtual(main)()


@pytest.mark.fault(7)
@virtual
async def test_without_renewals_the_fence_falls_a_lease_after_the_last_good_one_was_sent() -> None:
    """Fault 7, the database away for longer than the lease."""
    script = Script()
    keeper, told = keeping(script)
    keeper.hold([A], 0.0)
    await until(lambda: len(script.asked) == 2)
    sent = script.asked[-1][0]
    script.error = StoreUnavailable("away")
    await until(lambda: told.at)
    assert told.at == {A: pytest.approx(sent + LEASE, abs=0.01)}
    await keeper.stop()


@virtual
async def test_the_fence_does_not_wait_for_a_renewal_that_hangs() -> None:
    script = Script()
    script.takes = 1000.0
    keeper, told = keeping(script)
    keeper.hold([A], 0.0)
    await until(lambda: told.at)
    assert told.at == {A: pytest.approx(LEASE, abs=0.01)}
    await keeper.stop()


@virtual
async def test_a_slow_renewal_counts_from_before_it_was_sent() -> None:
    script = Script()
    script.takes = 1.5
    keeper, told = keeping(script)
    keeper.hold([A], 0.0)
    await until(lambda: len(script.asked) == 2)
    script.takes = 1000.0
    await until(lambda: told.at)
    assert told.at[A] <= script.asked[1][0] + LEASE - 1.0
    await keeper.stop()


@virtual
async def test_a_row_that_was_locked_keeps_its_old_deadline() -> None:
    script = Script()
    script.unknown = {B}
    keeper, told = keeping(script)
    keeper.hold([A, B], 0.0)
    await asyncio.sleep(10)
    assert told.at == {B: pytest.approx(LEASE, abs=0.01)}
    await keeper.stop()


@virtual
async def test_a_claim_whose_answer_was_slow_is_fenced_before_its_elders() -> None:
    """Its deadline counts from when it was sent, so it comes before that of a lease renewed meanwhile."""
    script = Script()
    keeper, told = keeping(script)
    keeper.hold([A], 0.0)
    await until(lambda: len(script.asked) == 2)
    script.takes = 1000.0
    keeper.hold([B], 0.1)
    await until(lambda: len(told.at) == 2)
    assert told.at[B] == pytest.approx(0.1 + LEASE, abs=0.01)
    assert told.at[A] == pytest.approx(script.asked[1][0] + LEASE, abs=0.01)
    await keeper.stop()


@virtual
async def test_many_leases_go_in_batches() -> None:
    script = Script()
    keeper, _ = keeping(script)
    keeper.hold([Hold(UUID(int=number), 1) for number in range(BATCH + 5)], 0.0)
    await until(lambda: len(script.asked) == 2)
    assert [len(holds) for _, holds in script.asked] == [BATCH, 5]
    await keeper.stop()


@virtual
async def test_the_next_claim_of_a_job_is_another_hold() -> None:
    store = memory()
    keeper = LeaseKeeper(store, "w", Config(lease=LEASE), VirtualRuntime(), lambda _: None)
    keeper.hold([Hold(A.id, 1), Hold(A.id, 2)], 0.0)
    keeper.release(Hold(A.id, 1))
    assert list(keeper._deadlines) == [Hold(A.id, 2)]


@virtual
async def test_the_watchdog_is_fed_while_leases_are_kept_and_no_longer() -> None:
    store, fed = memory(), list[float]()
    clock = asyncio.get_running_loop().time
    made = queue(store)
    made.watchdog(lambda: fed.append(clock()), 2)
    assert made.keeps_leases  # there are none
    await made.start()
    await asyncio.sleep(11)
    assert len(fed) == 6
    assert made.keeps_leases
    await made.stop()
    await asyncio.sleep(11)
    assert len(fed) == 6
