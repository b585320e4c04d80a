"""Loops survive what their ticks meet, and say so without flooding the log."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.engine.parts import until
from tests.simulation.virtual import VirtualRuntime, virtual

from brooq.engine.loop import REMIND, SICK_AFTER, Loop, Pulse
from brooq.vocabulary.error import StoreUnavailable


class Tick:
    """Raises what it was given, as long as there is any."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.errors = list(errors)
        self.times: list[float] = []
        self.always: BaseException | None = None

    async def __call__(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        error = self.errors.pop(0) if self.errors else self.always
        if error is not None:
            raise error


@virtual
async def test_the_first_tick_is_at_once_and_the_rest_follow_the_period() -> None:
    tick = Tick()
    loop = Loop("x", 2.0, tick, VirtualRuntime())
    loop.start()
    await asyncio.sleep(7)
    await loop.stop()
    assert tick.times == [0, 2, 4, 6]
    await asyncio.sleep(10)
    assert len(tick.times) == 4


@pytest.mark.fault(50)
@virtual
async def test_a_single_error_of_any_kind_is_survived() -> None:
    """Fault 50."""
    tick = Tick(TypeError("odd"), None, StoreUnavailable("away"), None)
    loop = Loop("x", 2.0, tick, VirtualRuntime())
    loop.start()
    await until(lambda: len(tick.times) == 5)
    assert loop.pulse.well
    await loop.stop()
    assert not loop.pulse.well


@pytest.mark.fault(50)
@virtual
async def test_a_loop_that_cannot_run_is_sick_within_a_second() -> None:
    """Fault 50."""
    tick = Tick()
    tick.always = TypeError("for ever")
    loop = Loop("x", 2.0, tick, VirtualRuntime())
    loop.start()
    await until(lambda: not loop.pulse.well, 1.0)
    assert len(tick.times) == SICK_AFTER
    tick.always = None
    await until(lambda: loop.pulse.well, 6.0)
    await loop.stop()


@pytest.mark.fault(29)
@virtual
async def test_an_outage_backs_off_to_five_seconds_and_is_no_sickness() -> None:
    """Fault 29."""
    tick = Tick()
    tick.always = StoreUnavailable("away")
    loop = Loop("x", 0.2, tick, VirtualRuntime())
    loop.start()
    await asyncio.sleep(60)
    gaps = [b - a for a, b in zip(tick.times, tick.times[1:], strict=False)]
    assert 0.05 <= gaps[0] <= 0.1
    assert all(2.5 <= gap <= 5.0 for gap in gaps[7:])
    assert len(tick.times) < 40
    assert loop.pulse.well
    await loop.stop()


@pytest.mark.fault(29)
@virtual
async def test_one_outage_is_told_every_half_minute_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    """Fault 29: log lines are bounded."""
    caplog.set_level(logging.INFO, "brooq")
    tick = Tick()
    tick.always = StoreUnavailable("away")
    loop = Loop("x", 0.2, tick, VirtualRuntime())
    loop.start()
    await asyncio.sleep(10 * REMIND)
    assert 5 <= len(caplog.records) <= 11
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    caplog.clear()
    tick.always = None
    await asyncio.sleep(20)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    await loop.stop()


def test_an_unexpected_error_is_an_error_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        Pulse("x", VirtualRuntime()).stumble(TypeError("odd"))

    virtual(main)()
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None


@virtual
async def test_stop_cancels_a_tick_on_its_way() -> None:
    ended = asyncio.Event()

    async def tick() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    loop = Loop("x", 1.0, tick, VirtualRuntime())
    loop.start()
    await asyncio.sleep(1)
    await loop.stop()
    assert ended.is_set()
    await loop.stop()
