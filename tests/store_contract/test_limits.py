"""The contract of `claim_limited`, `limit` and `declare`: limits hold over all workers (requirements B2 to B5)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.store_contract.place import HOUR, LEASE, WORKER, Place, PostgresGround, now

from brooq import Job, Limits, State, TopicError
from brooq.engine.outcome import Outcome
from brooq.engine.store import Taken
from brooq.postgres import limited
from brooq.vocabulary.error import StoreBusy

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def claim(place: Place, limit: int = 10, topic: str = "t", worker: str = WORKER) -> list[Taken]:
    return (await place.store.claim_limited(worker, topic, limit, LEASE)).taken


async def ended(place: Place, taken: Taken, state: State = State.DONE, delay: float | None = None) -> None:
    assert await place.write(Outcome(taken.id, taken.token, state, "no" if state is State.FAILED else None, delay))


def ids(taken: Sequence[Taken]) -> list[UUID]:
    return [each.id for each in taken]


async def set_limits(place: Place, limits: Limits, topic: str = "t") -> None:
    assert await place.store.limit(topic, limits, "ann") is True


# --- what is left to it ---


async def test_an_exchange_leaves_limited_topics_to_claims_of_their_own_and_names_those_with_jobs(place: Place) -> None:
    for topic in ("t", "idle"):
        await set_limits(place, Limits(max_running=5), topic)
    job, other = await place.enqueue(Job("t"), Job("u"))
    exchange = await place.store.exchange(WORKER, [], ["t", "u", "idle"], 10, LEASE)
    assert (ids(exchange.taken), exchange.limited) == ([other], ["t"])
    assert (await place.store.exchange(WORKER, [], ["u"], 10, LEASE)).limited == []
    assert ids(await claim(place)) == [job]
    assert (await place.store.exchange(WORKER, [], ["t", "u"], 10, LEASE)).limited == []


async def test_a_claim_within_limits_writes_what_every_claim_writes(place: Place) -> None:
    await set_limits(place, Limits(max_running=5))
    id = await place.job(payload={"a": [1.0, "ж"]}, max_attempts=3, available_at=now() - HOUR, metadata={"m": 1})
    (taken,) = await claim(place)
    assert (taken.id, taken.topic, taken.attempt, taken.token, taken.max_attempts) == (id, "t", 1, 1, 3)
    assert taken.payload.replace(" ", "") == '{"a":[1.0,"ж"]}'
    assert json.loads(taken.metadata or "") == {"m": 1}
    assert 3600 <= taken.waited < 3700
    row = await place.row(id)
    assert (row.state, row.attempts, row.claim_seq) == (State.PROCESSING, 1, 1)
    assert (row.locked_by, row.locked_until) == (WORKER, taken.until)


async def test_they_come_by_priority_then_readiness_then_enqueueing(place: Place) -> None:
    early, late = now() - HOUR, now() - HOUR / 2
    expected = await place.enqueue(
        Job("t", 0, available_at=late),
        Job("t", 1, available_at=late, concurrency_key="k"),
        Job("t", 2, priority=1, available_at=early),
        Job("t", 3, priority=1, available_at=late, concurrency_key="k"),
        Job("t", 4, priority=9, available_at=early - HOUR, concurrency_key="l"),
    )
    await place.job(available_at=now() + HOUR)
    await set_limits(place, Limits(max_running=9, max_running_per_key=2))
    assert ids(await claim(place, 2)) == expected[:2]
    assert ids(await claim(place)) == expected[2:]


async def test_nothing_is_claimed_from_a_limited_topic_that_is_paused(place: Place) -> None:
    await set_limits(place, Limits(max_running=5))
    job = await place.job()
    await place.store.pause("t", "ann")
    assert (await place.store.exchange(WORKER, [], ["t"], 10, LEASE)).limited == []
    assert await claim(place) == []
    await place.store.resume("t", "ann")
    assert ids(await claim(place)) == [job]


# --- how many at one time ---


async def test_as_many_jobs_of_a_topic_are_held_as_its_limit_whoever_holds_them(place: Place) -> None:
    jobs = await place.enqueue(*(Job("t", number) for number in range(6)))
    await set_limits(place, Limits(max_running=3))
    first = await claim(place, 2, worker="a")
    second = await claim(place, worker="b")
    assert ids([*first, *second]) == jobs[:3]
    assert await claim(place, worker="c") == []
    assert await place.write(Outcome(first[0].id, first[0].token, State.DONE), worker="a")
    assert ids(await claim(place, worker="c")) == jobs[3:4]
    await place.store.cancel(second[0].id)
    assert ids(await claim(place, worker="c")) == jobs[4:5]


async def test_the_job_of_a_dead_worker_counts_until_the_reaper_has_taken_it(place: Place) -> None:
    first, second = await place.enqueue(Job("t", 1), Job("t", 2))
    await set_limits(place, Limits(max_running=1))
    assert ids(await claim(place, worker="dead")) == [first]
    await place.expire(first)
    assert await claim(place) == []
    assert ids_of(await place.store.reap(10)) == [first]
    assert ids(await claim(place)) == [second]


def ids_of(requeued: Sequence[object]) -> list[UUID]:
    return [each.id for each in requeued]  # type: ignore[attr-defined]


async def test_each_key_has_a_limit_of_its_own_and_jobs_without_a_key_have_none(place: Place) -> None:
    a1, a2, a3, b1, free, b2 = await place.enqueue(
        *(Job("t", number, concurrency_key=key) for number, key in enumerate(["a", "a", "a", "b", "", "b"]))
    )
    await place.job("u", concurrency_key="a")  # another topic's key is another key
    await set_limits(place, Limits(max_running_per_key=2))
    taken = await claim(place)
    assert ids(taken) == [a1, a2, b1, free, b2]
    assert await claim(place) == []
    await ended(place, taken[1])
    assert ids(await claim(place)) == [a3]


async def test_claims_at_one_time_keep_the_limits_exactly(place: Place) -> None:
    jobs = await place.enqueue(*(Job("t", number, concurrency_key=f"k{number % 3}") for number in range(60)))
    await set_limits(place, Limits(max_running=7, max_running_per_key=3))
    left = set(jobs)
    while left:
        answers = await asyncio.gather(
            *(claim(place, 4, worker=f"w{number}") for number in range(8)), return_exceptions=True
        )
        # Whoever waited too long for the others' claims has claimed nothing, and says so.
        assert all(isinstance(answer, (list, StoreBusy)) for answer in answers), answers
        found = [[] if isinstance(answer, BaseException) else answer for answer in answers]
        taken = [(f"w{number}", each) for number, batch in enumerate(found) for each in batch]
        rows = [await place.row(each.id) for _, each in taken]
        assert 0 < len(taken) <= 7
        assert max(Counter(row.concurrency_key for row in rows).values()) <= 3
        assert len({each.id for _, each in taken}) == len(taken)
        for worker, each in taken:
            assert await place.write(Outcome(each.id, each.token, State.DONE), worker=worker)
            left.remove(each.id)


# --- order ---


async def test_an_ordered_key_runs_its_jobs_one_after_the_other_in_the_order_of_enqueueing(place: Place) -> None:
    """Whatever their priority says."""
    jobs = await place.enqueue(*(Job("t", number, concurrency_key="k", priority=9 - number) for number in range(4)))
    await set_limits(place, Limits(ordered=True))
    for job in jobs:
        taken = await claim(place)
        assert ids(taken) == [job]
        assert await claim(place) == []
        await ended(place, taken[0])


async def test_a_job_that_waits_for_its_retry_holds_up_its_line_and_no_other(place: Place) -> None:
    first, other, second = await place.enqueue(
        Job("t", concurrency_key="k"), Job("t", concurrency_key="l"), Job("t", concurrency_key="k")
    )
    await set_limits(place, Limits(ordered=True))
    taken = await claim(place, 1)
    assert ids(taken) == [first]
    await ended(place, taken[0], State.FAILED, 3600.0)
    assert ids(await claim(place)) == [other]
    await place.alter(first, available_at=now() - HOUR)
    again = await claim(place)
    assert ids(again) == [first]
    await ended(place, again[0], State.DEAD)
    assert ids(await claim(place)) == [second]


async def test_a_job_given_back_or_reaped_keeps_its_place_in_the_line(place: Place) -> None:
    first, _ = await place.enqueue(Job("t", concurrency_key="k"), Job("t", concurrency_key="k"))
    await set_limits(place, Limits(ordered=True))
    (taken,) = await claim(place)
    assert await place.write(Outcome(first, taken.token, State.PENDING, delay=0.0, refund=1))
    assert ids(await claim(place)) == [first]
    await place.expire(first)
    await place.store.reap(10)
    assert ids(await claim(place)) == [first]


async def test_a_job_of_the_future_holds_up_the_line_behind_it(place: Place) -> None:
    _, free = await place.enqueue(Job("t", concurrency_key="k", available_at=now() + HOUR), Job("t"))
    await place.job(concurrency_key="k")
    await set_limits(place, Limits(ordered=True))
    assert ids(await claim(place)) == [free]


# --- rates ---


async def test_a_rate_lets_so_many_through_and_tells_when_the_next_may_come(place: Place) -> None:
    jobs = await place.enqueue(*(Job("t", number) for number in range(6)))
    await set_limits(place, Limits(rate=4, rate_period=HOUR))
    assert ids(await claim(place, 1)) == jobs[:1]
    found = await place.store.claim_limited(WORKER, "t", 10, LEASE)
    assert ids(found.taken) == jobs[1:4]
    assert found.wait is not None
    assert 800 < found.wait <= 900
    found = await place.store.claim_limited(WORKER, "t", 10, LEASE)
    assert (found.taken, found.more) == ([], False)
    assert found.wait is not None
    assert 800 < found.wait <= 900


async def test_tokens_come_back_evenly_and_no_more_than_a_period_has(place: Place) -> None:
    await place.enqueue(*(Job("t", number) for number in range(20)))
    await set_limits(place, Limits(rate=2, rate_period=0.2))
    assert len(await claim(place)) == 2
    began = asyncio.get_running_loop().time()
    more: list[Taken] = []
    while len(more) < 6:
        found = await place.store.claim_limited(WORKER, "t", 10, LEASE)
        more += found.taken
        assert len(found.taken) <= 2
        assert found.wait is not None or len(found.taken) < 2
        await asyncio.sleep(found.wait or 0)
    assert asyncio.get_running_loop().time() - began >= 0.4  # six tokens take 0.6 s; the last wait is not over


async def test_an_idle_claim_spends_no_token(place: Place) -> None:
    await set_limits(place, Limits(rate=1, rate_period=HOUR))
    assert await claim(place) == []
    job = await place.job()
    assert ids(await claim(place)) == [job]


async def test_limits_of_every_kind_hold_together(place: Place) -> None:
    await place.enqueue(*(Job("t", number, concurrency_key=f"k{number % 4}") for number in range(12)))
    await set_limits(place, Limits(max_running=3, max_running_per_key=1, rate=5, rate_period=HOUR))
    first = await claim(place)
    assert len(first) == 3
    for taken in first:
        await ended(place, taken)
    assert len(await claim(place)) == 2


# --- deep backlogs ---


async def test_what_stands_behind_a_busy_keys_backlog_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds so small that nothing fits into one look: other keys, and jobs without a key, in a few claims."""
    monkeypatch.setattr(limited, "WALK", 1)
    monkeypatch.setattr(limited, "KEYS", 2)
    monkeypatch.setattr(limited, "LINE", 2)
    busy = await place.job(concurrency_key="m", available_at=now() - 3 * HOUR)
    await set_limits(place, Limits(max_running_per_key=1))
    assert ids(await claim(place)) == [busy]
    await place.enqueue(*(Job("t", number, concurrency_key="m", available_at=now() - 2 * HOUR) for number in range(30)))
    names = ["a", "b", "c", "n", "o", "p", "z"]
    behind = await place.enqueue(*(Job("t", name, concurrency_key=name, available_at=now() - HOUR) for name in names))
    behind += await place.enqueue(
        *(Job("t", number, priority=number, available_at=now() - HOUR) for number in range(3))
    )
    await place.enqueue(
        *(Job("t", None, concurrency_key=f"future{number}", available_at=now() + HOUR) for number in range(5))
    )
    found: list[UUID] = []
    for _ in range(40):
        found += ids(await claim(place, 2))
    assert sorted(found) == sorted(behind)


