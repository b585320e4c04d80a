"""Plain numbers with bounded labels, and listeners that cannot do harm."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from brooq.engine.listeners import Listeners
from brooq.engine.metrics import BUCKETS, MAX_FOREIGN, OTHER, Histogram, Metrics
from brooq.engine.store import Census, Depth
from brooq.vocabulary.event import Event, JobRequeued
from brooq.vocabulary.job import State

EVENT = JobRequeued(UUID(int=1), "a")


def census(*topics: str) -> Census:
    return Census([Depth(topic, State.PENDING, 2, True) for topic in topics], dict.fromkeys(topics, 5.0))


def test_a_known_topic_has_every_series_from_the_start() -> None:
    metrics = Metrics(["a"])
    for counter in (metrics.claimed, metrics.lease_lost, metrics.hung, metrics.requeued, metrics.deleted):
        assert dict(counter) == {"a": 0}
    assert metrics.attempt_seconds["a"].count == metrics.pickup_seconds["a"].count == 0


def test_foreign_topics_share_one_label() -> None:
    metrics = Metrics(["a"])
    assert [metrics.label(topic) for topic in ("a", "b", "c")] == ["a", OTHER, OTHER]


@pytest.mark.fault(48)
def test_a_drained_topic_falls_to_zero() -> None:
    """Fault 48."""
    metrics = Metrics(["a"])
    metrics.set_census(census("a"), 1.0)
    metrics.set_census(Census([], {}), 2.0)
    assert metrics.census is not None
    assert {(depth.topic, depth.state): depth.jobs for depth in metrics.census.depths} == {
        ("a", state): 0 for state in State
    }
    assert metrics.census.oldest == {"a": 0.0}
    assert metrics.census_at == 2.0


@pytest.mark.fault(48)
def test_thousands_of_foreign_topics_become_one() -> None:
    """Fault 48."""
    metrics = Metrics(["a"])
    metrics.set_census(census("a", *(f"x{number}" for number in range(5000))), 1.0)
    assert metrics.census is not None
    assert {depth.topic for depth in metrics.census.depths} == {"a", OTHER}
    assert sum(depth.jobs for depth in metrics.census.depths if depth.topic == OTHER) == 10_000
    assert metrics.census.oldest == {"a": 5.0, OTHER: 5.0}


@pytest.mark.fault(25)
def test_a_few_foreign_topics_keep_their_names() -> None:
    """Fault 25: the operator sees what nobody works on."""
    metrics = Metrics(["a"])
    names = [f"x{number}" for number in range(MAX_FOREIGN)]
    metrics.set_census(census(*names), 1.0)
    assert metrics.census is not None
    assert {depth.topic for depth in metrics.census.depths} == {"a", *names}


def test_an_estimate_stays_one() -> None:
    metrics = Metrics(["a"])
    metrics.set_census(Census([Depth("a", State.DONE, 10, False), Depth("b", State.DONE, 1, True)], {}), 1.0)
    assert metrics.census is not None
    inexact = [(depth.topic, depth.state) for depth in metrics.census.depths if not depth.exact]
    assert inexact == [("a", State.DONE)]


def test_a_histogram_counts_by_bucket() -> None:
    histogram = Histogram()
    for seconds in (0.0, BUCKETS[0], 0.7, BUCKETS[-1], 1e6):
        histogram.add(seconds)
    assert histogram.counts[0] == 2
    assert histogram.counts[BUCKETS.index(1.0)] == 1
    assert histogram.counts[-2:] == [1, 1]
    assert histogram.count == 5
    assert histogram.sum == pytest.approx(1_000_300.701)


def test_a_listener_that_raises_is_logged_and_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def broken(_: Event) -> None:
        raise ValueError("a listener")

    listeners = Listeners()
    assert not listeners
    for listener in (broken, heard.append, broken, heard.append):
        listeners.add(listener)
    assert listeners
    listeners.emit(EVENT)
    assert heard == [EVENT, EVENT]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "JobRequeued" in caplog.text
