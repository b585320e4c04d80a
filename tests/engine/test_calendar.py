"""When expressions tick: the changes to summer time and back, and what becomes of ticks that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from brooq import ConfigError, Missed, ScheduleRecord
from brooq.engine import calendar
from brooq.engine.calendar import ALIASES, first, plan, ticks, ticks_back

BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def told(cron: str, after: str, count: int, timezone: str = BERLIN) -> list[str]:
    return [f"{tick:%d %H:%M}" for tick in islice(ticks(cron, timezone, at(after)), count)]


def record(cron: str = "*/5 * * * *", **values: Any) -> ScheduleRecord:
    fields: dict[str, Any] = {
        "name": "n", "topic": "t", "cron": cron, "timezone": "UTC", "payload": None, "priority": 0, "max_attempts": None,
        "concurrency_key": "", "missed": Missed.ONCE, "missed_limit": 100, "declared": True, "paused_at": None,
        "paused_by": None, "next_at": None, "last_at": None, "last_job": None,
    }  # fmt: skip
    return ScheduleRecord(**(fields | values))


def test_a_daily_job_in_the_hour_that_is_left_out_runs_once_right_after_it() -> None:
    """Berlin, 29 March 2026: after 01:59:59 comes 03:00:00, which is 01:00 UTC."""
    assert told("30 2 * * *", "2026-03-28T00:00", 3) == ["28 01:30", "29 01:00", "30 00:30"]


def test_a_daily_job_in_the_hour_that_comes_twice_runs_once() -> None:
    """Berlin, 25 October 2026: after 02:59:59 comes 02:00:00 again."""
    assert told("30 2 * * *", "2026-10-24T00:00", 3) == ["24 00:30", "25 00:30", "26 01:30"]


def test_intervals_go_on_evenly_over_both() -> None:
    assert told("*/30 * * * *", "2026-03-29T00:01", 4) == ["29 00:30", "29 01:00", "29 01:30", "29 02:00"]
    assert told("*/30 * * * *", "2026-10-25T00:01", 6) == [
        "25 00:30", "25 01:00", "25 01:30", "25 02:00", "25 02:30", "25 03:00",
    ]  # fmt: skip
    assert told("0 * * * *", "2026-10-24T23:59", 4) == ["25 00:00", "25 01:00", "25 02:00", "25 03:00"]


@pytest.mark.parametrize(
    "cron",
    ["*/5 * * * *", "30 2 * * *", "0 * * * *", "15 1,2,3 * * *", "0 0 13 * 5", "59 23 L * *", "*/7 2 * * *", "@daily"],
)
@pytest.mark.parametrize("start", ["2026-03-28T00:00", "2026-10-24T00:00"])
@pytest.mark.parametrize("timezone", [BERLIN, "America/New_York", "Asia/Kathmandu", "UTC"])
def test_backwards_there_are_the_same_ticks(cron: str, start: str, timezone: str) -> None:
    """What was missed is looked for from its end."""
    begin, end = at(start), at(start) + 3 * DAY
    there = [tick for tick in islice(ticks(cron, timezone, begin), 2000) if tick < end]
    back = [tick for tick in islice(ticks_back(cron, timezone, end), 2000) if tick > begin]
    assert back[::-1] == there


def test_a_zone_means_its_own_clock() -> None:
    assert told("0 9 * * 1", "2026-07-01T00:00", 1) == ["06 07:00"]
    assert told("0 9 * * 1", "2026-07-01T00:00", 1, "America/New_York") == ["06 13:00"]
    assert told("0 9 * * 1", "2026-07-01T00:00", 1, "UTC") == ["06 09:00"]


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_is_known(name: str) -> None:
    assert first(name, "UTC", at("2026-01-01T00:00")) is not None
    assert first(f" {name.upper()} ", "UTC", at("2026-01-01T00:00")) == first(name, "UTC", at("2026-01-01T00:00"))


@pytest.mark.parametrize("cron", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "@never", "x"])
def test_what_is_no_expression_is_refused_with_a_reason(cron: str) -> None:
    with pytest.raises(ConfigError, match="the cron expression"):
        first(cron, "UTC", at("2026-01-01T00:00"))


@pytest.mark.parametrize("timezone", ["Nowhere/Else", "../etc/passwd", "", "\0"])
def test_a_zone_that_this_host_does_not_know_is_refused_as_an_expression_is(timezone: str) -> None:
    """Set where it is known; a scheduler elsewhere must be able to pass over it."""
    with pytest.raises(ConfigError, match="time zone"):
        calendar.first("@daily", timezone, at("2026-01-01T00:00"))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    assert not calendar.available()
    with pytest.raises(ConfigError, match=r"brooq\[cron\]"):
        first("* * * * *", "UTC", at("2026-01-01T00:00"))


# --- what was missed ---

NOW = at("2026-06-01T12:02")


def minutes(planned: list[datetime]) -> list[str]:
    return [f"{tick:%H:%M}" for tick in planned]


@pytest.mark.parametrize("missed", list(Missed))
def test_a_tick_that_has_just_come_has_a_job_whatever_the_way_with_missed_ones(missed: Missed) -> None:
    planned = plan(record(missed=missed, next_at=at("2026-06-01T12:00")), at("2026-06-01T12:00"))
    assert (minutes(planned.ticks), planned.next_at) == (["12:00"], at("2026-06-01T12:05"))


def test_nothing_is_due_before_its_time() -> None:
    assert plan(record(next_at=at("2026-06-01T12:05")), NOW).ticks == []
    assert plan(record(next_at=None), NOW) == ([], at("2026-06-01T12:05"))


def test_missed_ticks_are_left_out_once_or_all_but_bounded() -> None:
    since = at("2026-06-01T11:00")
    assert plan(record(missed=Missed.SKIP, next_at=since), NOW).ticks == []
    assert minutes(plan(record(missed=Missed.ONCE, next_at=since), NOW).ticks) == ["12:00"]
    every = plan(record(missed=Missed.ALL, next_at=since), NOW).ticks
    assert minutes(every) == [f"{11 + number // 12}:{number % 12 * 5:02}" for number in range(13)]
    few = plan(record(missed=Missed.ALL, missed_limit=3, next_at=since), NOW)
    assert (minutes(few.ticks), few.next_at) == (["11:50", "11:55", "12:00"], at("2026-06-01T12:05"))


def test_of_missed_ticks_the_one_that_is_not_late_is_run() -> None:
    planned = plan(record(missed=Missed.SKIP, next_at=at("2026-06-01T11:00")), at("2026-06-01T12:00:30"))
    assert minutes(planned.ticks) == ["12:00"]


def test_a_year_of_downtime_costs_no_more_than_a_minute() -> None:
    planned = plan(record("* * * * *", missed=Missed.ALL, missed_limit=5, next_at=NOW - 3650 * DAY), NOW)
    assert minutes(planned.ticks) == ["11:58", "11:59", "12:00", "12:01", "12:02"]
