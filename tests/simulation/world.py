"""One seed: a few worker processes over one store, producers, chaos, and then peace until everything has ended."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.audit import AuditedStore, Change
from tests.simulation.behaviour import ALL, FAST, LEASE, SLOW, Run
from tests.simulation.faulty import FaultyStore, Weather
from tests.simulation.virtual import ROOT, Lane, VirtualLoop, VirtualRuntime, in_lane, run

from brooq.engine.config import Config
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.error import StoreError
from brooq.vocabulary.event import Event, JobDead, JobDone, JobFailed
from brooq.vocabulary.job import Enqueued, Job, State
from brooq.vocabulary.kind import KindOptions

CHAOS = 7.0
PATIENCE = 120.0
"""Within how many virtual seconds after the last fault everything must have ended."""
KINDS = {
    "fast": KindOptions(
        max_attempts=3, attempt_timeout=1.0, max_execution_timeout=2.5, backoff_base=0.2, backoff_max=1
    ),
    "slow": KindOptions(
        max_attempts=3, attempt_timeout=6.0, max_execution_timeout=8.0, backoff_base=0.2, backoff_max=1
    ),
}


class Process:
    """A worker process: its own queue, its own way to the store, a lane for its loop and one for its lease thread."""

    def __init__(self, world: World, number: int, slots: int) -> None:
        """Nothing runs yet."""
        self.number = number
        self.main = Lane(f"process {number}")
        self.keeper = Lane(f"leases {number}", home=self.main)
        self.store = FaultyStore(world.store, world.weather, Random(world.random.random()))
        self.dead = False
        self.stops = 0
        self.troubles = self.store.troubles
        config = Config(
            workers=slots, poll_interval=1, lease=LEASE, reaper_period=1, shutdown_grace=1, retention_ttl=0,
            census_period=60,
        )  # fmt: skip
        runtime = VirtualRuntime(Random(world.random.random()), self.keeper)
        self.queue = Queue(self.store, config, name=f"w{number}", runtime=runtime)
        for topic, options in KINDS.items():
            self.queue.register_kind(topic, world.handler(self), options)
        self.queue.listen(world.heard)

    async def up(self) -> None:
        """Start, as a supervisor would: again and again."""
        while True:
            try:
                await self.queue.start()
            except StoreError:
                await asyncio.sleep(0.5)
            else:
                return

    @property
    def held(self) -> bool:
        """Whether its event loop cannot run."""
        now = asyncio.get_running_loop().time()
        return self.main.holds > 0 or any(over == now for _, over in self.main.stood)


class World:
    """Everything that there is in one seed."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        """A world without a job."""
        self.seed = seed
        self.loop = loop
        self.random = Random(seed)
        self.store = AuditedStore(loop.time)
        self.store.witness = self.witness
        self.weather = Weather()
        if self.random.random() < 0.7:
            rate = self.random.choice((0.02, 0.06))
            self.weather = Weather(before=rate, after=rate, late=0.5, hang=self.random.choice((0.0, 0.01, 0.03)))
        self.violations: list[str] = []
        self.runs: dict[tuple[UUID, int], Run] = {}
        self.told: Counter[tuple[str, UUID, int]] = Counter()
        self.jobs: dict[UUID, Job] = {}
        self.answers: list[tuple[Job, Enqueued]] = []
        self.processes: list[Process] = []
        self.all_processes: dict[int, Process] = {}
        self.canceled: list[Change] = []
        self._ids = 0

    # --- jobs ---

    def new_job(self, topic: str, do: str, *, key: str = "", parent: str = "") -> Job:
        """A job with an id that is the same at every replay, in the order of time."""
        self._ids += 1
        id = UUID(int=(7 << 76) | (self._ids << 80) | (2 << 62))
        job = Job(topic, {"do": do, "parent": parent}, idempotency_key=key, id=id)
        self.jobs[id] = job
        return job

    def handler(self, process: Process) -> Handler:
        """The one handler of every kind in one process."""

        async def handle(claim: Claim) -> None:
            line = Run(claim, process.number, process.main, self.loop.time(), self.loop.time, self.random,
                       self.new_job, lambda: self.weather.over)  # fmt: skip
            if (claim.id, claim.token) in self.runs:
                self.violate("C3", claim.id, f"claim {claim.token} ran twice")
            self.runs[claim.id, claim.token] = line
            try:
                await ALL[claim.payload["do"]](line)
            except BaseException as error:
                line.error = error
                raise
            finally:
                line.ended = self.loop.time()

        return handle

    def heard(self, event: Event) -> None:
        """A listener of every process."""
        if isinstance(event, (JobDone, JobFailed, JobDead)) and not self.weather.over:
            self.told[type(event).__name__, event.id, event.token] += 1

    def violate(self, rule: str, id: UUID | None, what: str) -> None:
        """Write down what must not be."""
        do = "" if id is None or id not in self.jobs else f" ({self.jobs[id].payload['do']})"
        name = "" if id is None else f" job {id.int >> 80}{do}"
        self.violations.append(f"{rule} at {self.loop.time():.3f}{name}: {what}")

    def witness(self, change: Change) -> None:
        """What must be true at the very moment of a change."""
        old = change.old
        if old is None or old.state is not State.PROCESSING:
            return
        line = self.runs.get((change.id, old.claim_seq))
        if change.verb == "cancel":
            self.canceled.append(change)
        if change.verb != "reap" or line is None or line.ended is not None:
            return
        process = self.all_processes[line.process]
        if line.claim.interruption is None and not process.held and not process.dead:
            # The fence comes first: a handler learns of the end of its lease before anyone else can take the job.
            self.violate("L3", change.id, f"claim {old.claim_seq} expired and its handler was not told")

    # --- what happens ---

    async def live(self) -> None:
        """Chaos, then peace."""
        random = self.random
        for _ in range(2):
            self.spawn(random.choice((1, 2, 3, 33)))
        produced = [self.task(self.produce(side)) for side in range(2)]
        chaos = self.task(self.chaos())
        await asyncio.wait([*produced, chaos])
        for each in (*produced, chaos):
            each.result()
        self.weather.clear()
        end = self.loop.time() + PATIENCE
        while self.loop.time() < end and not self.at_rest():  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.5)
        if not self.at_rest():
            left = Counter(f"{each.state}" for each in self.store.jobs if not each.state.terminal)
            busy = [dict(process.queue.busy()) for process in self.processes]
            self.violate("C16", None, f"not at rest {PATIENCE:g} s after the last fault: {dict(left)}, busy {busy}")
        await self.leave()

    def at_rest(self) -> bool:
        """Every process is up, every job has ended, and every slot is free."""
        if any(process.queue._worker is None for process in self.processes):
            return False
        return all(record.state.terminal for record in self.store.jobs) and not any(
            any(process.queue.busy().values()) for process in self.processes
        )

    def task(self, main: Any, lane: Lane = ROOT) -> asyncio.Task[Any]:
        """A task in a lane."""
        task: asyncio.Task[Any] = self.loop.create_task(main, context=in_lane(lane))
        return task

    def spawn(self, slots: int) -> Process:
        """A new process."""
        process = Process(self, len(self.all_processes), slots)
        self.processes.append(process)
        self.all_processes[process.number] = process
        self.task(process.up(), process.main)
        return process

    async def produce(self, side: int) -> None:
        """A producer; keys are the same on both sides. An unknown answer is asked for again with the same job."""
        random = self.random
        way = FaultyStore(self.store, self.weather, Random(random.random()))
        for number in range(random.randint(3, 6)):
            slow = random.random() < 0.2
            do = random.choice(sorted(SLOW if slow else FAST))
            key = f"key{number}" if random.random() < 0.4 else ""
            job = self.new_job("slow" if slow else "fast", do, key=key)
            while True:
                try:
                    (answer,) = await way.enqueue(None, [job])
                except StoreError:
                    await asyncio.sleep(random.uniform(0.05, 0.5))
                else:
                    self.answers.append((job, answer))
                    break
            await asyncio.sleep(random.uniform(0.0, 1.5))

    async def chaos(self) -> None:
        """A few faults, one after the other or together."""
        random = self.random
        deeds = (self.crash, self.pause, self.block, self.cancel, self.cancel, self.outage, self.restart)
        end = self.loop.time() + CHAOS
        done = []
        while self.loop.time() < end:
            await asyncio.sleep(random.uniform(0.2, 3.0))
            done.append(self.task(random.choice(deeds)()))
        await asyncio.sleep(2.0)
        await asyncio.wait(done)

    async def crash(self) -> None:
        """kill -9: nothing of the process ever runs again, the server rolls back; a new one starts."""
        process = self.random.choice(self.processes)
        if process.stops:
            return
        self.processes.remove(process)
        process.dead = True
        process.main.holds += 1
        process.keeper.holds += 1
        for tx in sorted(process.store.transactions, key=lambda each: sorted(each.inner.tokens)):
            self.loop.call_later(0.5, self.task, tx.lose(), context=in_lane(ROOT))
        self.spawn(self.random.choice((1, 2, 3)))

    async def pause(self) -> None:
        """SIGSTOP and SIGCONT, some time later."""
        process, seconds = self.random.choice(self.processes), self.random.choice((0.5, 1.1, 2.0)) * LEASE
        process.main.hold(seconds)
        process.keeper.hold(seconds)

    async def block(self) -> None:
        """Something holds the event loop of a process; its lease thread goes on."""
        self.random.choice(self.processes).main.hold(self.random.uniform(0.2, 2.5) * LEASE)

    async def cancel(self) -> None:
        """Somebody cancels a job."""
        if rows := self.store.jobs:
            await self.store.cancel(self.random.choice(rows).id)

    async def outage(self) -> None:
        """The database is away."""
        self.weather.outage = True
        await asyncio.sleep(self.random.uniform(0.1, 1.5) * LEASE)
        self.weather.outage = False

    async def restart(self) -> None:
        """A deploy: stop with a short grace, start again."""
        process = self.random.choice(self.processes)
        if process.stops or process.queue._worker is None:
            return
        process.stops += 1
        grace = self.random.choice((0.0, 0.5, 3.0))
        await asyncio.wait([self.task(process.queue.stop(grace), process.main)])
        await asyncio.wait([self.task(process.up(), process.main)])

    # --- the end ---

    async def leave(self) -> None:
        """Stop what lives, look for leaks, then let every left-over task unwind against a closed door."""
        for process in self.processes:
            await asyncio.wait([self.task(process.queue.close(), process.main)])
            here = asyncio.current_task()
            left = [each for lane in (process.main, process.keeper) for each in lane.tasks if not each.done()]
            # A stop leaves behind what ignores its cancellation; nothing else may stay.
            names = sorted(each.get_coro().__qualname__ for each in left if each is not here)  # type: ignore[union-attr]
            if set(names) - ({"Slots._run"} if process.stops else set()):
                self.violate("leak", None, f"process {process.number} left tasks: {names}")
        self.changes = list(self.store.changes)
        self.effects = list(self.store.effects)
        self.weather.over = True
        for process in self.all_processes.values():
            process.main.holds = process.keeper.holds = 0
        here = asyncio.current_task()
        while left := [each for each in asyncio.all_tasks() if each is not here]:
            for each in sorted(left, key=lambda task: task.get_name()):
                each.cancel()
            await asyncio.wait(left, timeout=5.0)
        for failure in self.loop.failures:
            self.violate("loop", None, f"{failure.get('message')}: {failure.get('exception')!r}")

    def digest(self) -> str:
        """The audit in a hash: the same seed has the same one in every process."""
        digest = hashlib.sha256()
        for change in self.changes:
            new = change.new
            row = None if new is None else (str(new.state), new.attempts, new.claim_seq, new.last_error)
            line = (round(change.at, 6), change.verb, change.actor.split(":")[0], change.token, change.id.int, row)
            digest.update(repr(line).encode())
        return digest.hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """The engine's log says nothing: faults are its daily bread here."""
    log = logging.getLogger("brooq")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def simulate(seed: int) -> World:
    """Live through one seed; `violations` of the answer tells."""
    from tests.simulation.checker import check

    async def main() -> World:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = World(seed, loop)
        await world.live()
        return world

    with _quiet():
        world = run(main(), random=Random(seed + 1), limit=10_000.0)
        check(world)
    return world
