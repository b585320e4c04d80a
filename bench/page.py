"""`README.md` beside the results, written from the results: nothing on it is typed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.chart import draw
from bench.ratio import judged
from bench.table import cells, verdict

NAME = "README.md"
INTRODUCTION = """# Benchmarks

Written by `make bench` and `make bench-peers` from [latest.json](latest.json). What was changed for speed, and what each
change brought, is in [log.md](log.md).

Figures move with the machine and with what else it does: compare within one run only. All systems take their turn in
every round, each in a process and a database of its own on the same server, with the same payload of 110 bytes, and a
figure counts only when every job is seen to have run exactly once. A drain goes from the first handler's start to the
last outcome committed; a slow system is stopped after some seconds, and its rate until then counts. A pickup delay goes
from the return of the enqueue call in one process to the start of the handler in another. CPU is in percent of one core.
`raw SQL` is brooq's own statements in a loop without an engine, and pgbench.
"""

SERVER = "The server has shared_buffers 1 GB, max_wal_size 4 GB, synchronous_commit on, the rest as it comes."


def write(document: dict[str, Any], folder: Path) -> None:
    """The page and its charts."""
    charts = draw(document, folder)
    parts = [INTRODUCTION, _ratios(document), *(f"![{title}]({name})\n" for name, title in charts)]
    parts += [_results(document), _missing(document), _runs(document)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text("\n".join(part for part in parts if part), encoding="utf-8")


def _ratios(document: dict[str, Any]) -> str:
    lines = [
        "## What must hold",
        "",
        "Each within one run.",
        "",
        "| | must hold | reached | run |",
        "|---|---|---|---|",
    ]
    for ratio, reached, run in judged(document):
        lines.append(f"| {ratio.title} | {ratio.must} | {verdict(ratio, reached)} | {run} |")
    return "\n".join([*lines, ""])


def _results(document: dict[str, Any]) -> str:
    lines = ["## Results", ""]
    last = ""
    for row in document["results"]:
        if row["measure"] != last:
            last = row["measure"]
            head = "| system | configuration | median | range | unit | rounds | client CPU | server CPU | run |"
            lines += ["", f"### {last}", "", head, "|---|---|--:|--:|---|--:|--:|--:|---|"]
        lines.append(f"| {' | '.join(cells(row)[1:])} | {row['run']} |")
    return "\n".join([*lines, ""])


def _missing(document: dict[str, Any]) -> str:
    if not document["not_run"]:
        return ""
    lines = ["## Not run", "", "| measure | system | configuration | reason |", "|---|---|---|---|"]
    for row in document["not_run"]:
        reason = row["reason"].replace("|", "\\|")
        lines.append(f"| {row['measure']} | {row['system']} | {row['config']} | {reason} |")
    return "\n".join([*lines, ""])


def _runs(document: dict[str, Any]) -> str:
    lines = [
        "## Runs",
        "",
        "| run | at | command | commit | machine | load before, highest |",
        "|---|---|---|---|---|--:|",
    ]
    for run in document["runs"]:
        machine = run["machine"]
        shown = f"{machine['cores']} cores, {machine['memory_gib']:g} GiB, {machine['system']}"
        words = (
            run["id"],
            run["at"],
            f"`{run['command']}`",
            run["commit"],
            shown,
            f"{run['load']:g}, {run.get('load_highest', '?')}",
        )
        lines.append(f"| {' | '.join(words)} |")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(document["versions"].items()))
    return "\n".join([*lines, "", f"Versions: {versions}. {SERVER}", ""])
