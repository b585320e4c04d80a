"""The scheduler under virtual time: one job a tick by many workers, downtime, clocks that are set, broken schedules."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.parts import queue, until
from tests.simulation.virtual import virtual

from brooq import Claim, ConfigError, KindOptions, Missed, Queue, Schedule, State
from brooq.engine import calendar
from brooq.testing import MemoryStore

EPOCH = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
"""Berlin has summer time for another hour."""


class Clock:
    """The database's: that of the loop, and by how much it was set."""

    def __init__(self) -> None:
        self.shift = timedelta(0)

    def __call__(self) -> datetime:
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time()) + self.shift


def place() -> tuple[MemoryStore, Clock]:
    clock = Clock()
    return MemoryStore(clock), clock


async def nothing(claim: Claim) -> None:
    pass


def ticks(store: MemoryStore) -> list[str]:
    return sorted(job.payload["tick"][11:16] for job in store.jobs)


@virtual
async def test_every_tick_is_one_job_whoever_makes_it() -> None:
    """Five processes, through the hour that Berlin has twice."""
    store, _ = place()
    queues = [queue(store, poll_interval=60, reaper_period=60, census_period=600) for _ in range(5)]
    for made in queues:
        made.cron("*/10 * * * *", "t", timezone="Europe/Berlin")(nothing)
        await made.start()
    await asyncio.sleep(2 * 3600 + 1)
    for made in queues:
        await made.stop()
    expected = [f"{hour:02}:{minute:02}" for hour in range(2) for minute in range(0, 60, 10)]
    assert ticks(store) == [*expected[1:], "02:00"]
    assert {job.state for job in store.jobs} == {State.DONE}


@virtual
async def test_a_tick_is_met_when_it_comes() -> None:
    store, clock = place()
    async with queue(store, poll_interval=3600) as made:
        assert made.kinds == {}
    started: list[datetime] = []

    async def handler(claim: Claim) -> None:
        started.append(clock())

    made = queue(store, poll_interval=3600)
    made.cron("0 * * * *", "t")(handler)
    async with made:
        await asyncio.sleep(2 * 3600 + 1)
    assert [f"{each:%H:%M:%S}" for each in started] == ["01:00:00", "02:00:00"]
    assert all(each.microsecond < 100_000 for each in started)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [(Missed.SKIP, ["03:40"]), (Missed.ONCE, ["03:35", "03:40"]), (Missed.ALL, ["03:25", "03:30", "03:35", "03:40"])],
)
def test_ticks_of_a_downtime_are_caught_up_as_the_schedule_says(missed: Missed, expected: list[str]) -> None:
    @virtual
    async def run() -> None:
        store, _ = place()

        def made() -> Queue:
            found = queue(store)
            found.cron("*/5 * * * *", "t", missed=missed, missed_limit=3)(nothing)
            return found

        async with made():
            pass
        await asyncio.sleep(3 * 3600 + 38 * 60)
        async with made():
            await asyncio.sleep(150)
        assert ticks(store) == expected

    run()


@virtual
async def test_a_clock_that_is_set_back_makes_no_second_job_of_a_tick_and_stops_nothing() -> None:
    store, clock = place()
    made = queue(store)
    made.cron("*/10 * * * *", "t")(nothing)
    async with made:
        await asyncio.sleep(3600 + 60)
        assert len(store.jobs) == 6
        clock.shift -= timedelta(minutes=30)
        await asyncio.sleep(3600)
        clock.shift += timedelta(days=400)  # a bad moment of the time service
        await asyncio.sleep(30)
        clock.shift -= timedelta(days=400)
        await asyncio.sleep(3600)
    keys = Counter(job.idempotency_key for job in store.jobs)
    assert set(keys.values()) == {1}
    assert len([key for key in keys if " 2026-" in f" {key[-25:]}"]) == 15  # 00:10 to 02:30


@virtual
async def test_a_schedule_of_another_process_is_heard_of_within_seconds() -> None:
    store, _ = place()
    async with queue(store, nothing) as made:
        await asyncio.sleep(100)
        other = queue(store)
        await other.schedule(Schedule("n", "* * * * * */2", "t"), by="ann")
        await until(lambda: len(store.jobs) >= 3, seconds=10)
        assert await other.pause_schedule("n") is True
        assert await other.pause_schedule("n") is False
        count = len(store.jobs)
        await asyncio.sleep(60)
        assert len(store.jobs) == count
        assert await other.resume_schedule("n") is True
        await until(lambda: len(store.jobs) == count + 1, seconds=8)
        ran = await made.run_schedule("n")
        assert ran is not None
        assert ran.created
        assert await made.run_schedule("none") is None
        assert await made.resume_schedule("none") is False
        assert await other.unschedule("n") is True
        count = len(store.jobs)
        await asyncio.sleep(60)
        assert len(store.jobs) == count


@virtual
async def test_what_the_code_declares_no_more_is_taken_away_by_its_next_worker() -> None:
    store, _ = place()
    first = queue(store)
    first.cron("@daily", "t", name="old")(nothing)
    async with first:
        assert [(each.name, each.declared) for each in await first.schedules()] == [("old", True)]
    second = queue(store)
    second.cron("@hourly", "t", name="new", options=KindOptions(max_running=1))(nothing)
    async with second:
        assert [(each.name, each.cron) for each in await second.schedules()] == [("new", "@hourly")]
        assert [each.limits.max_running for each in await second.topics()] == [1]


@virtual
async def test_a_schedule_that_is_broken_by_hand_is_told_once_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from dataclasses import replace

    store, clock = place()
    await store.schedule(Schedule("broken", "* * * * *", "t"), clock(), "ann")
    held = store._periodic._schedules
    held["broken"] = replace(held["broken"], cron="* * * *")
    made = queue(store)
    made.cron("* * * * *", "t", name="sound")(nothing)
    async with made:
        await asyncio.sleep(300)
    assert len(store.jobs) == 5
    assert len([each for each in caplog.records if "broken" in each.getMessage()]) == 1


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"cron": "61 * * * *"}, "the cron expression '61 * * * *' is refused"),
        ({"timezone": "Mars/Olympus"}, "the time zone 'Mars/Olympus' is not in the time zone database"),
        ({"timezone": "../../etc/passwd"}, "the time zone"),
        ({"name": "No Name"}, "a schedule's name is lowercase words"),
        ({"missed": "twice"}, "missed is skip, once or all, not 'twice'"),
        ({"missed_limit": 0}, "missed_limit is 0"),
        ({"priority": 11}, "priority 11 is refused"),
        ({"topic": "No"}, "the topic 'No' is refused"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_when_it_is_declared(values: dict[str, Any], problem: str) -> None:
    fields: dict[str, Any] = {"cron": "@daily", "topic": "t"}
    fields |= values
    decorate = Queue(MemoryStore()).cron
    with pytest.raises(ConfigError) as caught:
        decorate(fields.pop("cron"), fields.pop("topic"), **fields)(nothing)
    assert problem in str(caught.value)


def test_a_name_is_declared_once() -> None:
    made = Queue(MemoryStore())
    made.declare_schedule(Schedule("n", "@daily", "t"))
    with pytest.raises(ConfigError, match="declared already"):
        made.declare_schedule(Schedule("n", "@daily", "u"))


@virtual
async def test_without_the_package_a_worker_works_all_the_same() -> None:
    store, _ = place()
    available = calendar.available
    calendar.available = lambda: False
    try:
        async with queue(store, nothing) as made:
            assert "scheduler" not in made.health().loops
    finally:
        calendar.available = available
    async with queue(store, nothing) as made:
        assert made.health().loops["scheduler"] is True
