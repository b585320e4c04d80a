"""UUIDv7: version, variant, time, and the order within a process whatever the clock does."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from uuid import UUID

import pytest

from brooq.vocabulary import identifier
from brooq.vocabulary.identifier import uuid7


def test_it_is_a_uuid_of_version_7_that_holds_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid7()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    # Earlier ids of this process may have run ahead of the clock by a little.
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1000


def test_ids_of_many_threads_differ_and_each_thread_sees_its_own_in_order() -> None:
    made: list[list[UUID]] = [[] for _ in range(8)]

    def make(into: list[UUID]) -> None:
        into.extend(uuid7() for _ in range(2000))

    threads = [threading.Thread(target=make, args=[each]) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == sorted(each) for each in made)
    assert len({id for each in made for id in each}) == 16_000


def test_a_clock_that_steps_back_does_not_break_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    readings = iter([now, now, now - 3_600_000_000_000, now - 1, now + 1_000_000])
    monkeypatch.setattr("brooq.vocabulary.identifier.time.time_ns", lambda: next(readings))
    ids = [uuid7() for _ in range(5)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 5


def test_it_is_like_any_other_uuid() -> None:
    made = uuid7()
    twin = UUID(str(made))
    assert (made, hash(made), repr(made)) == (twin, hash(twin), repr(twin))
    assert made.is_safe is twin.is_safe
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made  # noqa: S301  our own


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_random_bits_and_a_lock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both make their next ids at the same moment, while a thread of the parent holds the lock."""
    now = time.time_ns() + 1_000_000_000
    monkeypatch.setattr("brooq.vocabulary.identifier.time.time_ns", lambda: now)
    uuid7()  # there are random bits in store
    reader, writer = os.pipe()
    with identifier._lock:
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, uuid7().bytes + uuid7().bytes)
            finally:
                os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    theirs = [UUID(bytes=told[:16]), UUID(bytes=told[16:])]
    ours = [uuid7(), uuid7()]
    assert [each.int >> 64 for each in ours] == [each.int >> 64 for each in theirs], "the same moments"
    assert not set(ours) & set(theirs)
