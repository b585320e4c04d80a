"""A process's end of the channel: it tells, it hears, and it notices when nobody is there any more."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from tests.service.server import eventually

from brooq.service import channel
from brooq.service.channel import pack, unpack
from brooq.service.health import OK, UNASKED, Report
from brooq.service.reporter import Reporter

WELL = Report(OK, OK, {"poll": OK}, OK, running=True)
ALIVE = Report(UNASKED, UNASKED, {"poll": OK}, OK, running=True)


class Counted(Collector):
    """One counter; `trouble` is raised so often before it can be read."""

    def __init__(self) -> None:
        self.value = 0.0
        self.series = 1
        self.trouble: list[Exception] = []

    def collect(self) -> Iterable[Metric]:
        if self.trouble:
            raise self.trouble.pop()
        family = CounterMetricFamily("brooq_things", "Things.", labels=["topic"])
        for number in range(self.series):
            family.add_metric([f"t{number}"], self.value)
        yield family


class Far:
    """The supervisor's end."""

    def __init__(
        self, end: socket.socket, numbers: Counted, stops: list[int], rotations: asyncio.Event, reporter: Reporter
    ) -> None:
        self.end = end
        self.numbers = numbers
        self.stops = stops
        self.rotations = rotations
        self.reporter = reporter
        self.told = 0.0
        self.file = end.makefile("rb")

    def read(self, word: str) -> Any:
        """The value of the next line with this word; numbers are added up on the way."""
        while True:
            line = self.file.readline()
            assert line, f"the channel ended before {word!r}"
            said, value = unpack(line)
            if said == channel.NUMBERS:
                self.told += sum(sample[2] for family in value for sample in family[3])
            if said == word:
                return value


class Examined:
    """A process that is well."""

    async def report(self) -> Report:
        """With its database."""
        return WELL

    async def liveness(self) -> Report:
        """By itself."""
        return ALIVE


@asynccontextmanager
async def talking() -> AsyncIterator[Far]:
    """A reporter that runs."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    numbers, stops, rotations = Counted(), list[int](), asyncio.Event()

    reporter = Reporter(ours, numbers, Examined(), lambda: True, stops.append, rotations.set)
    reporter.start(asyncio.get_running_loop())
    far = Far(theirs, numbers, stops, rotations, reporter)
    try:
        assert await asyncio.to_thread(far.read, channel.HELLO) is None
        yield far
    finally:
        await asyncio.to_thread(reporter.close)
        far.file.close()
        theirs.close()


async def test_it_tells_how_its_numbers_grow_and_the_last_of_them_at_its_end() -> None:
    async with talking() as far:
        far.numbers.value = 3
        await asyncio.to_thread(far.read, channel.NUMBERS)
        await eventually(lambda: far.read(channel.NUMBERS) is not None and far.told == 3)
        far.numbers.value = 5
        await asyncio.to_thread(far.reporter.close)
        with pytest.raises(AssertionError, match="the channel ended"):
            await asyncio.to_thread(far.read, channel.HELLO)
        assert far.told == 5


async def test_it_hears_how_many_signals_there_were_and_answers_for_its_health() -> None:
    async with talking() as far:
        far.end.sendall(pack(channel.STOP, 1) + pack(channel.HEALTH) + pack(channel.STOP, 2)[:3])
        assert Report.from_json(await asyncio.to_thread(far.read, channel.HEALTH)) == WELL
        far.end.sendall(pack(channel.STOP, 2)[3:] + pack(channel.LIVENESS))
        assert Report.from_json(await asyncio.to_thread(far.read, channel.LIVENESS)) == ALIVE
        assert await asyncio.to_thread(far.read, channel.BEAT) is True
        await eventually(lambda: far.stops == [1, 2])


async def test_it_hears_that_tokens_are_to_be_read_anew() -> None:
    async with talking() as far:
        far.end.sendall(pack(channel.ROTATE))
        async with asyncio.timeout(20):
            await far.rotations.wait()


async def test_it_tells_what_has_begun_and_what_is_given_up() -> None:
    async with talking() as far:
        far.reporter.started(30.0, 125.0)
        far.reporter.gave_up()
        assert await asyncio.to_thread(far.read, channel.STARTED) == [30.0, 125.0]
        assert await asyncio.to_thread(far.read, channel.GAVE_UP) is None


async def test_a_supervisor_that_is_gone_means_a_stop() -> None:
    async with talking() as far:
        far.end.shutdown(socket.SHUT_RDWR)
        await eventually(lambda: far.stops == [1])


async def test_a_channel_that_is_broken_means_a_stop_too(caplog: pytest.LogCaptureFixture) -> None:
    async with talking() as far:
        far.numbers.trouble = [ValueError("not to be counted")]
        await eventually(lambda: far.stops == [1])
    assert "the channel to the process that supervises this one is broken" in caplog.text


async def test_what_changes_while_it_is_counted_is_counted_again() -> None:
    async with talking() as far:
        far.numbers.value = 2
        far.numbers.trouble = [RuntimeError("dictionary changed size during iteration")] * 3
        await eventually(lambda: far.read(channel.NUMBERS) is not None and far.told == 2)
        assert far.stops == []


async def test_a_supervisor_that_does_not_read_costs_neither_memory_nor_the_end() -> None:
    async with talking() as far:
        far.numbers.series = 20_000  # far more in a line than the channel holds
        await eventually(lambda: not far.numbers.trouble and _full(far.end))
        closing = threading.Thread(target=far.reporter.close)
        closing.start()
        await asyncio.to_thread(closing.join, 20)
        assert not closing.is_alive()


def _full(end: socket.socket) -> bool:
    """Whether more has come than a line without changes, and waits to be read."""
    return len(end.recv(65536, socket.MSG_PEEK)) > 10_000