async def test_an_ordered_line_behind_a_busy_one_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "WALK", 1)
    first, *_ = await place.enqueue(*(Job("t", number, concurrency_key="a") for number in range(10)))
    b1, _, c1 = await place.enqueue(*(Job("t", key, concurrency_key=key) for key in ("b", "b", "c")))
    await set_limits(place, Limits(ordered=True))
    assert ids(await claim(place, 1)) == [first]
    assert ids(await claim(place, 9)) == [b1, c1]


# --- who sets them ---


async def test_limits_set_by_hand_stand_above_what_code_declares(place: Place) -> None:
    store, code = place.store, Limits(max_running=4)
    await store.declare({"t": code, "u": None})
    assert [(each.topic, each.limits, each.limits_by) for each in await store.topics()] == [("t", code, None)]
    await set_limits(place, Limits(rate=3, rate_period=60.0))
    await store.declare({"t": Limits(max_running=5, ordered=True)})
    (found,) = await store.topics()
    assert (found.limits, found.limits_by) == (Limits(rate=3, rate_period=60.0), "ann")
    assert await store.limit("t", None, "ann") is True
    (found,) = await store.topics()
    assert (found.limits, found.limits_by) == (Limits(max_running=5, ordered=True), None)
    assert await store.limit("t", None, "ann") is False
    await store.declare({"t": None})
    (found,) = await store.topics()
    assert (found.limits, found.limits_by) == (Limits(), None)
    assert await store.limit("never-heard-of", None, "ann") is False


