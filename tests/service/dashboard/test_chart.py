"""Charts: shapes from numbers, and markup from nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from brooq.postgres.board import Step
from brooq.service.dashboard.chart import Series, bars, ceiling, lines, spark
from brooq.service.dashboard.overview import RANGES, Timeline

HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 1), (-3, 1), (1, 1), (1.1, 2), (2.2, 2.5), (3, 5), (5, 5), (7, 10), (0.03, 0.05), (123, 200)],
)
def test_axes_end_at_round_numbers(value: float, expected: float) -> None:
    assert ceiling(value) == pytest.approx(expected)


def test_bars_stand_on_each_other() -> None:
    svg = bars([Series("done", "done", [3, 0]), Series("dead", "dead", [1, 0])], ["a", "b"], [(0, "a")], str)
    shapes = [each for each in ElementTree.fromstring(svg) if each.get("class", "").startswith("tone-")]  # noqa: S314
    done, dead = ([float(each.get(name, "")) for name in ("y", "height")] for each in shapes)
    assert dead[0] + dead[1] == pytest.approx(done[0])
    assert done[1] == pytest.approx(3 * dead[1], rel=0.01)


def test_gaps_interrupt_a_line() -> None:
    svg = lines([Series("wait", "wait", [1, 2, None, 3, 4])], list("abcde"), [], str)
    assert len(re.findall('class="line', svg)) == 2
    assert len(re.findall('class="area', svg)) == 2


def test_nothing_in_a_chart_becomes_markup() -> None:
    drawn = [
        bars([Series(HOSTILE, "done", [1])], [HOSTILE], [(0, HOSTILE)], lambda _: HOSTILE),
        lines([Series(HOSTILE, "done", [1])], [HOSTILE], [(0, HOSTILE)], lambda _: HOSTILE),
        spark([1, 2], "done", HOSTILE),
    ]
    for svg in drawn:
        assert "<script" not in svg
        assert "style=" not in svg
        ElementTree.fromstring(svg)  # noqa: S314  ours, and whole


def test_nothing_at_all_can_be_drawn() -> None:
    for svg in (bars([], [], [], str), lines([], [], [], str), spark([], "done", "")):
        ElementTree.fromstring(svg)  # noqa: S314


def step(at: int, topic: str, **values: float) -> Step:
    empty = dict.fromkeys(Step.__slots__, 0.0)
    return Step(**{**empty, "at": at, "topic": topic, **values})  # type: ignore[arg-type]


def test_a_quiet_topic_keeps_its_depth_and_rates_do_not() -> None:
    stretch = RANGES["10m"]
    course = [step(1000, "a", waiting=5, done=20), step(1010, "b", waiting=2), step(1030, "a", waiting=1)]
    timeline = Timeline(course, stretch, now=1049.0)
    assert list(timeline.grid)[-5:] == [1000, 1010, 1020, 1030, 1040]
    assert timeline.depth("waiting")[-5:] == [5, 7, 7, 3, 3]
    assert timeline.depth("waiting")[0] is None
    assert timeline.rate("done")[-5:] == [2.0, 0.0, 0.0, 0.0, 0.0]
    assert len(timeline.labels()) == len(timeline.grid) == stretch.seconds // stretch.width
