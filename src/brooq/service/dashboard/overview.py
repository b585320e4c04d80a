"""The first page: how things stand, and how they went."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from brooq.engine.store import Census
from brooq.postgres.board import Board, Step
from brooq.postgres.facts import Seen
from brooq.service.dashboard import chart, figure
from brooq.service.dashboard.page import language_of
from brooq.service.dashboard.visit import Visit
from brooq.vocabulary.job import State
from brooq.vocabulary.message import phrase
from brooq.vocabulary.steering import TopicRecord


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time that charts show: its steps, and the samples they are made of; all in seconds."""

    name: str
    seconds: int
    width: int
    step: int
    tick: int


RANGES = {
    each.name: each
    for each in (
        Range("10m", 600, 10, 10, 120),
        Range("2h", 7200, 120, 10, 1800),
        Range("24h", 86400, 1800, 900, 21600),
        Range("7d", 604800, 10800, 900, 86400),
    )
}


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic as the tables show it."""

    name: str
    counts: dict[State, tuple[int, bool]]
    oldest: float
    record: TopicRecord | None
    rate: float
    """Jobs done a minute, over the stretch that is shown."""
    spark: Markup
    workers: int

    @property
    def paused(self) -> bool:
        return self.record is not None and self.record.paused

    @property
    def limits(self) -> list[tuple[str, object]]:
        """What is set for it, by the names that the code and the command line have."""
        if self.record is None:
            return []
        values = ((each.name, getattr(self.record.limits, each.name)) for each in fields(self.record.limits))
        return [(name, value) for name, value in values if value not in {None, False}]

    @property
    def orphaned(self) -> bool:
        """Whether jobs wait here and nobody works on them."""
        return not self.workers and any(self.counts.get(state, (0,))[0] for state in (State.PENDING, State.FAILED))


async def overview(visit: Visit, board: Board) -> Response:
    """Tiles, charts, topics."""
    stretch = RANGES.get(visit.ask("range") or "", RANGES["10m"])
    only = visit.ask("topic", 128)
    language = language_of(visit.request)
    census, records, workers = await board.census(), await board.topics(), await board.workers()
    course = await board.course(stretch.step, stretch.seconds, stretch.width, only)
    lines = topic_lines(language, census, records, workers, course, stretch)
    shown = [line for line in lines if only in {None, line.name}]
    there = [each for each in workers if each.there(datetime.now(UTC))]
    timeline = Timeline(course, stretch)
    return visit.page(
        "overview.html",
        ranges=list(RANGES),
        range=stretch.name,
        only=only,
        totals=totals(shown),
        oldest=max((line.oldest for line in shown), default=0.0),
        rate=sum(line.rate for line in shown),
        charts=charts(language, timeline),
        topics=shown,
        slots=sum(each.slots for each in there),
        workers=there,
    )


async def topics(visit: Visit, board: Board) -> Response:
    """Every topic, with what is set for it."""
    stretch = RANGES["2h"]
    census, records, workers = await board.census(), await board.topics(), await board.workers()
    course = await board.course(stretch.step, stretch.seconds, stretch.width)
    lines = topic_lines(language_of(visit.request), census, records, workers, course, stretch)
    return visit.page("topics.html", topics=lines, scheduled=await board.scheduled())


def topic_lines(
    language: str,
    census: Census,
    records: dict[str, TopicRecord],
    workers: Sequence[Seen],
    course: Sequence[Step],
    stretch: Range,
) -> list[TopicLine]:
    """Every topic that anybody knows of."""
    counts: dict[str, dict[State, tuple[int, bool]]] = defaultdict(dict)
    for depth in census.depths:
        counts[depth.topic][depth.state] = (depth.jobs, depth.exact)
    working: dict[str, int] = defaultdict(int)
    now = datetime.now(UTC)
    for worker in workers:
        for topic in worker.topics if worker.there(now) else ():
            working[topic] += 1
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in course:
        steps[step.topic].append(step)
    lines = []
    for name in sorted({*counts, *records, *working}):
        timeline = Timeline(steps[name], stretch)
        done = timeline.sum("done")
        lines.append(
            TopicLine(
                name,
                counts[name],
                census.oldest.get(name, 0.0),
                records.get(name),
                sum(done) * 60 / stretch.seconds,
                chart.spark(done, "done", phrase(language, "board.spark", topic=name)),
                working[name],
            )
        )
    return lines


def totals(lines: Sequence[TopicLine]) -> dict[State, tuple[int, bool]]:
    """All topics together."""
    found = {}
    for state in State:
        parts = [line.counts[state] for line in lines if state in line.counts]
        found[state] = (sum(count for count, _ in parts), all(exact for _, exact in parts))
    return found


class Timeline:
    """Steps of all topics, laid on one grid; steps that nothing was told of are empty."""

    def __init__(self, course: Sequence[Step], stretch: Range, now: float | None = None) -> None:
        """The grid ends with the present."""
        self.width = stretch.width
        end = int((time.time() if now is None else now) // stretch.width) * stretch.width
        self.grid = range(end - stretch.seconds + stretch.width, end + 1, stretch.width)
        self._steps: dict[int, list[Step]] = defaultdict(list)
        for step in course:
            self._steps[step.at].append(step)
        self.tick = stretch.tick

    def sum(self, name: str) -> list[float]:
        """A column, added up over the topics."""
        return [sum(getattr(step, name) for step in self._steps.get(at, ())) for at in self.grid]

    def rate(self, name: str) -> list[float]:
        """The same a second."""
        return [value / self.width for value in self.sum(name)]

    def top(self, name: str) -> list[float | None]:
        """A column's greatest value among the topics; None where nobody told anything."""
        return [max((getattr(step, name) for step in self._steps.get(at, ())), default=None) for at in self.grid]

    def mean(self, total: str, count: str) -> list[float | None]:
        """A quotient of two sums; None where there is nothing to divide by."""
        pairs = zip(self.sum(total), self.sum(count), strict=True)
        return [part / number if number else None for part, number in pairs]

    def depth(self, name: str) -> list[float | None]:
        """A depth: what nobody tells of for a while stays as it was, since quiet topics are not told of."""
        found: list[float | None] = []
        last: dict[str, float] = {}
        for at in self.grid:
            for step in self._steps.get(at, ()):
                last[step.topic] = getattr(step, name)
            found.append(sum(last.values()) if last else None)
        return found

    def labels(self) -> list[str]:
        """The name of each step."""
        form = "%H:%M:%S" if self.width < 60 else "%H:%M" if self.width < 1000 else "%d.%m. %H:%M"
        return [datetime.fromtimestamp(at, UTC).strftime(form) + " UTC" for at in self.grid]

    def ticks(self) -> list[tuple[int, str]]:
        """Some steps with a word for the axis."""
        form = "%H:%M" if self.tick < 86400 else "%d.%m."
        return [
            (i, datetime.fromtimestamp(at, UTC).strftime(form)) for i, at in enumerate(self.grid) if at % self.tick == 0
        ]


