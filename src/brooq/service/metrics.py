"""The engine's numbers in Prometheus's words (requirement O1). Reads memory alone, never the database."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from brooq import __version__
from brooq.engine.metrics import BUCKETS, Histogram, Metrics
from brooq.engine.queue import Queue

OUTCOMES = ("done", "failed", "dead", "canceled", "requeued", "refused")
_COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("brooq_claimed", "claimed", "Jobs taken by this process."),
    ("brooq_lease_lost", "lease_lost", "Leases lost while their handler was running."),
    ("brooq_hung_workers", "hung", "Handlers that did not exit in time after their interruption."),
    ("brooq_requeued", "requeued", "Jobs with an expired lease that the reaper put back."),
    ("brooq_retention_deleted", "deleted", "Old terminal jobs that retention deleted."),
)


class EngineCollector(Collector):
    """Exposes whichever queue it watches. What has not been counted yet is left out: a guess of 0 would be a lie."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is the engine's."""
        self._clock = clock
        self._queue: Queue | None = None

    def watch(self, queue: Queue | None) -> None:
        """From now on this queue is meant."""
        self._queue = queue

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Every family."""
        info = {"version": __version__, "python": platform.python_version()}
        build = GaugeMetricFamily("brooq_build_info", "Which brooq runs here.", labels=list(info))
        build.add_metric(list(info.values()), 1)
        yield build
        queue = self._queue
        if queue is None:
            return
        metrics = queue.metrics
        for name, attribute, documentation in _COUNTERS:
            yield _counter(name, documentation, getattr(metrics, attribute))
        yield CounterMetricFamily(
            "brooq_retention_behind", "Ticks of retention that left old jobs for the next one.", value=metrics.behind
        )
        yield _settled(metrics)
        yield _histogram(
            "brooq_attempt_duration_seconds", "How long attempts ran, whatever their end.", metrics.attempt_seconds
        )
        yield _histogram(
            "brooq_pickup_delay_seconds",
            "From a job's readiness to its claim, by the database.",
            metrics.pickup_seconds,
        )
        busy = GaugeMetricFamily(
            "brooq_worker_busy", "Slots that are occupied now, hung handlers included.", labels=["topic"]
        )
        for topic, slots in {**dict.fromkeys(metrics.topics, 0), **queue.busy()}.items():
            busy.add_metric([topic], slots)
        yield busy
        yield from self._census(metrics)

    def _census(self, metrics: Metrics) -> Iterable[Metric]:
        census, at = metrics.census, metrics.census_at
        if census is None or at is None:
            return
        jobs = GaugeMetricFamily(
            "brooq_jobs", "Jobs in the table at the last census; huge numbers are estimates.", labels=["topic", "state"]
        )
        for depth in census.depths:
            jobs.add_metric([depth.topic, str(depth.state)], depth.jobs)
        yield jobs
        oldest = GaugeMetricFamily(
            "brooq_ready_oldest_age_seconds",
            "For how long the oldest ready job had waited at the last census; 0: none is ready.",
            labels=["topic"],
        )
        for topic, age in census.oldest.items():
            oldest.add_metric([topic], age)
        yield oldest
        suspects = GaugeMetricFamily(
            "brooq_suspect_jobs",
            "Held jobs whose earlier leases ran out three times or more without a word, at the last census.",
            labels=["topic"],
        )
        for topic, count in census.suspects.items():
            suspects.add_metric([topic], count)
        yield suspects
        yield GaugeMetricFamily(
            "brooq_census_age_seconds",
            "How old the numbers of brooq_jobs are; it grows while the database does not answer.",
            value=max(self._clock() - at, 0.0),
        )


def _counter(name: str, documentation: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, documentation, labels=["topic"])
    for topic, count in counts.items():
        family.add_metric([topic], count)
    return family


def _settled(metrics: Metrics) -> CounterMetricFamily:
    family = CounterMetricFamily("brooq_settle", "Outcomes, by what became of them.", labels=["topic", "outcome"])
    known = dict.fromkeys(((topic, outcome) for topic in sorted(metrics.topics) for outcome in OUTCOMES), 0)
    for (topic, outcome), count in {**known, **metrics.settled}.items():
        family.add_metric([topic, outcome], count)
    return family


def _histogram(name: str, documentation: str, histograms: Mapping[str, Histogram]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, documentation, labels=["topic"])
    for topic, histogram in histograms.items():
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric([topic], buckets, histogram.sum)
    return family


def make_registry(*collectors: Collector) -> CollectorRegistry:
    """A registry of its own: several engines in one process do not meet."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry
