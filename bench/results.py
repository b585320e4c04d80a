"""Results: medians with ranges, each with the run it belongs to, kept as JSON in which runs of parts are merged."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one measure. CPU in percent of one core, of the client's processes and of the server's."""

    system: str
    config: str
    measure: str
    value: float
    unit: str
    client_cpu: float | None = None
    server_cpu: float | None = None


@dataclass(slots=True)
class Run:
    """Who measured what, when, on what: results compare within one run only."""

    id: str
    facts: dict[str, Any]
    samples: dict[tuple[str, str, str, str], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """What could not be measured, and why."""

    def add(self, sample: Sample) -> None:
        """Keep a sample."""
        self.samples[sample.measure, sample.system, sample.config, sample.unit].append(sample)

    def rows(self) -> list[Row]:
        """A row for each thing measured, in the order of measuring."""
        found = []
        for (measure, system, config, unit), samples in self.samples.items():
            values = [sample.value for sample in samples]
            found.append(
                {
                    "system": system,
                    "config": config,
                    "measure": measure,
                    "median": statistics.median(values),
                    "min": min(values),
                    "max": max(values),
                    "unit": unit,
                    "runs": len(values),
                    "client_cpu": _median([sample.client_cpu for sample in samples]),
                    "server_cpu": _median([sample.server_cpu for sample in samples]),
                    "run": self.id,
                }
            )
        return found

    def not_run(self) -> list[Row]:
        """What could not be measured."""
        return [
            {"measure": measure, "system": system, "config": config, "reason": reason, "run": self.id}
            for (measure, system, config), reason in self.missing.items()
        ]


def read(path: Path) -> dict[str, Any]:
    """The document, empty when there is none."""
    empty: dict[str, Any] = {"machine": {}, "versions": {}, "commands": [], "runs": [], "results": [], "not_run": []}
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty


def merged(document: dict[str, Any], run: Run) -> dict[str, Any]:
    """The document with this run's results in the place of older ones of the same things."""
    rows, gone = run.rows(), run.not_run()
    fresh = {_key(row) for row in rows}
    results = [
        row for row in document["results"] if _key(row) not in fresh and not any(_of(row, step) for step in gone)
    ]
    results += rows
    missing = [step for step in document["not_run"] if not any(_of(row, step) for row in (*rows, *gone))] + gone
    used = {row["run"] for row in (*results, *missing)} | {run.id}
    runs = [known for known in document["runs"] if known["id"] in used and known["id"] != run.id]
    runs.append({"id": run.id, **run.facts})
    return {
        "machine": run.facts["machine"],
        "versions": {**document["versions"], **run.facts["versions"]},
        "commands": list(dict.fromkeys(known["command"] for known in runs)),
        "runs": runs,
        "results": sorted(results, key=lambda row: _order(row["measure"])),
        "not_run": missing,
    }


def write(path: Path, document: dict[str, Any]) -> None:
    """The document as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


MEASURES = (
    "drain",
    "drain, failing",
    "drain, two processes",
    "enqueue",
    "enqueue in a transaction",
    "bulk",
    "bulk with keys",
    "eight producers",
    "pickup",
    "steady",
    "growth",
    "snapshot",
    "wal",
    "raw",
    "memory",
)
"""The order of reading; a measure's parts (`pickup p50`) stand with it."""

PLAIN_TABLE = "growth, drain, plain table"
"""What drains of a grown table are held against: measured beside them, so that a run of growth alone can tell."""


def rows(count: int) -> str:
    """A count of rows in short: `1 M`, `500 k`."""
    return f"{count // 1_000_000} M" if count >= 1_000_000 else f"{count // 1000} k"


def _order(measure: str) -> tuple[int, str]:
    found = [number for number, name in enumerate(MEASURES) if measure.startswith(name)]
    return (found[-1] if found else len(MEASURES), "")


def _of(row: Row, step: Row) -> bool:
    """Whether a result is one of a step's: a step `pickup` has results `pickup p50` and more."""
    return (row["system"], row["config"]) == (step["system"], step["config"]) and step["measure"] in row["measure"]


def _key(row: Row) -> tuple[str, str, str]:
    return row["measure"], row["system"], row["config"]


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
