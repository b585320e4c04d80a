"""Charts as SVG, readable on a light page and on a dark one: medians with the range of the rounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bench.results import PLAIN_TABLE

Row = dict[str, Any]

INK = "#717b86"
"""Text and axes: enough contrast on white and on black."""

OWN, LIMIT, RIVAL = "#2f81f7", "#8b949e", "#d29922"
WIDTH = 9.0
LINE = 0.27
"""Inches a bar."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "brooq",  # the same results make the same file
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw(document: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Write the charts there is something for; (file, title) of each. A chart shows one run: the latest that has it."""
    charts: list[tuple[str, str, Callable[[list[Row]], Figure | None]]] = [
        ("drain.svg", "Drain: no-op jobs a second, one worker process", lambda rows: _bars(rows, "drain")),
        ("bulk.svg", "Bulk enqueue: jobs a second, 1,000 a call", lambda rows: _bars(rows, "bulk")),
        ("pickup.svg", "Pickup delay of an idle worker, in milliseconds", lambda rows: _delays(rows, "pickup")),
        ("steady.svg", "Delay under 500 jobs a second, in milliseconds", lambda rows: _delays(rows, "steady 500/s")),
        ("growth.svg", "Drain on a grown table, in percent of the plain one", _growth),
    ]
    drawn = []
    with mpl.rc_context(STYLE):
        for name, title, make in charts:
            for run in reversed(document["runs"]):
                figure = make([row for row in document["results"] if row["run"] == run["id"]])
                if figure is not None:
                    figure.axes[0].set_title(title, loc="left", fontsize=11)
                    folder.mkdir(parents=True, exist_ok=True)
                    figure.savefig(folder / name, transparent=True, bbox_inches="tight", metadata={"Date": None})
                    drawn.append((name, title))
                    break
    return drawn


def _bars(rows: list[Row], measure: str) -> Figure | None:
    """The quickest on top, each with its range."""
    found = sorted((row for row in rows if row["measure"] == measure), key=lambda row: float(row["median"]))
    if not found:
        return None
    figure, axes = _axes(found, [_name(row) for row in found])
    top = max(row["max"] for row in found)
    for place, row in enumerate(found):
        axes.barh(place, row["median"], height=0.7, color=_colour(row))
        axes.hlines(place, row["min"], row["max"], color=INK, linewidth=1.5)
        axes.text(row["max"] + top * 0.01, place, f"{row['median']:,.0f}", va="center", fontsize=8)
    axes.set_xlim(0, top * 1.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return figure


def _delays(rows: list[Row], measure: str) -> Figure | None:
    """p50, p95 and p99 of each, on a logarithmic axis; the range is that of the p99."""
    cuts = [{_name(row): row for row in rows if row["measure"] == f"{measure} {cut}"} for cut in ("p50", "p95", "p99")]
    names = sorted(cuts[2], key=lambda name: -float(cuts[2][name]["median"]))
    if not names:
        return None
    figure, axes = _axes([cuts[2][name] for name in names], names)
    least = 0.05  # a handler may begin before its producer has heard of the commit
    for place, name in enumerate(names):
        values = [max(each[name]["median"], least) for each in cuts]
        last = cuts[2][name]
        axes.hlines(place, values[0], values[2], color=_colour(last), linewidth=4, alpha=0.5)
        axes.hlines(place, max(last["min"], least), max(last["max"], least), color=INK, linewidth=1.5)
        for value, marker in zip(values, ("o", "s", "D"), strict=True):
            axes.plot(value, place, marker, color=_colour(last), markersize=6)
        shown = " / ".join(f"{each[name]['median']:.3g}" for each in cuts)
        axes.text(max(last["max"], least) * 1.15, place, shown, va="center", fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * 4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("p50 ●   p95 ■   p99 ◆")
    return figure


def _growth(rows: list[Row]) -> Figure | None:
    """Each against its own drain of a plain table in the same rounds."""
    prefix = "growth, drain, "
    grown = [row for row in rows if row["measure"].startswith(prefix) and row["measure"] != PLAIN_TABLE]
    plain = {(row["system"], row["config"]): float(row["median"]) for row in rows if row["measure"] == PLAIN_TABLE}
    found = [row for row in grown if plain.get((row["system"], row["config"]))]
    found.sort(key=lambda row: float(row["median"]) / plain[row["system"], row["config"]])
    if not found:
        return None
    figure, axes = _axes(found, [f"{_name(row)}: {row['measure'].removeprefix(prefix)}" for row in found])
    for place, row in enumerate(found):
        least, middle, most = (
            100 * row[part] / plain[row["system"], row["config"]] for part in ("min", "median", "max")
        )
        axes.barh(place, middle, height=0.7, color=_colour(row))
        axes.hlines(place, least, most, color=INK, linewidth=1.5)
        axes.text(max(most, 0) + 1.5, place, f"{middle:.0f} %", va="center", fontsize=8)
    axes.axvline(100, color=INK, linewidth=1, linestyle=":")
    return figure


def _axes(rows: list[Row], names: list[str]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, 0.8 + LINE * len(rows)))
    axes = figure.add_subplot()
    axes.set_yticks(range(len(names)), names)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(_colour(row))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _name(row: Row) -> str:
    return f"{row['system']}, {row['config']}"


def _colour(row: Row) -> str:
    return {"brooq": OWN, "raw SQL": LIMIT}.get(row["system"], RIVAL)
