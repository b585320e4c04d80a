"""The queue: what consumers hold in their hands."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from brooq.engine import calendar
from brooq.engine.config import Config
from brooq.engine.health import Health
from brooq.engine.keeper import Watchdog
from brooq.engine.kind import Kind, Wrap, can_handle
from brooq.engine.listeners import Listener, Listeners
from brooq.engine.loop import Loop, Pulse, end_all
from brooq.engine.metrics import Metrics
from brooq.engine.reading import reading_of
from brooq.engine.reaper import Reaper
from brooq.engine.reason import sanitize
from brooq.engine.redactor import Redactor, Redactors
from brooq.engine.registry import PERIOD as REGISTRY_PERIOD
from brooq.engine.registry import Registry
from brooq.engine.retention import Retention
from brooq.engine.runtime import Runtime
from brooq.engine.sampler import Sampler
from brooq.engine.scheduler import Scheduler, job_of
from brooq.engine.store import OwnTx, Store
from brooq.engine.waker import Waker
from brooq.engine.watch import Watch
from brooq.engine.worker import Worker
from brooq.vocabulary.claim import Handler
from brooq.vocabulary.duration import Duration, to_timedelta
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.event import JobCanceled
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord, Topic
from brooq.vocabulary.kind import Isolation, KindOptions, resolve
from brooq.vocabulary.message import text
from brooq.vocabulary.schedule import Missed, Schedule, ScheduleRecord
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx

log = logging.getLogger("brooq")
H = TypeVar("H", bound=Handler)


class Queue:
    """A job queue over a store.

    Importing and constructing start nothing and open nothing (G4.9): everything happens on an explicit call.
    Producers need no `start`; workers register kinds, then `start`, or use the queue as an async context manager.
    """

    def __init__(
        self, store: Store, config: Config | None = None, *, name: str = "", runtime: Runtime | None = None
    ) -> None:
        """`name` is how this process is called in `locked_by`, the host's name unless given; a part that is new at
        every start follows it. `runtime` is the seam for tests: clock, chance, threads."""
        self.config = config or Config()
        self.metrics = Metrics()
        self.store = store
        self._name = sanitize(name or socket.gethostname(), 200)
        self._runtime = runtime or Runtime()
        self._kinds: dict[str, Kind] = {}
        self._listeners = Listeners()
        self._redactors = Redactors()
        self._watch = Watch(store)
        self._worker: Worker | None = None
        self._watchdog: Watchdog | None = None
        self._around: list[Wrap] = []
        self._prepares: list[Callable[[Job], Job]] = []
        self._registry: Registry | None = None
        self._loops: list[Loop] = []
        self._schedules: dict[str, Schedule] = {}
        self._scheduler: Scheduler | None = None
        self._waker: Waker | None = None
        self._sampler: Sampler | None = None
        self._stopped: asyncio.Event | None = None
        self._abandoned: list[str] = []

    # --- kinds ---

    def register_kind(self, topic: str, handler: Handler, options: KindOptions | None = None) -> None:
        """Run the jobs of a topic with this handler. Before `start`.

        Raises TopicError, or ConfigError with every problem of the options at once (K1).
        """
        topic = Topic(topic)
        problems = []
        if self._worker is not None:
            problems.append(text("config.kind_late", topic=topic))
        if topic in self._kinds:
            problems.append(text("config.kind_twice", topic=topic))
        if not can_handle(handler):
            problems.append(
                text("config.handler", topic=topic, handler=getattr(handler, "__qualname__", repr(handler)))
            )
        try:
            options = options or KindOptions()
            resolved = resolve(options, self.config.kind_defaults, topic)
        except ConfigError as error:
            raise ConfigError(problems + error.problems) from None
        if problems:
            raise ConfigError(problems)
        self._kinds[topic] = Kind(topic, handler, resolved, options.limits, reading=reading_of(handler, topic))
        self.metrics.add_topic(topic)

    def kind(
        self,
        topic: str,
        *,
        max_attempts: int | None = None,
        attempt_timeout: Duration | None = None,
        max_execution_timeout: Duration | None = None,
        backoff_base: Duration | None = None,
        backoff_max: Duration | None = None,
        max_running: int | None = None,
        max_running_per_key: int | None = None,
        ordered: bool = False,
        rate: int | None = None,
        rate_period: Duration | None = None,
        isolation: Isolation | None = None,
        max_memory: int | None = None,
        recycle_jobs: int | None = None,
        recycle_memory: int | None = None,
        keep_result: bool = False,
        quarantine_after: int | None = None,
    ) -> Callable[[H], H]:
        """Decorator form of `register_kind`; the handler stays as it is."""
        options = KindOptions(
            max_attempts=max_attempts,
            attempt_timeout=attempt_timeout,
            max_execution_timeout=max_execution_timeout,
            backoff_base=backoff_base,
            backoff_max=backoff_max,
            max_running=max_running,
            max_running_per_key=max_running_per_key,
            ordered=ordered,
            rate=rate,
            rate_period=rate_period,
            isolation=isolation,
            max_memory=max_memory,
            recycle_jobs=recycle_jobs,
            recycle_memory=recycle_memory,
            keep_result=keep_result,
            quarantine_after=quarantine_after,
        )

        def register(handler: H) -> H:
            self.register_kind(topic, handler, options)
            return handler

        return register

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds registered, by topic."""
        return dict(self._kinds)

    def listen(self, listener: Listener) -> None:
        """Call `listener(event)` at every event of this process (V3). It must not block; one that raises is logged."""
        self._listeners.add(listener)

    def redact(self, redactor: Redactor) -> None:
        """Send the text of every failure through `redactor(text)` before it is stored in `last_error` and told to
        listeners: for secrets that exceptions quote. It must not block; when it raises, the text is withheld."""
        self._redactors.add(redactor)

    def around(self, wrap: Wrap) -> None:
        """Run every handler within what `wrap(call)` answers: a coroutine function that takes the claim and awaits
        `call(claim)`, in the worker's loop also for handlers in threads and processes. For tracing and the like; what it
        raises is the attempt's failure. Before `start`."""
        self._around.append(wrap)

    def prepare(self, prepare: Callable[[Job], Job]) -> None:
        """Send every job that is enqueued through this queue through `prepare(job)`, which may add to its metadata. What
        it raises, whoever enqueues gets."""
        self._prepares.append(prepare)

    def watchdog(self, feed: Callable[[], object], period: Duration) -> None:
        """Call `feed()` every `period` for as long as leases are kept, in the thread that keeps them: handlers that block
        the event loop do not hold it up, and neither does a database that is away. Before `start`; it must not block."""
        self._watchdog = Watchdog(feed, to_timedelta(period).total_seconds())

    # --- producing ---

    async def enqueue(self, job: Job) -> Enqueued:
        """Enqueue a job durably; answers `(id, created)` (E2).

        Raises PayloadError naming the place; StoreUnavailable; OutcomeUnknown when the answer was lost and could not be
        found out: calling again with the same Job object is safe, its id tells.
        """
        (answer,) = await self.enqueue_many([job])
        return answer

    async def enqueue_many(self, jobs: Iterable[Job]) -> list[Enqueued]:
        """Enqueue jobs in one transaction: all or none; answers in order. Payloads are read until it answers.

        Jobs may be made meanwhile, by a generator for example, while the server writes those before; the transaction is
        open then. What the iterable raises reaches the caller, and leaves nothing.
        """
        answers = await self.store.enqueue(None, self._prepared(jobs))
        if self._worker is not None:
            self._worker.nudge()
        return answers

    async def enqueue_tx(self, tx: Tx, job: Job) -> Enqueued:
        """Enqueue inside the caller's own transaction (E3): commit makes the job visible, rollback leaves none.

        A duplicate key never aborts the transaction. The driver's errors reach the caller unchanged.
        """
        (answer,) = await self.enqueue_many_tx(tx, [job])
        return answer

    async def enqueue_many_tx(self, tx: Tx, jobs: Iterable[Job]) -> list[Enqueued]:
        """Enqueue jobs inside the caller's own transaction, in one statement; answers in order."""
        return await self.store.enqueue(tx, self._prepared(jobs))

    def _prepared(self, jobs: Iterable[Job]) -> Iterable[Job]:
        for prepare in self._prepares:
            jobs = map(prepare, jobs)
        return jobs

    async def begin(self) -> OwnTx:
        """Open a transaction of the queue's own (T3). Whoever called closes it, by `commit` or `rollback`."""
        return await self.store.begin()

    async def cancel(self, id: UUID | str) -> Cancellation:
        """Cancel a job that is not terminal; answers what was found (I3, I4).

        A handler that is running it is interrupted at once with wake-ups on, else at its next renewal, a third of the lease
        later at most.
        """
        id = id if isinstance(id, UUID) else UUID(id)
        answer = await self.store.cancel(id)
        if self._worker is not None:
            self._worker.doubt([id])
        if answer.canceled and answer.topic is not None:
            self._listeners.emit(JobCanceled(id, answer.topic))
        return answer

    async def find(self, id: UUID | str) -> JobRecord | None:
        """A job's row as it is now: one SELECT tells its fate (G3). None when there is no such job."""
        return await self.store.find(id if isinstance(id, UUID) else UUID(id))

    async def pause(self, topic: str, reason: str | None = None, *, by: str = "") -> bool:
        """Let no worker of the fleet claim from a topic until `resume`; False: it is paused already.

        Once it is answered no claim takes from it; jobs that were claimed go on, and enqueues do too. `by` and `reason`
        are written down; `by` is this queue's name unless given. Raises TopicError; StoreBusy when a claim from before
        did not end in time: the topic is paused all the same.
        """
        return await self.store.pause(Topic(topic), self._actor(by), self._reason(reason))

    async def resume(self, topic: str, reason: str | None = None, *, by: str = "") -> bool:
        """Let workers claim from a topic again; False: it was not paused."""
        done = await self.store.resume(Topic(topic), self._actor(by), self._reason(reason))
        if self._worker is not None:
            self._worker.nudge()
        return done

    async def limit(self, topic: str, limits: Limits | None, reason: str | None = None, *, by: str = "") -> bool:
        """Limit a topic over all workers, whatever their code declares; None hands it back to what the code declares.

        Once it is answered every claim keeps the new limits; jobs that were claimed before go on. False: there was
        nothing set by hand to hand back. Raises TopicError; StoreBusy when a claim from before did not end in time:
        the limits are set all the same.
        """
        return await self.store.limit(Topic(topic), limits, self._actor(by), self._reason(reason))

    async def topics(self) -> list[TopicRecord]:
        """What is set for topics, by name: pauses and limits. Topics that nothing is set for are not in it."""
        return await self.store.topics()

    def _actor(self, by: str) -> str:
        return sanitize(by, 200) if by else self._name

    def _reason(self, reason: str | None) -> str | None:
        return sanitize(reason, 1000) if reason else None

    async def wait(self, id: UUID | str, timeout: Duration | None = None) -> JobRecord:
        """A job's row once it is at its end: `done`, `dead` or `canceled`, with the result where its kind keeps one.

        The store is asked after 20 ms, and less and less often, up to once a second; many who wait share one question.
        None waits for ever, through outages too. Raises TimeoutError; JobNotFound when there is no such job.
        """
        seconds = None if timeout is None else to_timedelta(timeout).total_seconds()
        return await self._watch.wait(id if isinstance(id, UUID) else UUID(id), seconds)

    # --- periodic jobs ---

    def cron(
        self,
        cron: str,
        topic: str,
        *,
        name: str = "",
        timezone: str = "UTC",
        payload: Any = None,
        missed: str = Missed.ONCE,
        missed_limit: int = 100,
        priority: int = 0,
        concurrency_key: str = "",
        options: KindOptions | None = None,
    ) -> Callable[[H], H]:
        """Run a handler at every tick: registers the kind, and declares the schedule (named as the topic unless given) at
        every start of a worker. Needs the extra `cron`. Raises ConfigError; see `Schedule`."""
        schedule = Schedule(
            name or topic, cron, topic, payload, timezone, missed, missed_limit, priority, None, concurrency_key
        )

        def register(handler: H) -> H:
            self.declare_schedule(schedule)
            self.register_kind(topic, handler, options)
            return handler

        return register

    def declare_schedule(self, schedule: Schedule) -> None:
        """Set this periodic job at every start of a worker, unless somebody has set it by hand. One that code declares no
        more is taken away by the next worker of its topic. Before `start`. Raises ConfigError."""
        calendar.first(schedule.cron, schedule.timezone, datetime.now(UTC))
        if self._worker is not None or schedule.name in self._schedules:
            raise ConfigError([text("schedule.twice", name=schedule.name)])
        self._schedules[schedule.name] = schedule

    async def schedule(self, schedule: Schedule, reason: str | None = None, *, by: str = "") -> None:
        """Set a periodic job now, whatever code declares. Workers know of it within seconds. Raises ConfigError."""
        calendar.first(schedule.cron, schedule.timezone, datetime.now(UTC))
        now = (await self.store.schedules()).now
        first = calendar.first(schedule.cron, schedule.timezone, now)
        await self.store.schedule(schedule, first, self._actor(by), self._reason(reason))

    async def unschedule(self, name: str, reason: str | None = None, *, by: str = "") -> bool:
        """Take a periodic job away; False: there is none. One that code declares comes back at the next start."""
        return await self.store.unschedule(name, self._actor(by), self._reason(reason))

    async def pause_schedule(self, name: str, reason: str | None = None, *, by: str = "") -> bool:
        """Let the ticks of a periodic job pass without a job; False: there is none, or it is paused already."""
        actor, why = self._actor(by), self._reason(reason)
        return await self.store.hold_schedule(name, actor, why, paused=True, next_at=None)

    async def resume_schedule(self, name: str, reason: str | None = None, *, by: str = "") -> bool:
        """Let a periodic job go on with its next tick; those of the pause are left out. False: it was not paused."""
        found = await self.store.schedules()
        record = found.named(name)
        if record is None:
            return False
        first = calendar.first(record.cron, record.timezone, found.now)
        actor, why = self._actor(by), self._reason(reason)
        return await self.store.hold_schedule(name, actor, why, paused=False, next_at=first)

    async def run_schedule(self, name: str) -> Enqueued | None:
        """Enqueue a job of a periodic one now, beside its ticks; None: there is no such schedule."""
        record = (await self.store.schedules()).named(name)
        return None if record is None else await self.enqueue(job_of(record, None))

    async def schedules(self) -> list[ScheduleRecord]:
        """The periodic jobs, by name."""
        return (await self.store.schedules()).schedules

    async def _declare(self) -> None:
        """What the code of this queue asks for."""
        if not self._kinds:
            return
        await self.store.declare({topic: kind.limits for topic, kind in self._kinds.items()})
        if self._schedules:
            now = (await self.store.schedules(due=True)).now  # the store's time, which ticks are counted by
            for schedule in self._schedules.values():
                await self.store.schedule(schedule, calendar.first(schedule.cron, schedule.timezone, now), None)
        await self.store.retire(sorted(self._kinds), sorted(self._schedules))

    # --- working ---

    async def start(self) -> None:
        """Start working in the running event loop; returns once the schema is checked and everything runs.

        Raises SchemaError, StoreUnavailable, and ConfigError when the queue runs already.
        """
        if self._worker is not None:
            raise ConfigError([text("config.already_started")])
        try:
            await self.store.open()
            await self._declare()
        except BaseException:
            if self._worker is None:
                await self.store.close()  # whoever could not start it does not think of closing it
            raise
        if self._worker is not None:  # started by somebody else meanwhile
            raise ConfigError([text("config.already_started")])
        if not self._kinds:
            log.warning(text("config.no_kinds"))
        name = f"{self._name}:{os.getpid()}:{os.urandom(4).hex()}"
        config = self.config
        worker = Worker(
            self.store,
            name,
            self._kinds,
            config,
            self.metrics,
            self._listeners,
            self._runtime,
            self._redactors,
            self._around,
        )
        worker.keeper.watchdog = self._watchdog
        registry = Registry(self.store, worker, config.workers, tuple(self._kinds), self._runtime)
        self._loops = self._make_loops(worker, registry)
        self._sampler = Sampler(self.store, self.metrics, self._runtime)
        self._worker = worker
        self._registry = registry
        self._stopped = asyncio.Event()
        worker.start()
        for loop in self._loops:
            loop.start()
        if self._kinds and calendar.available():
            self._scheduler = Scheduler(self.store, worker.nudge, self._runtime)
            self._scheduler.start()
        bell = self.store.bell(list(self._kinds))
        if bell is not None:
            self._waker = Waker(
                bell, worker.nudge, worker.rung, self.metrics.claimed.total, self._runtime, worker.doubt
            )
            self._waker.start()
        log.info(text("engine.started", worker=name, slots=config.workers, topics=", ".join(self._kinds) or "-"))

    def _make_loops(self, worker: Worker, registry: Registry) -> list[Loop]:
        """What is done again and again beside the jobs."""
        config, runtime = self.config, self._runtime
        reaper = Reaper(self.store, self.metrics, self._listeners.emit)
        retention_ttl = to_timedelta(config.retention_ttl)
        retention = Retention(self.store, self.metrics, retention_ttl, config.retention_batch)
        loops = [
            Loop("poll", to_timedelta(config.poll_interval).total_seconds(), worker.poll, runtime),
            Loop("reaper", config.reaper_seconds, reaper.tick, runtime),
            Loop("census", to_timedelta(config.census_period).total_seconds(), self.take_census, runtime),
            Loop("registry", REGISTRY_PERIOD, registry.tick, runtime),
        ]
        if retention_ttl:
            loops.append(Loop("retention", config.retention_seconds, retention.tick, runtime))
        return loops

    async def stop(self, grace: Duration | None = None) -> None:
        """Stop working: claim no more, let running handlers end within `grace` (by default `shutdown_grace`), interrupt
        the rest and hand their jobs back with the attempt (U3). A second call while the first is under way ends the
        grace at once. Nothing happens when the queue does not run.
        """
        worker, stopped = self._worker, self._stopped
        if worker is None or stopped is None:
            return
        if worker.stopping:
            worker.hasten()
            await stopped.wait()
            return
        seconds = to_timedelta(self.config.shutdown_grace if grace is None else grace).total_seconds()
        ends = [loop.stop for loop in self._loops]
        ends += [part.stop for part in (self._waker, self._scheduler) if part is not None]
        ends += [self._registry.leave] if self._registry is not None else []
        try:
            await end_all(partial(worker.stop, seconds), *ends)
        finally:
            self._loops = []
            self._waker = self._scheduler = self._registry = None
            self._abandoned = [f"{attempt.topic} {attempt.id}" for attempt in worker.abandoned]
            self._worker = None
            stopped.set()
        log.info(text("engine.stopped", worker=worker.name))

    async def close(self) -> None:
        """Stop, and let go of the engine's own connections. The consumer's pool stays open (T6)."""
        try:
            await self.stop()
        finally:
            await self.store.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    # --- looking ---

    @property
    def abandoned(self) -> list[str]:
        """`topic id` of every job whose handler had not exited when the queue stopped last."""
        return list(self._abandoned)

    def running(self) -> list[str]:
        """`topic id` of every job whose handler runs now, hung handlers included."""
        return [] if self._worker is None else self._worker.running()

    def busy(self) -> dict[str, int]:
        """How many slots each topic occupies now, hung handlers included."""
        return {} if self._worker is None else self._worker.busy()

    @property
    def keeps_leases(self) -> bool:
        """Whether the lease keeper is at work, or there is nothing for it to do since the queue does not run."""
        return self._worker is None or self._worker.stopping or self._worker.keeper.alive

    def health(self) -> Health:
        """What is well and what is not, without asking the database."""
        worker = self._worker
        if worker is None:
            return Health(running=False, loops={}, slots_hung=False)
        pulses: list[Pulse] = [*worker.pulses, *(loop.pulse for loop in self._loops)]
        if self._scheduler is not None:
            pulses.append(self._scheduler.pulse)
        loops = {pulse.name: pulse.well for pulse in pulses}
        loops[worker.keeper.pulse.name] = worker.keeper.alive and worker.keeper.pulse.well
        return Health(running=True, loops=loops, slots_hung=worker.all_hung)

    async def take_census(self) -> None:
        """Read the table's depths into the metrics; runs every `census_period` while the queue does."""
        census = await self.store.census(sorted(self._kinds))
        self.metrics.set_census(census, self._runtime.clock())
        if self._sampler is not None:
            await self._sampler.tick()
