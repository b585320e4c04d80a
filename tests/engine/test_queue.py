"""The facade: kinds, start and stop, and what producers see."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.engine.parts import memory, queue, row, until, until_state
from tests.simulation.virtual import virtual

from brooq.engine.queue import Queue
from brooq.testing import MemoryStore
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.error import ConfigError, SchemaError, TopicError
from brooq.vocabulary.event import Event, JobCanceled, JobClaimed, JobDead, JobDone, JobFailed
from brooq.vocabulary.job import Job, State
from brooq.vocabulary.kind import KindOptions


async def nothing(_: Claim) -> None:
    """Succeeds."""


class Callable_:  # noqa: N801
    """An object whose call is asynchronous."""

    async def __call__(self, _: Claim) -> None:
        """Succeeds."""


def test_constructing_and_registering_start_nothing() -> None:
    before = threading.enumerate()
    made = Queue(MemoryStore())
    made.register_kind("t", nothing)
    assert threading.enumerate() == before
    assert made.health().running is False
    assert made.health().well is False
    assert made.busy() == {}
    assert list(made.kinds) == ["t"]


@virtual
async def test_constructing_in_a_loop_makes_no_task() -> None:
    before = asyncio.all_tasks()
    made = Queue(memory())
    made.register_kind("t", nothing)
    await made.enqueue(Job("t"))
    assert asyncio.all_tasks() == before
    await made.stop()
    await made.close()


@pytest.mark.parametrize(
    "handler", [nothing, Callable_(), functools.partial(nothing)], ids=["function", "object", "partial"]
)
def test_an_async_callable_is_a_handler(handler: Any) -> None:
    Queue(MemoryStore()).register_kind("t", handler)


def generates(_: Claim) -> Iterator[None]:
    yield


async def generates_async(_: Claim) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    "handler", [lambda _: None, print, functools.partial(print, 1)], ids=["lambda", "print", "partial"]
)
def test_a_plain_callable_is_a_handler(handler: Any) -> None:
    """K3."""
    Queue(MemoryStore()).register_kind("t", handler)


@pytest.mark.parametrize(
    "handler",
    [None, 3, Callable_, generates, generates_async, lambda: None, lambda claim, more: None],
    ids=["None", "3", "class", "generator", "async generator", "no argument", "two arguments"],
)
def test_anything_else_is_refused_at_once(handler: Any) -> None:
    with pytest.raises(ConfigError, match="t"):
        Queue(MemoryStore()).register_kind("t", handler)


def test_every_problem_of_a_kind_is_told_at_once() -> None:
    made = Queue(MemoryStore())
    made.register_kind("t", nothing)
    with pytest.raises(ConfigError) as caught:
        made.register_kind("t", generates, KindOptions(max_attempts=0, attempt_timeout=9, max_execution_timeout=8))
    assert len(caught.value.problems) == 4
    assert all("t" in problem for problem in caught.value.problems)


def test_a_topic_is_checked() -> None:
    with pytest.raises(TopicError):
        Queue(MemoryStore()).register_kind("No Topic", nothing)


def test_the_decorator_leaves_the_handler_as_it_is() -> None:
    made = Queue(MemoryStore())
    assert made.kind("t", max_attempts=7)(nothing) is nothing
    assert made.kinds["t"].options.max_attempts == 7
    assert made.kinds["t"].options.attempt_timeout == 60


@virtual
async def test_a_kind_is_not_registered_while_the_queue_runs() -> None:
    made = queue(memory(), nothing)
    async with made:
        with pytest.raises(ConfigError):
            made.register_kind("late", nothing)
    made.register_kind("late", nothing)


@virtual
async def test_it_starts_once_at_a_time_and_again_after_a_stop() -> None:
    store = memory()
    made = queue(store, nothing)
    answers = await asyncio.gather(made.start(), made.start(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), ConfigError]
    with pytest.raises(ConfigError):
        await made.start()
    await made.stop()
    await made.stop()
    async with made:
        await made.enqueue(Job("t"))
        await until_state(store, State.DONE)


class Slow(MemoryStore):
    """Its schema takes time to check."""

    async def open(self) -> None:
        await asyncio.sleep(1)


@virtual
async def test_two_starts_at_one_time_are_one() -> None:
    made = queue(Slow(), nothing)
    answers = await asyncio.gather(made.start(), made.start(), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["ConfigError", "NoneType"]
    await made.close()
    assert len(asyncio.all_tasks()) == 1


class Old(MemoryStore):
    """Its schema is not the one."""

    async def open(self) -> None:
        raise SchemaError("older")


@virtual
async def test_a_start_that_is_refused_leaves_nothing() -> None:
    made = queue(Old(), nothing)
    with pytest.raises(SchemaError):
        await made.start()
    assert len(asyncio.all_tasks()) == 1
    assert not made.health().running


@virtual
async def test_a_stop_leaves_no_task() -> None:
    made = queue(memory(), nothing)
    for _ in range(3):
        await made.start()
        await asyncio.sleep(1)
        await made.stop()
        assert len(asyncio.all_tasks()) == 1


@virtual
async def test_a_stop_that_is_given_up_leaves_no_task_either() -> None:
    async def handler(_: Claim) -> None:
        await asyncio.sleep(1000)

    store = memory()
    made = queue(store, handler, KindOptions(attempt_timeout=5000, max_execution_timeout=5000))
    await made.start()
    await made.enqueue(Job("t"))
    await until_state(store, State.PROCESSING)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await made.stop(100)
    await asyncio.sleep(0)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if name.startswith("brooq")}
    await asyncio.sleep(4)
    await store.reap(10)
    assert row(store).state is State.PENDING


@virtual
async def test_a_stop_that_is_given_up_at_its_last_word_is_whole() -> None:
    """Whoever asks again does not wait for what has ended already."""

    class Mute(MemoryStore):
        saying = False

        async def withdraw(self, worker: str) -> None:
            self.saying = True
            await asyncio.sleep(60)

    store = Mute(memory().clock)
    made = queue(store, nothing)
    await made.start()
    stopping = asyncio.ensure_future(made.stop())
    await until(lambda: store.saying)
    stopping.cancel()
    await asyncio.wait([stopping])
    assert stopping.cancelled()
    async with asyncio.timeout(1):
        await made.stop()
    assert not made.health().running
    await made.start()
    await made.close()


@pytest.mark.fault(25)
@virtual
async def test_a_topic_without_a_kind_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Fault 25."""
    store = memory()
    made, empty = queue(store, nothing), queue(store)
    async with made, empty:
        await made.enqueue(Job("other"))
        await asyncio.sleep(5)
        assert (row(store).state, row(store).attempts) == (State.PENDING, 0)
        await made.take_census()
        assert made.metrics.census is not None
        assert made.metrics.census.oldest["other"] == pytest.approx(5, abs=0.1)
        assert made.health().well
        assert empty.health().well
    assert "register_kind" in caplog.text


