"""The contract of `pause`, `resume` and `topics`: what people set for a topic is valid for every claim (requirement B1)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.store_contract.place import HOUR, Place, PostgresGround, now

from brooq import Job, State, TopicError, TopicRecord
from brooq.engine.outcome import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_nothing_is_claimed_from_a_paused_topic_until_it_is_resumed(place: Place) -> None:
    shut, other = await place.enqueue(Job("t"), Job("u"))
    assert await place.store.pause("t", "ann", "the mail server is down") is True
    assert [each.id for each in await place.claim(10, ["t", "u"])] == [other]
    assert (await place.row(shut)).state is State.PENDING
    late = await place.job()  # enqueues go on
    assert await place.claim() == []
    assert await place.store.resume("t", "bob") is True
    assert [each.id for each in await place.claim()] == [shut, late]


async def test_what_runs_in_a_paused_topic_goes_on(place: Place) -> None:
    first, second = await place.take(), await place.take()
    await place.store.pause("t", "ann")
    assert (await place.renew(first.hold)).renewed == [first.hold]
    exchange = await place.store.exchange(
        "worker", [Outcome(first.id, first.token, State.FAILED, "no", 0.0)], ["t"], 10, HOUR
    )
    assert (exchange.settled, exchange.taken) == ([first.hold], [])
    assert await place.settle(Outcome(second.id, second.token, State.DONE))
    assert await place.claim() == []


async def test_the_first_pause_stays_and_the_answers_say_who_did_what(place: Place) -> None:
    before = now()
    assert await place.store.resume("t", "bob") is False
    assert await place.store.pause("t", "ann", "first") is True
    assert await place.store.pause("t", "bob", "second") is False
    (found,) = await place.store.topics()
    assert (found.topic, found.paused, found.paused_by, found.pause_reason) == ("t", True, "ann", "first")
    assert found.paused_at is not None
    assert before - timedelta(seconds=1) <= found.paused_at <= now() + timedelta(seconds=1)
    assert await place.store.resume("t", "bob") is True
    assert await place.store.resume("t", "bob") is False
    assert await place.store.topics() == [TopicRecord("t")]


async def test_an_impossible_topic_cannot_be_paused(place: Place) -> None:
    for verb in (place.store.pause, place.store.resume):
        with pytest.raises(TopicError):
            await verb("No Such", "ann")
    assert await place.store.topics() == []


async def test_two_pauses_at_one_time_are_one(place: Place) -> None:
    answers = await asyncio.gather(*(place.store.pause("t", f"p{number}") for number in range(8)))
    assert sorted(answers) == [False] * 7 + [True]


async def test_the_trail_names_every_pause_and_resume(place: Place) -> None:
    ground = place.ground
    if not isinstance(ground, PostgresGround):
        pytest.skip("the store in memory keeps no trail")
    ((last,),) = await ground.execute("select coalesce(max(id), 0) from brooq_operation")
    await place.store.pause("t", "ann", "why")
    await place.store.pause("t", "bob")
    await place.store.resume("t", "cid", "over")
    rows = await ground.execute(
        "select id, actor, action, job, topic, found, done, reason from brooq_operation order by id"
    )
    assert [row[1:] for row in rows if row[0] > last] == [
        ("ann", "pause", None, "t", "open", True, "why"),
        ("bob", "pause", None, "t", "paused", False, None),
        ("cid", "resume", None, "t", "paused", True, "over"),
    ]
