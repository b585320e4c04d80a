"""Samples are differences: each thing is told once, and what is quiet is not told at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from brooq.engine.metrics import Metrics
from brooq.engine.runtime import Runtime
from brooq.engine.sampler import MAX_FOREIGN, Sampler, rare
from brooq.engine.store import Census, Depth, Sample
from brooq.testing import MemoryStore
from brooq.vocabulary.error import SchemaError, StoreUnavailable
from brooq.vocabulary.job import State


class Collecting(MemoryStore):
    """Keeps what it is told, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Sequence[Sample]] = []
        self.failure: Exception | None = None

    async def sample(self, samples: Sequence[Sample], elapsed: float) -> None:
        if self.failure is not None:
            raise self.failure
        self.told.append(samples)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(["mail"])


async def test_each_tick_tells_what_is_new(metrics: Metrics) -> None:
    store = Collecting()
    sampler = Sampler(store, metrics, Runtime())
    metrics.settled["mail", "done"] += 3
    metrics.settled["mail", "failed"] += 1
    metrics.attempt_seconds["mail"].add(0.5)
    metrics.pickup_seconds["mail"].add(0.02)
    metrics.pickup_seconds["mail"].add(0.02)
    metrics.set_census(Census([Depth("mail", State.PENDING, 7, True), Depth("mail", State.FAILED, 2, True)], {}), 0.0)
    await sampler.tick()
    metrics.settled["mail", "done"] += 1
    await sampler.tick()
    (first,), (second,) = store.told
    assert (first.done, first.failed, first.attempts, first.ran, first.claimed) == (3, 1, 1, 0.5, 2)
    assert first.waited == pytest.approx(0.04)
    assert first.waited_p95 == 0.025
    assert (first.waiting, first.processing) == (9, 0)
    assert (second.done, second.failed, second.attempts, second.claimed, second.waiting) == (1, 0, 0, 0, 9)


async def test_a_topic_that_falls_quiet_is_told_once_more_and_then_no_longer(metrics: Metrics) -> None:
    store = Collecting()
    sampler = Sampler(store, metrics, Runtime())
    await sampler.tick()
    metrics.settled["mail", "done"] += 1
    for _ in range(3):
        await sampler.tick()
    assert [[sample.done for sample in samples] for samples in store.told] == [[1], [0]]


async def test_what_could_not_be_sent_goes_with_the_next_tick(metrics: Metrics) -> None:
    store = Collecting()
    sampler = Sampler(store, metrics, Runtime())
    metrics.settled["mail", "done"] += 1
    store.failure = StoreUnavailable("no answer")
    with pytest.raises(StoreUnavailable):
        await sampler.tick()
    store.failure = None
    metrics.settled["mail", "done"] += 1
    await sampler.tick()
    assert [sample.done for sample in store.told[0]] == [2]


async def test_a_table_that_is_missing_is_told_once_and_hinders_nothing(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    store = Collecting()
    sampler = Sampler(store, metrics, Runtime())
    store.failure = SchemaError("no such table")
    for _ in range(3):
        metrics.settled["mail", "done"] += 1
        await sampler.tick()
    assert [record.getMessage() for record in caplog.records if "no such table" in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]


async def test_depths_of_other_workers_topics_are_told_while_they_are_few(metrics: Metrics) -> None:
    store = Collecting()
    sampler = Sampler(store, metrics, Runtime())
    metrics.census = Census([Depth(f"foreign{n:02}", State.PENDING, 1, True) for n in range(50)], {})
    await sampler.tick()
    assert len(store.told[0]) == MAX_FOREIGN
    metrics.census = Census([Depth("_other", State.PENDING, 9, True)], {})
    await sampler.tick()
    assert "_other" not in {sample.topic for samples in store.told for sample in samples}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0] * 17, 0.0),
        ([100] + [0] * 16, 0.001),
        ([95, 5] + [0] * 15, 0.001),
        ([94, 6] + [0] * 15, 0.0025),
        ([0] * 16 + [1], 300.0),
    ],
)
def test_what_one_in_twenty_exceeds(counts: list[int], expected: float) -> None:
    assert rare(counts) == expected
