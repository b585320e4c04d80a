"""The contract of periodic jobs: one tick has one job, whoever makes it (requirements P1 to P4)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.store_contract.place import HOUR, Place, PostgresGround, now

from brooq import Missed, Schedule, ScheduleRecord
from brooq.engine.scheduler import job_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAST = datetime(2026, 1, 1, tzinfo=UTC)
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)


def nightly(**values: object) -> Schedule:
    fields: dict[str, object] = {"name": "nightly", "cron": "0 2 * * *", "topic": "t"}
    return Schedule(**(fields | values))  # type: ignore[arg-type]


async def only(place: Place) -> ScheduleRecord:
    (record,) = (await place.store.schedules()).schedules
    return record


async def test_a_schedule_is_set_read_changed_and_taken_away(place: Place) -> None:
    store = place.store
    wanted = nightly(timezone="Europe/Berlin", payload={"a": [1, "ж"]}, missed="all", missed_limit=7, priority=3,
                     max_attempts=2, concurrency_key="k")  # fmt: skip
    assert await store.schedule(wanted, FUTURE, "ann") is True
    found = await store.schedules()
    assert abs((found.now - now()).total_seconds()) < 10
    assert found.next_at == FUTURE
    (record,) = found.schedules
    assert (record.name, record.cron, record.topic, record.timezone) == ("nightly", "0 2 * * *", "t", "Europe/Berlin")
    assert (record.missed, record.missed_limit, record.priority, record.max_attempts) == (Missed.ALL, 7, 3, 2)
    assert (record.concurrency_key, record.declared, record.next_at, record.last_at) == ("k", False, FUTURE, None)
    assert record.payload is not None
    assert record.payload.replace(" ", "") == '{"a":[1,"ж"]}'
    assert (await store.schedules(due=True)).schedules == []
    assert await store.schedule(nightly(cron="0 3 * * *"), PAST, "ann") is True
    assert (await only(place)).next_at == PAST
    assert [each.name for each in (await store.schedules(due=True)).schedules] == ["nightly"]
    assert await store.unschedule("nightly", "ann") is True
    assert await store.unschedule("nightly", "ann") is False
    assert (await store.schedules()).schedules == []


async def test_one_that_ticks_as_before_keeps_its_next_tick(place: Place) -> None:
    """A deploy must not lose the ticks that came while nobody was there."""
    await place.store.schedule(nightly(), PAST, "ann")
    await place.store.schedule(nightly(payload=1), FUTURE, "ann")
    assert ((await only(place)).next_at, (await only(place)).payload) == (PAST, "1")
    await place.store.schedule(nightly(timezone="Asia/Tokyo"), FUTURE, "ann")
    assert (await only(place)).next_at == FUTURE


async def test_code_does_not_overwrite_what_was_set_by_hand(place: Place) -> None:
    store = place.store
    assert await store.schedule(nightly(), FUTURE, None) is True
    assert await store.schedule(nightly(), FUTURE, None) is False, "it is so already"
    assert (await only(place)).declared is True
    await store.schedule(nightly(cron="0 4 * * *"), FUTURE, "ann")
    assert await store.schedule(nightly(), FUTURE, None) is False
    assert ((await only(place)).cron, (await only(place)).declared) == ("0 4 * * *", False)


async def test_what_code_has_given_up_goes_and_nothing_else(place: Place) -> None:
    store = place.store
    for name, topic, by in (("kept", "t", None), ("gone", "t", None), ("foreign", "u", None), ("by-hand", "t", "ann")):
        await store.schedule(nightly(name=name, topic=topic), FUTURE, by)
    assert await store.retire(["t"], ["kept"]) == ["gone"]
    assert [each.name for each in (await store.schedules()).schedules] == ["by-hand", "foreign", "kept"]


async def test_a_tick_is_a_job_and_the_next_tick_in_one_step(place: Place) -> None:
    await place.store.schedule(nightly(priority=2, max_attempts=4, concurrency_key="k"), PAST, "ann")
    record = await only(place)
    job = job_of(record, PAST)
    assert await place.store.fire(record, FUTURE, PAST, [job]) is True
    row = await place.row(job.id)
    assert (row.topic, row.priority, row.max_attempts, row.concurrency_key) == ("t", 2, 4, "k")
    assert row.payload == row.metadata == {"schedule": "nightly", "tick": PAST.isoformat()}
    assert (row.available_at, row.idempotency_key) == (PAST, f"brooq cron nightly {PAST.isoformat()}")
    after = await only(place)
    assert (after.next_at, after.last_at, after.last_job) == (FUTURE, PAST, job.id)


async def test_whoever_read_the_same_tick_later_makes_no_second_job(place: Place) -> None:
    await place.store.schedule(nightly(payload=[1]), PAST, "ann")
    record = await only(place)
    answers = await asyncio.gather(*(place.store.fire(record, FUTURE, PAST, [job_of(record, PAST)]) for _ in range(12)))
    assert sorted(answers) == [False] * 11 + [True]
    assert await place.ground.count() == 1
    assert [each.payload.replace(" ", "") for each in await place.claim()] == ["[1]"]


async def test_a_tick_that_comes_again_makes_no_second_job(place: Place) -> None:
    """The clock was set back, and the schedule with it; the job of the tick may be done by now."""
    await place.store.schedule(nightly(), PAST, "ann")
    record = await only(place)
    assert await place.store.fire(record, PAST, PAST, [job_of(record, PAST)]) is True
    again = await only(place)
    later = PAST + HOUR
    assert await place.store.fire(again, FUTURE, later, [job_of(again, PAST), job_of(again, later)]) is True
    assert await place.ground.count() == 2


async def test_a_last_tick_ahead_of_the_clock_is_looked_at_too(place: Place) -> None:
    await place.store.schedule(nightly(), PAST, "ann")
    assert await place.store.fire(await only(place), FUTURE, FUTURE - HOUR, []) is True
    assert [each.name for each in (await place.store.schedules(due=True)).schedules] == ["nightly"]


async def test_a_paused_schedule_ticks_for_nobody_and_goes_on_where_it_is_told(place: Place) -> None:
    store = place.store
    assert await store.hold_schedule("nightly", "ann", paused=True, next_at=None) is False
    await store.schedule(nightly(), PAST, "ann")
    before = await only(place)
    assert await store.hold_schedule("nightly", "bob", "why", paused=True, next_at=None) is True
    assert await store.hold_schedule("nightly", "bob", paused=True, next_at=None) is False
    record = await only(place)
    assert (record.paused, record.paused_by) == (True, "bob")
    assert (await store.schedules(due=True)).schedules == []
    assert (await store.schedules(due=True)).next_at is None
    assert await store.fire(before, FUTURE, PAST, [job_of(before, PAST)]) is False
    assert await store.hold_schedule("nightly", "bob", paused=False, next_at=FUTURE) is True
    assert ((await only(place)).paused, (await only(place)).next_at) == (False, FUTURE)
    assert await place.ground.count() == 0


async def test_an_open_transaction_with_the_tick_s_key_is_waited_for(place: Place) -> None:
    """As any enqueue waits: the answer has to be right whether it commits or not."""
    await place.store.schedule(nightly(), PAST, "ann")
    record = await only(place)
    rival = job_of(record, PAST)
    tx = await place.begin()
    await place.store.enqueue(tx, [rival])
    async with place.waiting(place.store.fire(record, FUTURE, PAST, [job_of(record, PAST)])) as firing:
        await tx.commit()
        assert await firing is True
    assert await place.ground.count() == 1


async def test_the_trail_names_what_was_done_to_schedules(place: Place) -> None:
    ground = place.ground
    if not isinstance(ground, PostgresGround):
        pytest.skip("the store in memory keeps no trail")
    ((last,),) = await ground.execute("select coalesce(max(id), 0) from brooq_operation")
    await place.store.schedule(nightly(name="of-code"), FUTURE, None)
    await place.store.schedule(nightly(), FUTURE, "ann", "why")
    await place.store.hold_schedule("nightly", "bob", paused=True, next_at=None)
    await place.store.hold_schedule("nightly", "bob", paused=False, next_at=FUTURE)
    await place.store.unschedule("nightly", "cid")
    rows = await ground.execute("select id, actor, action, topic, found, reason from brooq_operation order by id")
    assert [row[1:] for row in rows if row[0] > last] == [
        ("ann", "schedule", "t", "set nightly", "why"),
        ("bob", "schedule", "t", "paused nightly", None),
        ("bob", "schedule", "t", "resumed nightly", None),
        ("cid", "schedule", "t", "removed nightly", None),
    ]


async def test_jobs_beside_the_ticks_have_no_key(place: Place) -> None:
    await place.store.schedule(nightly(), FUTURE, "ann")
    record = await only(place)
    jobs = [job_of(record, None), job_of(record, None)]
    await place.enqueue(*jobs)
    assert [each.payload for each in [await place.row(job.id) for job in jobs]] == [{"schedule": "nightly"}] * 2
