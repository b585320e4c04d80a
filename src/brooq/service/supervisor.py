"""`brooq worker --processes N`: starts N worker processes, keeps them running, speaks for them, and ends them.

It holds no queue, and no connection but for what is shown on the surface: the application is loaded by the processes alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from brooq.postgres.store import PostgresStore
from brooq.service.channel import HEALTH, LIVENESS
from brooq.service.child import Child, Ending
from brooq.service.health import Together
from brooq.service.http import Surface, make_application
from brooq.service.logging import Masker
from brooq.service.metrics import make_registry
from brooq.service.notify import Notifier
from brooq.service.parts import Parts, make_store
from brooq.service.rotation import Rotation
from brooq.service.secret import Secret
from brooq.service.sentinel import MARGIN, SIGNALS
from brooq.service.settings import Settings
from brooq.service.tally import Tally
from brooq.service.token import Tokens
from brooq.vocabulary.duration import to_timedelta
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
SETTLED: Final = 60.0
"""A process that ran for so many seconds was well: the next pause is short again."""
SHORTEST, LONGEST = 0.5, 30.0
"""Bounds of the pause before a restart, in seconds; it doubles in between, and is jittered down to the half."""
_LOOK, _BEAT = 0.2, 1.0
SPARE = 10.0
"""How many seconds longer than its processes the supervisor may take to end."""


def same_command() -> list[str]:
    """How this very program was started, without its arguments: interpreter, its options, script or module."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]


