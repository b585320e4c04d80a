"""Asking whether something was enqueued, and what the failure shows."""

from __future__ import annotations

import pytest

from brooq import Job, Queue
from brooq.testing import MemoryStore, assert_enqueued, assert_not_enqueued


@pytest.fixture
async def queue() -> Queue:
    queue = Queue(MemoryStore())
    await queue.enqueue_many(
        [Job("email", {"to": "a"}, idempotency_key="1"), Job("email", {"to": "b"}, priority=3), Job("report", None)]
    )
    return queue


async def test_what_is_there_is_found_and_answered(queue: Queue) -> None:
    assert isinstance(queue.store, MemoryStore)
    assert len(assert_enqueued(queue, "email")) == 2
    (record,) = assert_enqueued(queue.store, "email", payload={"to": "a"}, count=1, idempotency_key="1")
    assert record.idempotency_key == "1"
    assert_enqueued(queue.store.jobs, "email", priority=3)
    assert_enqueued(queue, "report", payload=None)
    assert_not_enqueued(queue, "email", payload={"to": "c"})
    assert_enqueued(queue, "nothing", count=0)


async def test_what_is_not_there_is_told_with_what_is(queue: Queue) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(queue, "email", payload={"to": "c"})
    said = str(caught.value)
    assert said.startswith("jobs of email, payload={'to': 'c'}: wanted ≥ 1, found 0.")
    assert "payload={'to': 'a'}" in said
    assert "payload={'to': 'b'}" in said
    assert "(report)" in said


@pytest.mark.parametrize(("count", "found"), [(1, 2), (3, 2), (0, 2)])
async def test_a_wrong_count_fails(queue: Queue, count: int, found: int) -> None:
    with pytest.raises(AssertionError, match=f"wanted {count}, found {found}"):
        assert_enqueued(queue, "email", count=count)


async def test_a_field_that_does_not_exist_and_a_topic_that_cannot_are_told(queue: Queue) -> None:
    with pytest.raises(TypeError, match="no key"):
        assert_enqueued(queue, "email", key="1")
    with pytest.raises(ValueError, match="topic"):
        assert_enqueued(queue, "E-mail")


async def test_an_empty_store_shows_that_it_is(queue: Queue) -> None:
    with pytest.raises(AssertionError, match=r"found 0\. There are:\n  -"):
        assert_enqueued([], "email")
