"""Enqueueing a job for every line of a file, in batches: a bad line leaves nothing of its batch behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import BinaryIO

from brooq.engine.queue import Queue
from brooq.vocabulary.error import BrooqError, OutcomeUnknown, PayloadError
from brooq.vocabulary.job import Job, Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import MAX_BYTES, encode

BATCH = 1000
"""Lines in one transaction."""
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Fewer lines, when they are long."""
_BOM = b"\xef\xbb\xbf"


class LineError(BrooqError):
    """A line that is no payload, or a batch that could not be written."""


class Bulk:
    """One run; `enqueued` and `created` tell how far it has come, whatever ends it."""

    def __init__(self, topic: Topic, available_at: datetime | None) -> None:
        """Every job gets this topic and this moment."""
        self.enqueued = 0
        self.created = 0
        self._topic = topic
        self._available_at = available_at

    async def run(self, queue: Queue, source: BinaryIO, size: int | None) -> None:
        """Enqueue every line that is not blank. `size` in bytes is for the progress bar.

        Raises LineError naming the line, StoreUnavailable, and OutcomeUnknown naming the lines of the batch.
        """
        with _progress(size) as advance:
            batch: list[tuple[int, bytes]] = []
            waiting = 0
            for number, line, length in _lines(source):
                advance(length)
                if line:
                    batch.append((number, line))
                    waiting += length
                if len(batch) >= BATCH or waiting >= MAX_BATCH_BYTES:
                    await self._write(queue, batch)
                    batch, waiting = [], 0
            await self._write(queue, batch)

    async def _write(self, queue: Queue, batch: list[tuple[int, bytes]]) -> None:
        if not batch:
            return
        jobs = [Job(self._topic, line, available_at=self._available_at) for _, line in batch]
        try:
            answers = await queue.enqueue_many(jobs)
        except PayloadError:
            raise _blame(batch) from None
        except OutcomeUnknown as error:
            first, last = batch[0][0], batch[-1][0]
            raise LineError(text("command.lines_unknown", first=first, last=last, reason=error)) from None
        self.enqueued += len(answers)
        self.created += sum(answer.created for answer in answers)


def _blame(batch: list[tuple[int, bytes]]) -> LineError:
    """Which line it was: looked for only now, so that good files pay nothing."""
    for number, line in batch:
        problem = payload_problem(line)
        if problem is not None:
            return LineError(text("command.bad_line", number=number, reason=problem))
    raise AssertionError("one of them was refused")


def payload_problem(source: bytes) -> str | None:
    """Why this is no payload; None: it is one."""
    try:
        json.loads(source.decode("utf-8"))
    except RecursionError:
        pass  # told by the vocabulary, as whatever else jsonb does not take
    except ValueError as error:
        return text("command.not_json", reason=error)
    try:
        encode(source)
    except PayloadError as error:
        return str(error)
    return None


def _lines(source: BinaryIO) -> Iterator[tuple[int, bytes, int]]:
    """Every line with its number from 1, stripped, and its length as read."""
    number = 0
    while line := source.readline(MAX_BYTES + 2):
        number += 1
        length = len(line)
        if length > MAX_BYTES + 1:
            raise LineError(text("command.bad_line", number=number, reason=text("command.line_long", limit=MAX_BYTES)))
        yield number, line.removeprefix(_BOM if number == 1 else b"").strip(), length


@contextmanager
def _progress(size: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  only a terminal needs it
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda length: progress.advance(task, length)