class Supervisor:
    """The parent of several worker processes."""

    def __init__(
        self,
        settings: Settings,
        command: Callable[[int, int], Sequence[str]],
        listener: socket.socket | None,
        masker: Masker,
        random: Random | None = None,
        visitor: Secret | None = None,
    ) -> None:
        """`command(number, descriptor)` starts the process of a number (from 1), whose channel is the descriptor;
        `listener` is a socket that listens on loopback; None: no HTTP surface. `masker` knows the secrets.
        `random` jitters pauses. `visitor`: see `Parts`."""
        config = settings.config
        limits = (to_timedelta(config.shutdown_grace).total_seconds(), config.lease_seconds + 2 * MARGIN)
        tally = Tally()
        self._children = [Child(number, command, tally, limits) for number in range(1, settings.processes + 1)]
        self._random = random or Random()  # noqa: S311  jitter is no secret
        tokens = None if listener is None else Tokens(settings.http_token, settings.http_read_token)
        # The processes have no surface, and hide the new tokens in what they log and store all the same.
        self._rotation = Rotation(masker, tokens, self._rotate)
        self._notifier = Notifier()
        self._settings = settings
        self._parts: Parts | None = None
        self._surface: Surface | None = None
        if listener is not None and tokens is not None:
            registry = make_registry(tally, Processes(self._children))
            self._parts = Parts(tokens, visitor=visitor, payloads=settings.http_payloads)
            self._surface = Surface(make_application(self, registry, tokens, self._parts.made), listener)
        self._stop = asyncio.Event()
        self._heard: list[float] = []
        self._worked = False
        self._rest = asyncio.Event()

    def run(self) -> int:
        """Work until a signal, or until the processes cannot work; answers the exit code: the worst of theirs."""
        return asyncio.run(self._main())

    async def report(self) -> Together:
        """How every process is, and its way to the database."""
        return await self._reports(HEALTH)

    async def liveness(self) -> Together:
        """How every process is."""
        return await self._reports(LIVENESS)

    async def _reports(self, word: str) -> Together:
        reports = await asyncio.gather(*(child.health(word) for child in self._children))
        return Together({child.number: said for child, said in zip(self._children, reports, strict=True)})

    async def _main(self) -> int:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._signal)
        self._rotation.install(loop)
        store = None
        if self._surface is not None:
            self._surface.start()
            store = await self._show()
        log.info(text("process.supervising", count=len(self._children)))
        watches = [asyncio.ensure_future(each) for each in (self._end_in_time(), self._notify())]
        try:
            codes = await asyncio.gather(*(self._keep(child) for child in self._children))
        finally:
            for watch in watches:
                watch.cancel()
            if self._surface is not None and self._parts is not None:
                self._parts.end_streams()
                await self._surface.stop()
                await self._parts.close(SPARE)
            if store is not None:
                await store.driver.close(SPARE)
        log.info(text("process.all_ended", code=max(codes)))
        return max(codes)

    async def _show(self) -> PostgresStore | None:
        """A store for the parts of the surface: the one that the settings name, the application being the processes'."""
        store = None if self._parts is None else make_store(self._settings)
        if store is not None and self._parts is not None:
            await store.driver.open()
            self._parts.watch(store)
        return store

    async def _notify(self) -> None:
        """Tell the service manager when the first process works, and that all of them keep their leases."""
        status = text("process.supervising", count=len(self._children))
        while not self._worked and not self._stop.is_set():
            self._notifier.waiting(status, 2 * LONGEST)
            await _first_within(_BEAT, self._stop)
        if self._worked:
            self._notifier.ready(status)
        period = self._notifier.period
        while period is not None and not self._stop.is_set():
            if all(child.beats for child in self._children):
                self._notifier.alive()
            await asyncio.sleep(period)

    def _signal(self) -> None:
        if not self._heard:
            self._notifier.stopping(max(child.limit for child in self._children) + SPARE)
        log.info(text("process.passing_on", count=len(self._heard) + 1))
        self._tell_all()

    def _rotate(self) -> None:
        for child in self._children:
            child.rotate()

    def _tell_all(self) -> None:
        self._heard.append(time.monotonic())
        self._stop.set()
        for child in self._children:
            child.stop(len(self._heard))

    async def _end_in_time(self) -> None:
        await self._stop.wait()
        while True:
            for child in self._children:
                child.end_if_overdue(self._heard)
            await asyncio.sleep(_LOOK)

    async def _keep(self, child: Child) -> int:
        """One process after the other in this place; answers the exit code of the last."""
        if child is not self._children[0]:
            # What is wrong with the settings, the application or the schema is told once, and not by every process. A first
            # one that works, or is killed, says that nothing is wrong.
            await _first(self._rest, self._stop)
        failures = 0
        while not self._stop.is_set():
            try:
                ending = await self._live(child)
            except OSError as error:
                log.error(text("process.unstarted", number=child.number, reason=error))  # noqa: TRY400
                ending = Ending(0, FAILED, 0.0, greeted=False, gave_up=False)
            if self._stop.is_set():
                return judged(ending)
            if self._is_final(ending):
                log.error(text("process.final", number=child.number, code=ending.code))
                self._tell_all()
                return ending.code
            self._rest.set()
            failures = 1 if ending.seconds >= SETTLED else failures + 1
            await self._pause(child, ending, failures)
        return DONE

    async def _live(self, child: Child) -> Ending:
        life = asyncio.ensure_future(child.live())
        started = asyncio.ensure_future(child.started.wait())
        await asyncio.wait([life, started], return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            self._worked = True
            self._rest.set()
        started.cancel()
        return await life

    def _is_final(self, ending: Ending) -> bool:
        """Whether another start would end alike: wrong usage, settings or schema; and whatever it is, as long as no process
        has ever worked. A signal says nothing of the kind."""
        return ending.gave_up or ending.code == WRONG or (ending.code > 0 and not self._worked)

    async def _pause(self, child: Child, ending: Ending, failures: int) -> None:
        seconds = pause(failures, self._random.random())
        known = {"number": child.number, "pid": ending.pid, "ran": ending.seconds, "seconds": seconds}
        if ending.code < 0:
            log.error(text("process.killed", signal=_signal_name(-ending.code), **known))
        elif ending.code > 0:
            log.error(text("process.exited", code=ending.code, **known))
        else:
            log.info(text("process.exited", code=ending.code, **known))
        child.restarts += 1
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            pass


def pause(failures: int, chance: float) -> float:
    """How many seconds to wait before a restart, after so many failures in a row; `chance` is between 0 and 1."""
    top = min(SHORTEST * 2.0 ** min(failures - 1, 10), LONGEST)
    return top / 2 + chance * top / 2


async def _first_within(seconds: float, *events: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(_first(*events), seconds)
    except TimeoutError:
        pass


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def judged(ending: Ending) -> int:
    """The exit code of a process that was told to end. One that had not begun may end by the signal itself."""
    if ending.code >= 0 and ending.code != INTERRUPTED:
        return ending.code
    by_signal = ending.code in {INTERRUPTED, *(-each for each in SIGNALS)}
    return DONE if by_signal and not ending.greeted else FAILED


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class Processes(Collector):
    """What the supervisor knows of every process."""

    def __init__(self, children: Sequence[Child]) -> None:
        """These are looked at."""
        self._children = children

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Every family."""
        labels = ["process"]
        up = GaugeMetricFamily("brooq_process_up", "Whether the worker process works and says so.", labels=labels)
        age = GaugeMetricFamily(
            "brooq_process_report_age_seconds", "How old the numbers of the worker process are.", labels=labels
        )
        restarts = CounterMetricFamily(
            "brooq_process_restarts", "How often the worker process ended unasked and was started anew.", labels=labels
        )
        for child in self._children:
            number = [str(child.number)]
            up.add_metric(number, child.up)
            age.add_metric(number, child.silence)
            restarts.add_metric(number, child.restarts)
        yield from (up, age, restarts)
