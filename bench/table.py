"""Results for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bench.ratio import Ratio, judged


def show(document: dict[str, Any], run: str, console: Console, *, ratios: bool) -> None:
    """What a run has measured, what it could not, and the ratios."""
    table = Table(title="medians [range]", title_justify="left")
    for name in ("measure", "system", "configuration"):
        table.add_column(name)
    for name in ("median", "range", "unit", "runs", "client CPU", "server CPU"):
        table.add_column(name, justify="right")
    for row in document["results"]:
        if row["run"] == run:
            table.add_row(*cells(row))
    console.print(table)
    for row in document["not_run"]:
        if row["run"] == run:
            console.print(f"not run: {row['measure']}: {row['system']}, {row['config']}: {row['reason']}", markup=False)
    if not ratios:
        return
    judgement = Table(title="ratios", title_justify="left")
    for name in ("", "must hold", "reached"):
        judgement.add_column(name)
    answers = judged(document)
    here = [(ratio, reached) for ratio, reached, where in answers if reached is not None and where == run]
    for ratio, reached in here:
        judgement.add_row(ratio.title, ratio.must, verdict(ratio, reached))
    console.print(judgement)
    console.print(f"{len(answers) - len(here)} of {len(answers)} ratios were not measured in this run", markup=False)


def cells(row: dict[str, Any]) -> list[str]:
    """One result as texts."""
    return [
        row["measure"],
        row["system"],
        row["config"],
        number(row["median"]),
        f"{number(row['min'])}–{number(row['max'])}",
        row["unit"],
        str(row["runs"]),
        percent(row["client_cpu"]),
        percent(row["server_cpu"]),
    ]


def verdict(ratio: Ratio, reached: float | None) -> str:
    """A ratio's figure, marked when it is not enough."""
    if reached is None:
        return "not measured"
    return f"{number(reached)}{'' if ratio.holds(reached) else ' (not reached)'}"


def number(value: float) -> str:
    """With as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """Of one core."""
    return "" if value is None else f"{value:.0f} %"
