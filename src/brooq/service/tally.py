"""Metrics of several processes as one: what each of them tells, and how it is added up (requirement O1).

Counters and histograms travel as differences. So a sum never goes down: not when a process dies and its successor begins
at zero, nor when one of them says nothing for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

SUMMED: Final = frozenset({"brooq_worker_busy"})
"""Gauges of which every process has its part. All others are about something that the processes share, the table or the
program: they are taken from one of them."""
AGE: Final = "brooq_census_age_seconds"
"""How old a process's numbers of the table are: those of the youngest census are shown."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
Key: TypeAlias = tuple[str, Labels]
Sample: TypeAlias = tuple[str, Sequence[Sequence[str]], float]
Family: TypeAlias = tuple[str, str, str, Sequence[Sample]]
"""Name, documentation, type, samples."""


class Changes:
    """What has changed since it was asked last."""

    def __init__(self, source: Collector) -> None:
        """`source` is what is told."""
        self._source = source
        self._told: dict[Key, float] = {}
        self._gauges: dict[str, list[Sample]] = {}

    def take(self) -> list[Family]:
        """Counters and histograms by how much they grew, new ones with what they are; gauges whole, when they changed."""
        found: list[Family] = []
        for metric in list(self._source.collect()):
            samples: list[Sample] = [(each.name, sorted(each.labels.items()), each.value) for each in metric.samples]
            if metric.type == "gauge":
                changed = samples if samples != self._gauges.get(metric.name) else []
                self._gauges[metric.name] = samples
            else:
                changed = self._grown(samples)
            if changed:
                found.append((metric.name, metric.documentation, metric.type, changed))
        return found

    def _grown(self, samples: Iterable[Sample]) -> list[Sample]:
        grown: list[Sample] = []
        for name, labels, value in samples:
            key = (name, tuple((label, text) for label, text in labels))
            before = self._told.get(key)
            if value != before:
                grown.append((name, labels, value - (before or 0.0)))
                self._told[key] = value
        return grown


@dataclass(slots=True)
class _Sum:
    documentation: str
    type: str
    samples: dict[Key, float] = field(default_factory=dict)

    def add(self, samples: Iterable[Sample]) -> None:
        for name, labels, value in samples:
            key = (name, tuple((label, text) for label, text in labels))
            self.samples[key] = self.samples.get(key, 0.0) + value

    def metric(self, name: str) -> Metric:
        metric = Metric(name, self.documentation, self.type)
        for (sample, labels), value in self.samples.items():
            metric.add_sample(sample, dict(labels), value)
        return metric


class Tally(Collector):
    """The numbers of all processes together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._totals: dict[str, _Sum] = {}
        self._gauges: dict[int, dict[str, _Sum]] = {}
        self._born: dict[int, float] = {}

    def add(self, process: int, families: Iterable[Sequence[Any]]) -> None:
        """Add what a process tells (`Changes.take`)."""
        for name, documentation, kind, samples in families:
            if kind == "gauge":
                gauge = self._gauges.setdefault(process, {})[name] = _Sum(documentation, kind)
                gauge.add(samples)
                if name == AGE:
                    self._born[process] = self._clock() - sum(gauge.samples.values())
            else:
                self._totals.setdefault(name, _Sum(documentation, kind)).add(samples)

    def forget(self, process: int) -> None:
        """The process is gone, and what it held with it. What it did stays counted, what it saw last stays seen."""
        for name, gauge in self._gauges.get(process, {}).items():
            if name in SUMMED:
                gauge.samples = dict.fromkeys(gauge.samples, 0.0)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Every family once."""
        for name, total in self._totals.items():
            yield total.metric(name)
        yield from self._shared()

    def _shared(self) -> Iterable[Metric]:
        # The youngest census last: of what the processes share, its word is the one that stays.
        order = sorted(self._gauges, key=lambda process: self._born.get(process, float("-inf")))
        merged: dict[str, _Sum] = {}
        for process in order:
            for name, gauge in self._gauges[process].items():
                if name in SUMMED and name in merged:
                    merged[name].add(_samples(gauge.samples))
                elif name in SUMMED:
                    merged[name] = _Sum(gauge.documentation, gauge.type, dict(gauge.samples))
                else:
                    merged[name] = gauge
        for name, gauge in merged.items():
            if name == AGE:
                yield self._age(name, gauge)
            else:
                yield gauge.metric(name)

    def _age(self, name: str, gauge: _Sum) -> Metric:
        # It grows on while nobody tells: the process may be stopped.
        age = max(self._clock() - max(self._born.values()), 0.0)
        return _Sum(gauge.documentation, gauge.type, {(name, ()): age}).metric(name)


def _samples(samples: Mapping[Key, float]) -> Iterable[Sample]:
    return ((name, labels, value) for (name, labels), value in samples.items())
