"""`make bench`: brooq beside the raw limit of the same machine, in interleaved rounds of one run."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import engine, idle, raw
from bench.place import Place, place
from bench.result import Results, Sample

Measure = Callable[[], Awaitable[Sample | list[Sample]]]


def measures(at: Place, jobs: int) -> list[tuple[str, Measure]]:
    """One round: what is compared stands side by side."""
    return [
        ("raw SQL, batch 10", lambda: raw.drain(at, jobs // 2, 10, 1)),
        ("brooq, 10 slots", lambda: engine.drain(at, jobs // 2, 10)),
        ("raw SQL, batch 100", lambda: raw.drain(at, jobs, 100, 2)),
        ("brooq, 100 slots", lambda: engine.drain(at, jobs, 100)),
        ("raw SQL, batch 500", lambda: raw.drain(at, jobs, 500, 2)),
        ("brooq, 500 slots", lambda: engine.drain(at, jobs, 500)),
        ("enqueue one by one", lambda: engine.enqueue(at, jobs // 20, 1)),
        ("enqueue in bulk", lambda: engine.enqueue(at, jobs, 1000)),
        ("pickup delay", lambda: engine.pickup(at, 20, 0.2)),
    ]


def main() -> None:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--output", type=Path, default=Path(".brooq/bench/latest.json"))
    arguments = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a file or a pipe: nothing to fit the table to
    with place() as at, _progress(console) as progress:
        results = Results(at.version)
        steps = measures(at, arguments.jobs)
        bar = progress.add_task("", total=arguments.rounds * len(steps) + 2)
        for number in range(arguments.rounds):
            for name, measure in steps:
                progress.update(bar, description=f"round {number + 1}: {name}")
                samples = asyncio.run(_run(measure))
                for sample in samples if isinstance(samples, list) else [samples]:
                    results.add(sample)
                progress.advance(bar)
        progress.update(bar, description="import, idle worker")
        for sample in (idle.import_time(), *idle.idle(at)):
            results.add(sample)
        progress.advance(bar, 2)
    results.show(console)
    for slots, limit in (("10 slots", "batch 10 x 1"), ("100 slots", "batch 100 x 2"), ("500 slots", "batch 500 x 2")):
        own, top = results.median("brooq", slots, "drain"), results.median("raw SQL", limit, "drain")
        if own and top:
            console.print(f"drain, {slots}: {own / top:.2f} of the raw limit ({limit})")
    results.write(arguments.output)
    console.print(f"written to {arguments.output}")


async def _run(measure: Measure) -> Sample | list[Sample]:
    return await measure()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


if __name__ == "__main__":
    main()