@virtual
async def test_events_tell_the_story() -> None:
    async def handler(claim: Claim) -> None:
        await asyncio.sleep(1)
        if claim.attempt < 3 or claim.payload == "bad":
            raise ValueError("not yet")

    store, events = memory(), list[Event]()
    made = queue(store, handler, KindOptions(max_attempts=3))
    made.listen(events.append)
    async with made:
        good = await made.enqueue(Job("t", "good"))
        await until_state(store, State.DONE)
        bad = await made.enqueue(Job("t", "bad"))
        await until(lambda: isinstance(events[-1], JobDead))
    told = [(type(event), event.id) for event in events]
    story = [JobClaimed, JobFailed, JobClaimed, JobFailed, JobClaimed]
    assert told == [(kind, good.id) for kind in (*story, JobDone)] + [(kind, bad.id) for kind in (*story, JobDead)]
    done = events[5]
    assert isinstance(done, JobDone)
    assert (done.attempt, done.token) == (3, 3)
    assert done.seconds == pytest.approx(1)
    failed = events[1]
    assert isinstance(failed, JobFailed)
    assert failed.error == "ValueError: not yet"


@virtual
async def test_cancel_answers_what_it_found() -> None:
    store, events = memory(), list[Event]()
    made = queue(store, nothing)
    made.listen(events.append)
    id = (await made.enqueue(Job("t"))).id
    first, second, unknown = await made.cancel(str(id)), await made.cancel(id), await made.cancel(Job("t").id)
    assert (first.canceled, first.state) == (True, State.PENDING)
    assert (second.canceled, second.state) == (False, State.CANCELED)
    assert (unknown.canceled, unknown.state) == (False, None)
    assert events == [JobCanceled(id, "t")]


@virtual
async def test_find_tells_a_jobs_fate() -> None:
    made = queue(memory(), nothing)
    answer = await made.enqueue(Job("t", {"a": 1}))
    found = await made.find(str(answer.id))
    assert found is not None
    assert (found.payload, found.state) == ({"a": 1}, State.PENDING)
    assert await made.find(Job("t").id) is None


@virtual
async def test_an_enqueue_in_a_transaction_is_seen_at_its_commit() -> None:
    store = memory()
    made = queue(store, nothing)
    async with made:
        tx = await made.begin()
        answers = await made.enqueue_many_tx(tx, [Job("t"), Job("t")])
        assert [answer.created for answer in answers] == [True, True]
        await asyncio.sleep(3)
        assert not store.jobs
        await tx.commit()
        await until(lambda: [job.state for job in store.jobs] == [State.DONE] * 2)
        tx = await made.begin()
        await made.enqueue_tx(tx, Job("t"))
        await tx.rollback()
        assert len(store.jobs) == 2


@virtual
async def test_an_enqueue_here_does_not_wait_for_the_poll() -> None:
    store = memory()
    async with queue(store, nothing, poll_interval=1000) as made:
        await asyncio.sleep(1)
        await made.enqueue(Job("t"))
        await until_state(store, State.DONE, 0.1)
