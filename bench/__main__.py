"""`make bench`, `make bench-peers`, `make bench-full`, `make bench-smoke`: measure, show, write."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import page, results, run, table
from bench.environment import Environments
from bench.place import FOLDER, place
from bench.plan import TOP, Sizes, Step, plan
from bench.speed import speed
from bench.stage import Stage
from bench.systems import PLAIN, SYSTEMS

SIZES = {
    "plain": Sizes(seconds=2.5, cap=6.0, memory=200_000),
    "peers": Sizes(seconds=2.0, cap=4.0, pickups=120),
    "full": Sizes(seconds=8.0, cap=20.0, terminal=10_000_000, future=1_000_000, steady_once=False),
    "smoke": Sizes(
        seconds=0.1, cap=30, pickups=20, steady_seconds=2, terminal=2000, future=1000, topics=20, held=1000, memory=2000,
        settle=0.5, watch=1.0,
    ),
}  # fmt: skip
OUTPUT = Path("docs/benchmarks/latest.json")


def main(arguments: list[str] | None = None) -> None:
    """Everything that a run does."""
    given = _parser().parse_args(arguments)
    rounds = given.rounds or (1 if given.tier == "smoke" else 3)
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a file or a pipe: nothing to fit the table to
    with place(given.folder) as at:
        stage = Stage(at, Environments(given.folder))
        try:
            sizes = SIZES[given.tier]
            if given.tier != "smoke":
                sizes = replace(sizes, speed=given.jobs / sizes.seconds / TOP if given.jobs else speed(stage))
            steps = _chosen(plan(sizes), given)
            found = run.begin(at, _command(given), {step.system for step in steps})
            earlier = results.read(given.output)
            run.measure(found, stage, steps, rounds, console, lambda: _write(earlier, found, given.output))
        finally:
            stage.close()
    table.show(results.read(given.output), found.id, console, ratios=given.tier != "smoke")
    console.print(f"written to {given.output} and {given.output.parent / page.NAME}")


def _write(earlier: dict[str, Any], found: results.Run, output: Path) -> None:
    document = results.merged(earlier, found)
    results.write(output, document)
    page.write(document, output.parent)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("tier", choices=SIZES, nargs="?", default="plain")
    parser.add_argument("--rounds", type=int, help="3 unless it is said; a smoke run takes one")
    parser.add_argument("--jobs", type=int, help="of the quickest drain, all others in proportion; else by the machine")
    parser.add_argument("--only", default="", help="measures, separated by commas: drain,bulk,enqueue,pickup,…")
    parser.add_argument("--systems", default="", help=f"separated by commas: {', '.join(SYSTEMS)}")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the server and the environments are kept")
    return parser


def _chosen(steps: list[Step], given: argparse.Namespace) -> list[Step]:
    plain = given.tier in {"plain", "smoke"}
    systems = given.systems.split(",") if given.systems else [each.name for each in PLAIN] if plain else list(SYSTEMS)
    measures = {step.measure for step in steps}
    only = given.only.split(",") if given.only else measures
    unknown = [name for name in (*systems, *only) if name not in SYSTEMS and name not in measures]
    if unknown:
        sys.exit(f"no such system or measure: {', '.join(unknown)}. Measures: {', '.join(sorted(measures))}")
    chosen = [step for step in steps if step.system in systems and step.measure in only]
    if given.tier != "smoke":
        return chosen
    # Of every kind of step one.
    return list({(step.measure, step.part, step.system): step for step in chosen}.values())


def _command(given: argparse.Namespace) -> str:
    words = ["make", "bench" if given.tier == "plain" else f"bench-{given.tier}"]
    options = {"ROUNDS": given.rounds, "JOBS": given.jobs}
    words += [f"{name}={value}" for name, value in options.items() if value]
    words += [f"{name}='{value}'" for name, value in {"ONLY": given.only, "SYSTEMS": given.systems}.items() if value]
    if os.environ.get("BENCH_DATABASE_URL"):
        words.insert(0, "BENCH_DATABASE_URL=…")
    return " ".join(words)


if __name__ == "__main__":
    main()
