"""Results of measurements: medians with ranges, as a table and as JSON."""

from __future__ import annotations

import json
import platform
import statistics
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one measure. CPU in percent of one core, of the client's process and of the server's."""

    system: str
    config: str
    measure: str
    value: float
    unit: str
    client_cpu: float | None = None
    server_cpu: float | None = None


class Results:
    """Samples of a run, grouped by what was measured."""

    def __init__(self, postgres: str) -> None:
        """`postgres` is the server's version."""
        self._samples: dict[tuple[str, str, str, str], list[Sample]] = defaultdict(list)
        self.machine = {
            "cores": psutil.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "system": platform.system(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "postgresql": postgres,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def add(self, sample: Sample) -> None:
        """Keep a sample."""
        self._samples[sample.system, sample.config, sample.measure, sample.unit].append(sample)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each thing measured, in the order of measuring."""
        rows = []
        for (system, config, measure, unit), samples in self._samples.items():
            values = [sample.value for sample in samples]
            rows.append(
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
                }
            )
        return rows

    def median(self, system: str, config: str, measure: str) -> float | None:
        """The median of one thing measured; None when it was not."""
        found = [
            row for row in self.rows() if (row["system"], row["config"], row["measure"]) == (system, config, measure)
        ]
        return float(found[0]["median"]) if found else None

    def show(self, console: Console) -> None:
        """The whole table."""
        table = Table(title="medians [range]", title_justify="left")
        for name in ("measure", "system", "configuration"):
            table.add_column(name)
        for name in ("median", "range", "unit", "runs", "client CPU", "server CPU"):
            table.add_column(name, justify="right")
        for row in sorted(self.rows(), key=lambda row: row["measure"]):
            table.add_row(
                row["measure"],
                row["system"],
                row["config"],
                _number(row["median"]),
                f"{_number(row['min'])}–{_number(row['max'])}",
                row["unit"],
                str(row["runs"]),
                _percent(row["client_cpu"]),
                _percent(row["server_cpu"]),
            )
        console.print(table)

    def write(self, path: Path) -> None:
        """The results as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"machine": self.machine, "results": self.rows()}
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"
