"""What one sees: a progress bar on a terminal, plain lines elsewhere, the tables at the end."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from brooq import State
from examples.webhooks.checks import Verdict
from examples.webhooks.findings import Findings

EVERY = 2.0
"""Seconds between two plain lines."""
_COLORS = {State.DONE: "green", State.DEAD: "red"}


class Show:
    """Tells how far it is. A context manager: the bar is there for the length of a block."""

    def __init__(self, console: Console, total: int) -> None:
        """`total`: how many mails there are to be settled."""
        self._console = console
        self._total = total
        self._began = self._told = time.monotonic()
        columns = (
            TextColumn("mails"),
            BarColumn(30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
        )
        self._bar = Progress(*columns, console=console) if console.is_terminal else None
        self._task = self._bar.add_task("mails", total=total, now="") if self._bar else None

    def say(self, line: str) -> None:
        """One line that stays."""
        self._console.print(line, highlight=False, soft_wrap=True)

    def progress(self, settled: int, held: int, failed: int, dead: int) -> None:
        """How far it is now."""
        now = f"{held} in hand, {failed} to be retried, {dead} dead"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=settled, now=now)
        elif time.monotonic() - self._told >= EVERY or (settled == self._total and self._told > 0):
            self._told = time.monotonic() if settled < self._total else 0.0
            self.say(f"{time.monotonic() - self._began:5.1f} s  {settled} of {self._total} mails, {now}")

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The bar stays as it is."""
        if self._bar is not None:
            self._bar.stop()


def tables(console: Console, findings: Findings) -> None:
    """What came out of it."""
    console.print()
    console.print(_jobs(findings))
    console.print()
    console.print(_figures(findings))


def verdicts(console: Console, found: list[Verdict]) -> None:
    """Each check with its verdict."""
    for verdict in found:
        mark = Text("ok      ", "green") if verdict.ok else Text("FAILED  ", "bold red")
        line = Text.assemble("  ", mark, verdict.name, f": {verdict.problem}" if verdict.problem else "")
        console.print(line, soft_wrap=True)


def _jobs(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("topic")
    for state in State:
        table.add_column(str(state), justify="right", style=_COLORS.get(state))
    table.add_column("attempts", justify="right")
    for topic in sorted({row.topic for row in findings.rows}, reverse=True):
        rows = findings.of(topic)
        counts = Counter(row.state for row in rows)
        cells = [str(counts[state]) if counts[state] else "·" for state in State]
        table.add_row(topic, *cells, str(sum(row.attempts for row in rows)))
    return table


def _figures(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim")
    table.add_column()
    course, misdeeds = findings.course, findings.misdeeds
    table.add_row("deliveries", f"{len(course.keys)} sent twice, {course.created + course.created_again} jobs made")
    killed = (
        "not killed: all was over before"
        if course.killed_at is None
        else f"killed after {course.killed_at} mails, {course.held} jobs in its hands"
    )
    table.add_row("worker", killed)
    table.add_row("leases recovered", str(findings.recovered))
    table.add_row(
        "mail server",
        f"{misdeeds['temporary']} temporary refusals, {misdeeds['refused']} for ever, {misdeeds['dropped']} connections"
        f" dropped, {misdeeds['lost_answer']} answers lost, {misdeeds['slow']} slow",
    )
    table.add_row("mails delivered", f"{len(findings.mails)}")
    table.add_row("duplicates", f"{findings.duplicates} (same Message-ID: sending is at least once)")
    shares = ", ".join(f"p{share} {_seconds(findings.pickup(share / 100))}" for share in (50, 95, 99))
    table.add_row("pickup delay", f"{shares} (ready until claimed, {len(findings.waits)} claims)")
    table.add_row(
        "speed",
        f"{speed(findings):.0f} jobs/s: {len(findings.rows)} jobs in {findings.seconds:.1f} s, the kill included",
    )
    return table


def speed(findings: Findings) -> float:
    """Jobs settled a second."""
    return sum(row.state.terminal for row in findings.rows) / findings.seconds if findings.seconds else 0.0


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