def charts(language: str, timeline: Timeline) -> list[dict[str, Any]]:
    """Throughput, delay and depth over time."""

    def said(name: str) -> str:
        return phrase(language, f"board.{name}")

    labels, ticks = timeline.labels(), timeline.ticks()
    ended = [chart.Series(said(f"series_{name}"), name, timeline.rate(name)) for name in ("done", "failed", "dead")]
    waits = [
        chart.Series(said("series_mean"), "wait", timeline.mean("waited", "claimed")),
        chart.Series(said("series_p95"), "slow", _positive(timeline.top("waited_p95"))),
    ]
    depths = [
        chart.Series(said("series_waiting"), "pending", timeline.depth("waiting")),
        chart.Series(said("series_processing"), "processing", timeline.depth("processing")),
    ]

    def drawn(name: str, series: list[chart.Series], svg: Markup) -> dict[str, Any]:
        empty = not any(value for each in series for value in each.values)
        return {"name": name, "title": said(f"chart_{name}"), "hint": said(f"chart_{name}_hint"), "series": series,
                "svg": svg, "empty": empty}  # fmt: skip

    return [
        drawn("throughput", ended, chart.bars(ended, labels, ticks, figure.number)),
        drawn("delay", waits, chart.lines(waits, labels, ticks, partial(figure.duration, language))),
        drawn("depth", depths, chart.lines(depths, labels, ticks, figure.short)),
    ]


def _positive(values: Sequence[float | None]) -> list[float | None]:
    return [value or None for value in values]
