"""Numbers of several processes as one."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from brooq import Claim, Config, Job, Queue
from brooq.service.metrics import EngineCollector
from brooq.service.tally import AGE, SUMMED, Changes, Tally
from brooq.testing import MemoryStore


class Source(Collector):
    """Numbers as one process has them."""

    def __init__(self) -> None:
        self.done = 0.0
        self.buckets = [0.0, 0.0]
        self.busy: dict[str, float] = {}
        self.jobs: dict[str, float] = {}
        self.age: float | None = None

    def collect(self) -> Iterable[Metric]:
        done = CounterMetricFamily("brooq_done", "Done.", labels=["topic"])
        done.add_metric(["mail"], self.done)
        seconds = HistogramMetricFamily("brooq_seconds", "Seconds.", labels=["topic"])
        total = sum(self.buckets)
        seconds.add_metric(["mail"], [("1.0", self.buckets[0]), ("+Inf", total)], total * 2)
        busy = GaugeMetricFamily("brooq_worker_busy", "Busy.", labels=["topic"])
        for topic, slots in self.busy.items():
            busy.add_metric([topic], slots)
        jobs = GaugeMetricFamily("brooq_jobs", "Jobs.", labels=["topic"])
        for topic, count in self.jobs.items():
            jobs.add_metric([topic], count)
        yield from (done, seconds, busy)
        if self.age is not None:
            yield jobs
            yield GaugeMetricFamily(AGE, "Age.", value=self.age)


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def tell(tally: Tally, process: int, changes: Changes) -> None:
    """As it comes over the channel."""
    tally.add(process, json.loads(json.dumps(changes.take())))


def shown(tally: Tally) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for metric in tally.collect():
        for each in metric.samples:
            key = (each.name, ",".join(f"{name}={value}" for name, value in sorted(each.labels.items())))
            assert key not in found, f"{key} twice"
            found[key] = each.value
    return found


def test_a_counter_at_zero_is_there_and_what_has_not_changed_is_not_told_again() -> None:
    source = Source()
    changes, tally = Changes(source), Tally()
    tell(tally, 1, changes)
    assert shown(tally)["brooq_done_total", "topic=mail"] == 0
    assert changes.take() == []
    source.done = 3
    ((name, _, kind, samples),) = changes.take()
    assert (name, kind, samples) == ("brooq_done", "counter", [("brooq_done_total", [("topic", "mail")], 3.0)])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans(), st.booleans()), max_size=40))
def test_sums_are_exact_and_never_go_down_whoever_dies(steps: list[tuple[int, int, bool, bool]]) -> None:
    """Each step: one of three processes does some work, tells of it or not, and perhaps dies: then what it did not tell is
    lost, and its successor begins at zero."""
    tally = Tally()
    sources = [Source() for _ in range(3)]
    changes = [Changes(source) for source in sources]
    told, last = 0.0, 0.0
    for process, work, tells, dies in steps:
        before = sources[process].done
        sources[process].done += work
        sources[process].buckets[work % 2] += work
        if tells:
            tell(tally, process, changes[process])
        if dies:
            tally.forget(process)
            sources[process] = Source()
            changes[process] = Changes(sources[process])
        told = _told(tally)
        assert told >= last
        if tells:
            assert told >= last + work
        assert sources[process].done == (0 if dies else before + work)
        last = told
    for process in range(3):
        tell(tally, process, changes[process])
    assert _told(tally) == last + (_told(tally) - last)
    numbers = shown(tally)
    assert numbers["brooq_seconds_count", "topic=mail"] == numbers["brooq_done_total", "topic=mail"]
    assert numbers["brooq_seconds_bucket", "le=+Inf,topic=mail"] == numbers["brooq_seconds_count", "topic=mail"]
    assert numbers["brooq_seconds_sum", "topic=mail"] == 2 * numbers["brooq_seconds_count", "topic=mail"]


def _told(tally: Tally) -> float:
    return shown(tally).get(("brooq_done_total", "topic=mail"), 0.0)


def test_slots_add_up_and_the_table_is_taken_from_the_youngest_census() -> None:
    clock = Clock()
    tally = Tally(clock)
    first, second = Source(), Source()
    first.busy, first.jobs, first.age = {"mail": 2}, {"mail": 10, "gone": 1}, 5.0
    second.busy, second.jobs, second.age = {"mail": 3, "report": 1}, {"mail": 9}, 1.0
    for number, source in enumerate((first, second), 1):
        tell(tally, number, Changes(source))
    numbers = shown(tally)
    assert numbers["brooq_worker_busy", "topic=mail"] == 5
    assert numbers["brooq_worker_busy", "topic=report"] == 1
    assert numbers["brooq_jobs", "topic=mail"] == 9
    assert ("brooq_jobs", "topic=gone") not in numbers
    assert numbers[AGE, ""] == 1
    clock.now += 30
    assert shown(tally)[AGE, ""] == 31  # nobody says anything: it grows all the same
    first.age, first.jobs = 2.0, {"mail": 7}
    tell(tally, 1, Changes(first))
    assert (shown(tally)["brooq_jobs", "topic=mail"], shown(tally)[AGE, ""]) == (7, 2)


def test_who_is_gone_holds_no_slot_and_what_it_did_stays() -> None:
    tally = Tally(Clock())
    source = Source()
    source.busy, source.jobs, source.age, source.done = {"mail": 2}, {"mail": 10}, 1.0, 4
    tell(tally, 1, Changes(source))
    tally.forget(1)
    numbers = shown(tally)
    assert numbers["brooq_worker_busy", "topic=mail"] == 0
    assert numbers["brooq_jobs", "topic=mail"] == 10
    assert numbers["brooq_done_total", "topic=mail"] == 4


def test_a_gauge_that_lost_a_series_loses_it_here_too() -> None:
    tally, source = Tally(Clock()), Source()
    changes = Changes(source)
    source.jobs, source.age = {"mail": 1, "foreign": 2}, 1.0
    tell(tally, 1, changes)
    source.jobs = {"mail": 1}
    tell(tally, 1, changes)
    assert {labels for name, labels in shown(tally) if name == "brooq_jobs"} == {"topic=mail"}


async def test_the_numbers_of_a_real_engine_come_through_unchanged() -> None:
    queue = Queue(MemoryStore(), Config(poll_interval=0.05))

    @queue.kind("mail")
    async def mail(claim: Claim) -> None:
        """Succeed."""

    collector = EngineCollector()
    collector.watch(queue)
    changes, tally = Changes(collector), Tally()
    async with queue:
        tell(tally, 1, changes)
        await queue.enqueue_many([Job("mail") for _ in range(20)])
        await queue.take_census()
    tell(tally, 1, changes)
    wanted = {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for metric in collector.collect()
        for each in metric.samples
    }
    found = {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for metric in tally.collect()
        for each in metric.samples
    }
    assert found.keys() == wanted.keys()
    ages = {key for key in wanted if key[0] == AGE}
    assert {key: found[key] for key in wanted.keys() - ages} == {key: wanted[key] for key in wanted.keys() - ages}


async def test_of_every_gauge_it_is_known_whether_processes_share_it() -> None:
    """A new gauge: is it a part of each process (then it belongs in SUMMED), or about the table or the program?"""
    queue = Queue(MemoryStore())
    queue.register_kind("mail", _nothing)
    await queue.take_census()
    collector = EngineCollector()
    collector.watch(queue)
    gauges = {metric.name for metric in collector.collect() if metric.type == "gauge"}
    assert gauges == SUMMED | {
        "brooq_build_info",
        "brooq_jobs",
        "brooq_ready_oldest_age_seconds",
        "brooq_suspect_jobs",
        AGE,
    }


async def _nothing(claim: Claim) -> None:
    """Succeed."""