async def test_no_limits_set_by_hand_are_no_limits_whatever_code_declares(place: Place) -> None:
    await place.enqueue(Job("t"), Job("t"))
    await place.store.declare({"t": Limits(max_running=1)})
    await set_limits(place, Limits())
    assert len(await place.claim()) == 2


async def test_a_pause_and_limits_do_not_touch_each_other(place: Place) -> None:
    await set_limits(place, Limits(max_running=2))
    await place.store.pause("t", "ann", "why")
    await set_limits(place, Limits(max_running=3))
    await place.store.resume("t", "ann")
    (found,) = await place.store.topics()
    assert (found.limits, found.paused) == (Limits(max_running=3), False)


async def test_workers_that_start_at_one_time_declare_without_meeting(place: Place) -> None:
    kinds = {f"t{number}": Limits(max_running=number + 1) for number in range(8)}
    await asyncio.gather(*(place.store.declare(dict(reversed(kinds.items()) if n % 2 else kinds)) for n in range(8)))
    assert {each.topic: each.limits for each in await place.store.topics()} == kinds


async def test_an_impossible_topic_cannot_be_limited(place: Place) -> None:
    with pytest.raises(TopicError):
        await place.store.limit("No Such", Limits(max_running=1), "ann")


async def test_the_trail_tells_what_the_limits_were_and_are(place: Place) -> None:
    ground = place.ground
    if not isinstance(ground, PostgresGround):
        pytest.skip("the store in memory keeps no trail")
    ((last,),) = await ground.execute("select coalesce(max(id), 0) from brooq_operation")
    await set_limits(place, Limits(max_running=2))
    assert await place.store.limit("t", Limits(rate=1, rate_period=0.5), "bob", "too fast") is True
    assert await place.store.limit("t", None, "cid") is True
    assert await place.store.limit("t", None, "dan") is False
    rows = await ground.execute("select id, actor, action, topic, found, done, reason from brooq_operation order by id")
    assert [row[1:] for row in rows if row[0] > last] == [
        ("ann", "limit", "t", '{} -> {"max_running": 2}', True, None),
        ("bob", "limit", "t", '{"max_running": 2} -> {"rate": 1, "rate_period": 0.5}', True, "too fast"),
        ("cid", "limit", "t", '{"rate": 1, "rate_period": 0.5} -> {}', True, None),
        ("dan", "limit", "t", "{}", False, None),
    ]
