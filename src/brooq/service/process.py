"""The worker process: a thin composition over the library (requirements U1, U3)."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

from brooq.engine.loop import Pulse
from brooq.engine.queue import Queue
from brooq.engine.runtime import Runtime
from brooq.service.app import App, AppError, driver_of, probe_of
from brooq.service.health import Health
from brooq.service.http import Surface, make_application
from brooq.service.logging import Masker
from brooq.service.metrics import EngineCollector, make_registry
from brooq.service.notify import Notifier
from brooq.service.parts import Parts
from brooq.service.rotation import Rotation
from brooq.service.secret import Secret
from brooq.service.sentinel import MARGIN, Sentinel
from brooq.service.settings import Settings
from brooq.service.token import Tokens
from brooq.vocabulary.duration import to_timedelta
from brooq.vocabulary.error import ConfigError, SchemaError, StoreUnavailable
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.service.reporter import Reporter

log = logging.getLogger("brooq")

DONE, FAILED = 0, 1
CLOSING = 5.0
"""How many seconds closing connections may take at the end."""
LONGEST_WAIT = 120.0
"""Within how many seconds a start that has failed for want of a database is heard of again."""


class WorkerProcess:
    """One run of the worker, in the main thread of the process."""

    def __init__(
        self,
        settings: Settings,
        app: App,
        loop: asyncio.AbstractEventLoop,
        masker: Masker,
        *,
        listener: socket.socket | None = None,
        channel: socket.socket | None = None,
        visitor: Secret | None = None,
    ) -> None:
        """`loop` is run by `run`, and is the one that is set. `masker` knows the secrets. `listener` is a socket that
        listens on loopback; None: no HTTP surface. `channel` leads to the supervisor of several processes; None: there is
        this one alone. `visitor`: see `Parts`."""
        self._loop = loop
        self._settings = settings
        self._app = app
        self._queue: Queue | None = None
        self._collector = EngineCollector()
        self._health = Health()
        self._masker = masker
        self._notifier = Notifier()
        tokens = None if listener is None else Tokens(settings.http_token, settings.http_read_token)
        self._rotation = Rotation(masker, tokens)
        self._parts: Parts | None = None
        self._surface: Surface | None = None
        if listener is not None and tokens is not None:
            self._parts = Parts(tokens, visitor=visitor, payloads=settings.http_payloads)
            application = make_application(self._health, make_registry(self._collector), tokens, self._parts.made)
            self._surface = Surface(application, listener)
        config = settings.config
        self._sentinel = Sentinel(_seconds(config.shutdown_grace), config.lease_seconds + MARGIN, self._running_jobs)
        self._reporter: Reporter | None = None
        if channel is not None:
            from brooq.service.reporter import Reporter  # noqa: PLC0415  only one of several processes reports

            self._reporter = Reporter(
                channel, self._collector, self._health, self._beats, self._sentinel.tell, self._rotation.read
            )
        self._stop = asyncio.Event()
        self._hasten = asyncio.Event()
        self._started = asyncio.Event()

    def run(self) -> int:
        """Work until a signal; answers the exit code. Nothing here waits for a task or a thread that is stuck."""
        loop = self._loop
        self._sentinel.install(loop, self._heard)
        self._rotation.install(loop)
        if self._reporter is not None:
            self._reporter.start(loop)
        main = loop.create_task(self._main(), name="brooq worker")
        code = self._outlive(loop, main)
        self._sentinel.hurry(CLOSING)
        leftovers = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in leftovers:
            task.cancel()
        if leftovers:
            self._outlive(loop, loop.create_task(_settle(leftovers)))
        if self._reporter is not None:
            self._reporter.close()
        return code

    def _outlive(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[int]) -> int:
        """Run the loop until the task is done. SystemExit and KeyboardInterrupt in any other task leave `run_until_complete`
        as they are: they are that task's failure, and nobody else's."""
        while True:
            loop.call_soon(self._sentinel.listen)
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                log.exception(text("process.stray_exit", kind=type(error).__name__))
                if task.done():
                    return FAILED

    def _heard(self, number: int) -> None:
        """A signal, in the loop."""
        grace = self._sentinel.grace
        if number == 1:
            log.info(text("process.stopping", seconds=grace))
            self._notifier.stopping(grace + MARGIN + self._sentinel.patience + CLOSING)
            self._stop.set()
        elif number == 2:
            log.warning(text("process.hastened"))
            self._hasten.set()

    def _running_jobs(self) -> list[str]:
        queue = self._queue
        return [] if queue is None else queue.running() or queue.abandoned

    def _beats(self) -> bool:
        """Whether leases are kept; before there are any, and after the last one, nothing is amiss."""
        queue = self._queue
        return queue is None or queue.keeps_leases

    async def _main(self) -> int:
        if self._surface is not None:
            self._surface.start()
        session = asyncio.get_running_loop().create_task(self._session(), name="brooq session")
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([session, stop], return_when=asyncio.FIRST_COMPLETED)
            if session.done() or self._started.is_set():
                return await session
            # Nothing has begun: whatever is being waited for, a database most likely, is waited for no longer.
            session.cancel()
            await asyncio.wait([session], timeout=CLOSING)
            return DONE
        finally:
            stop.cancel()
            self._sentinel.hurry(2 * CLOSING)
            await self._health.close()
            if self._surface is not None and self._parts is not None:
                self._parts.end_streams()
                await self._surface.stop()
                await self._parts.close(CLOSING)
            await self._close_pool()

    async def _session(self) -> int:
        """Start, and try again for as long as there is no database; then work until the stop."""
        pulse = Pulse(text("process.start"), Runtime())
        while True:
            try:
                return await self._work(pulse)
            except StoreUnavailable as error:
                if self._started.is_set():
                    raise
                self._notifier.waiting(text("process.status_waiting"), LONGEST_WAIT)
                await asyncio.sleep(pulse.stumble(error))
            except (SchemaError, ConfigError, AppError) as error:
                log.error("%s", error)  # noqa: TRY400  the text says all there is to say
                if self._reporter is not None:
                    self._reporter.gave_up()
                return FAILED
            except Exception:
                log.exception(text("process.app_failed"))
                return FAILED

    async def _work(self, pulse: Pulse) -> int:
        async with self._app() as queue:
            self._adopt(queue)
            await queue.start()
            pulse.beat()
            self._started.set()
            self._notifier.ready(text("process.status_working", topics=", ".join(queue.kinds) or "-"))
            if self._reporter is not None:
                self._reporter.started(self._sentinel.grace, MARGIN + self._sentinel.patience)
            await self._stop.wait()
            return await self._drain(queue)

    async def _close_pool(self) -> None:
        """Whoever opened the pool of a queue that the application only names, it is of no use any more."""
        driver = None if self._queue is None else driver_of(self._queue)
        if driver is not None:
            await driver.close(2.0)

    def _adopt(self, queue: Queue) -> None:
        if self._queue is queue:
            return
        self._queue = queue
        queue.redact(self._masker)
        self._collector.watch(queue)
        self._health.watch(queue, probe_of(queue))
        if self._parts is not None:
            self._parts.watch(queue.store)
        if self._notifier.period is not None:
            queue.watchdog(self._notifier.alive, self._notifier.period)
        self._sentinel.grace = _seconds(queue.config.shutdown_grace)
        self._sentinel.patience = queue.config.lease_seconds + MARGIN
        if self._settings.given and queue.config != self._settings.config:
            log.warning(text("process.ignored", names=", ".join(sorted(self._settings.given))))

    async def _drain(self, queue: Queue) -> int:
        stopping = asyncio.ensure_future(queue.stop())
        hasten = asyncio.ensure_future(self._hasten.wait())
        await asyncio.wait([stopping, hasten], return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await queue.stop()
        await stopping
        hasten.cancel()
        self._sentinel.hurry(2 * CLOSING)
        if queue.abandoned:
            log.error(text("process.abandoned", jobs=", ".join(queue.abandoned[:20]), count=len(queue.abandoned)))
        try:
            async with asyncio.timeout(CLOSING):
                await queue.close()
        except TimeoutError:
            pass  # the process ends, and its connections with it
        return FAILED if queue.abandoned or self._hasten.is_set() else DONE


async def _settle(tasks: list[asyncio.Task[Any]]) -> int:
    await asyncio.wait(tasks, timeout=1.0)
    return DONE


def _seconds(duration: Any) -> float:
    return to_timedelta(duration).total_seconds()
