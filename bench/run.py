"""Runs a plan: interleaved rounds, each step checked; what fails is recorded and the rest goes on."""

from __future__ import annotations

import platform
import subprocess
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.environment import versions
from bench.place import Place
from bench.plan import Step
from bench.process import PeerError
from bench.results import Run
from bench.stage import Stage
from bench.systems import SYSTEMS


def begin(place: Place, command: str, systems: Iterable[str]) -> Run:
    """A run with what is known of its machine and versions."""
    peers = {name: versions(SYSTEMS[name]) for name in systems}
    return Run(
        uuid.uuid4().hex[:8],
        {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            "commit": _commit(),
            "load": round(psutil.getloadavg()[0], 1),
            "machine": {
                "cores": psutil.cpu_count(),
                "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
                "system": f"{platform.system()} {platform.machine()}",
            },
            "versions": {
                "postgresql": place.version,
                "python": platform.python_version(),
                **{name: version for name, version in peers.items() if version},
            },
        },
    )


def measure(
    run: Run, stage: Stage, steps: list[Step], rounds: int, console: Console, after_round: Callable[[], None]
) -> None:
    """Every system takes its turn in every round; what a round has brought is kept even if the next one is broken off."""
    with _progress(console) as progress:
        later = [step for step in steps if not step.once]
        bar = progress.add_task("", total=len(steps) + (rounds - 1) * len(later))
        for number in range(rounds):
            for step in later if number else steps:
                _take(run, stage, step, f"{number + 1}/{rounds}", progress, bar)
            after_round()


def _take(run: Run, stage: Stage, step: Step, number: str, progress: Progress, bar: TaskID) -> None:
    text = f"{number} {step.measure}: {step.system}, {step.label}"
    progress.update(bar, description=text[:70])
    try:
        for sample in step.take(stage):
            run.add(sample)
    except (PeerError, psycopg.Error, OSError, subprocess.SubprocessError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        run.missing[step.measure, step.system, step.label] = lines[-1][:300]
        progress.console.print(f"not measured: {text}: {lines[-1][:300]}", markup=False)
    # What else the machine did meanwhile decides how much a figure is worth.
    run.facts["load_highest"] = max(run.facts.get("load_highest", 0.0), round(psutil.getloadavg()[0], 1))
    progress.advance(bar)


def _commit() -> str:
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return answer.stdout.strip()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
