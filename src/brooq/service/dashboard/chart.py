"""Charts as SVG, drawn here: no script is needed to see them, and no style is written into the page.

Pure functions from numbers to markup. All text in a chart is made of numbers or of the catalogue, and is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10

from markupsafe import Markup

WIDTH, HEIGHT = 480, 156
LEFT, RIGHT, TOP, BOTTOM = 52, 4, 10, 24


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one layer of bars. `tone` names its colour in the style sheet, `name` is for the legend."""

    name: str
    tone: str
    values: Sequence[float | None]


def ceiling(value: float) -> float:
    """The next round number: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if value <= step * power * (1 + 1e-9))


def bars(
    series: Sequence[Series], labels: Sequence[str], ticks: Sequence[tuple[int, str]], unit: Callable[[float], str]
) -> Markup:
    """Layers on top of each other, the first at the bottom. `labels` name each step, `ticks` some on the axis."""
    totals = [sum(each.values[i] or 0.0 for each in series) for i in range(len(labels))]
    frame = _Frame(max(totals, default=0.0), len(labels), unit)
    shapes = []
    for i in range(len(labels)):
        base = 0.0
        for each in series:
            value = each.values[i] or 0.0
            if value > 0:
                top, bottom = frame.y(base + value), frame.y(base)
                width = max(frame.step * 0.78, 1.0)
                shapes.append(
                    Markup('<rect class="tone-{}" x="{}" y="{}" width="{}" height="{}" rx="1"/>').format(
                        each.tone, _n(frame.x(i) + (frame.step - width) / 2), _n(top), _n(width), _n(bottom - top)
                    )
                )
            base += value
    return frame.drawn(Markup("").join(shapes), series, labels, ticks)


def lines(
    series: Sequence[Series], labels: Sequence[str], ticks: Sequence[tuple[int, str]], unit: Callable[[float], str]
) -> Markup:
    """A line for each; the first one is filled down to the axis. None is a gap."""
    highest = max((value for each in series for value in each.values if value is not None), default=0.0)
    frame = _Frame(highest, len(labels), unit)
    shapes = []
    for number, each in enumerate(series):
        for run in _runs(each.values):
            points = [(frame.x(i) + frame.step / 2, frame.y(value)) for i, value in run]
            path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
            if number == 0:
                floor_ = _n(frame.y(0.0))
                area = f"{path}L{_n(points[-1][0])} {floor_}L{_n(points[0][0])} {floor_}Z"
                shapes.append(Markup('<path class="area tone-{}" d="{}"/>').format(each.tone, area))
            if len(points) == 1:
                x, y = points[0]
                shapes.append(Markup('<circle class="tone-{}" cx="{}" cy="{}" r="2"/>').format(each.tone, _n(x), _n(y)))
            shapes.append(Markup('<path class="line tone-{}" d="{}"/>').format(each.tone, path))
    return frame.drawn(Markup("").join(shapes), series, labels, ticks)


def spark(values: Sequence[float], tone: str, title: str) -> Markup:
    """A small line without axes."""
    width, height = 96, 24
    highest = max([*values, 0.0]) or 1.0
    count = max(len(values) - 1, 1)
    points = [(i * width / count, height - 2 - value / highest * (height - 4)) for i, value in enumerate(values)]
    path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points) if points else ""
    area = f"{path}L{width} {height}L0 {height}Z" if points else ""
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" preserveAspectRatio="none" role="img" '
        'aria-label="{t}"><path class="area tone-{tone}" d="{a}"/><path class="line tone-{tone}" d="{p}"/></svg>'
    ).format(w=width, h=height, t=title, tone=tone, a=area, p=path)


class _Frame:
    """The axes: where a step and a value lie."""

    def __init__(self, highest: float, count: int, unit: Callable[[float], str]) -> None:
        self.top = ceiling(highest)
        self.step = (WIDTH - LEFT - RIGHT) / max(count, 1)
        self._unit = unit

    def x(self, i: int) -> float:
        return LEFT + i * self.step

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)

    def drawn(
        self, shapes: Markup, series: Sequence[Series], labels: Sequence[str], ticks: Sequence[tuple[int, str]]
    ) -> Markup:
        parts = []
        for share in (0.0, 0.5, 1.0):
            y = self.y(self.top * share)
            parts.append(
                Markup('<line class="grid" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(LEFT, WIDTH - RIGHT, y=_n(y))
            )
            parts.append(
                Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
                    LEFT - 6, _n(y + 5), self._unit(self.top * share)
                )
            )
        for i, word in ticks:
            x = self.x(i) + self.step / 2
            anchor = "end" if x > WIDTH - 40 else "start" if x < LEFT + 20 else "middle"
            parts.append(
                Markup('<text class="axis" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                    _n(x), HEIGHT - 4, anchor, word
                )
            )
        parts.append(shapes)
        # Over all of it: what there is to read at each step.
        for i, label in enumerate(labels):
            said = [
                f"{each.name}: {self._unit(each.values[i] or 0.0)}" for each in series if each.values[i] is not None
            ]
            parts.append(
                Markup('<rect class="probe" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    _n(self.x(i)), TOP, _n(self.step), HEIGHT - TOP - BOTTOM, "\n".join([label, *said])
                )
            )
        name = ", ".join(each.name for each in series)
        return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
            WIDTH, HEIGHT, name, Markup("").join(parts)
        )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches without a gap."""
    runs: list[list[tuple[int, float]]] = [[]]
    for i, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((i, value))
    return [run for run in runs if run]


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
