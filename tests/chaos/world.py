"""One chaos run: the standard workload on real processes, faults by a plan, and the checker's verdict at the end."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.chaos.doom import POINTS, RARE
from tests.chaos.measure import recoveries
from tests.chaos.plan import LEASE, PROCESSES, REAPER, Order, Scenario, Step, orders, steps
from tests.chaos.processes import ROOT, Processes
from tests.chaos.server import DROWSY, Server, tmpfs
from tests.chaos.tries import Zombies, zombies
from tests.chaos.worker import NAME, Setup
from tests.pooler import Pooler
from tests.proxy import Mode, Proxy

from brooq import Job, Queue
from brooq.postgres import PostgresStore, audit, migrate, open_pool
from brooq.service.journal import Lines, ProducerLog
from brooq.service.verify.inspection import Inspection, Sources, inspect
from brooq.service.verify.life import Rules
from brooq.vocabulary.error import StoreError

__all__ = ["ROOT", "Result", "World", "opened", "run"]
PATIENCE = 180.0
"""How many seconds after the last fault the queue may take to come to rest."""
HAUNTING = 10.0
"""How many seconds a paused process waits at most until others have claimed its jobs."""
CROWD = 3 * PROCESSES
"""How many processes there are at most while some of them wait for the point where they die."""
STARTING = 10.0
"""How many seconds a process may take at most until it has jobs in hand."""
MOURNING = 30.0
"""How many seconds after its start a process has to have come to the point where it dies."""
PACE = 0.025
"""How many seconds lie between two jobs that come for those who wait for that point alone."""
UNKNOWN = "unknown"
"""The file that makes the name of the server an unknown one; whoever asks for it leaves a mark there."""
MARKERS = (
    b"with settled as (",
    b"with steered as ",
    b"with recursive limits as",
    b"insert into ",
    b"for no key update of job skip locked",
    b"COMMIT",
)
"""Whose answers are eaten: outcomes and claims, claims of one topic, those within limits, jobs, renewals, closing
transactions."""
LEFT = "select count(*) from job where state in ('pending', 'processing', 'failed')"


@dataclass
class Result:
    """What a run has come to."""

    scenario: str
    faults: str
    seed: int
    jobs: int
    done: dict[str, int]
    """How often each fault was done."""
    seconds: float
    inspection: Inspection
    recovery: list[float]
    """From a kill until the job was back in circulation, in seconds."""
    rest: float
    """From the last fault until nothing was left, in seconds."""
    folder: Path
    eaten: int = 0
    zombies: Zombies | None = None
    plan: Scenario | None = None
    """What was asked for."""

    @property
    def violations(self) -> int:
        """How many the checker has found, and how many zombie writes were accepted."""
        return self.inspection.violations + (len(self.zombies.accepted) if self.zombies else 0)

    @property
    def power(self) -> bool:
        """Whether the run has shown what it is for: every fault was done, and few zombies would prove little."""
        if self.plan is None:
            return True
        enough = self.zombies is None or self.zombies.count >= self.plan.zombies
        return enough and Counter(self.done) >= Counter(self.plan.kinds)


@dataclass
class World:
    """Everything of one run."""

    scenario: Scenario
    seed: int
    folder: Path
    server: Server
    processes: Processes
    queue: Queue
    proxy: Proxy | None
    faults: Lines
    done: dict[str, int] = field(default_factory=dict)
    random: Random = field(default_factory=Random)
    sent: int = 0
    """How many jobs the producers have sent; one with a key that both have sent is one."""
    _doomed: int = 0
    """How many processes have yet to come to the point where they die."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # --- faults ---

    async def strike(self, step: Step) -> None:
        """One fault."""
        target: object = None
        match step.kind:
            case "kill" | "stop":
                target = self.processes.alive[step.target % len(self.processes.alive)]
                self._note(step, target)
                await self.processes.replace(target, signal.SIGKILL if step.kind == "kill" else signal.SIGTERM)
                return
            case "pause":
                target = self._awake(step)
                self.processes.send(target, signal.SIGSTOP)
                self._later(self._wake(target, step.seconds))
            case "haunt":
                while len(self.processes.stopped()) >= PROCESSES // 2:  # noqa: ASYNC110  somebody has to claim their jobs
                    await asyncio.sleep(0.05)
                target = self._awake(step)
                await self._at_work(target)
                self.processes.send(target, signal.SIGUSR1)
                while target not in self.processes.stopped():  # noqa: ASYNC110  another process tells nobody
                    await asyncio.sleep(0.02)
                self._later(self._haunt(target, await self.server.held(target)))
            case point if point in POINTS:
                while len(self.processes.alive) >= CROWD:  # noqa: ASYNC110  each takes jobs away from the others
                    await asyncio.sleep(0.02)
                times = 1 if point in RARE else 1 + step.target % 3
                target = await self.processes.spawn(point=point, times=times)
                self._doomed += 1
                self._later(self._mourn(target, step))
                return
            case "starve":
                target = self._awake(step)
                await self._at_work(target)
                self._later(self._feed(target, self.processes.starve(target), step.seconds))
                # What it has open it keeps: it has to need something new.
                await self.server.cut_all()
            case "doze" | "unresolved":
                await (self._doze(step) if step.kind == "doze" else self._unresolved(step))
                return
            case "cut":
                await self.server.cut(self.random)
            case "crash" | "immediate" | "read_only" | "fill" | "fill_disk" | "fail_over":
                self._note(step, target)
                await self._server_fault(step)
                return
            case _:
                self._proxy_fault(step)
        self._note(step, target)

    async def _server_fault(self, step: Step) -> None:
        server = self.server
        match step.kind:
            case "crash":
                await server.crash(self.random)
            case "immediate":
                await server.immediate(step.seconds)
            case "read_only":
                await server.read_only(step.seconds)
            case "fill":
                await server.fill(step.seconds)
            case "fail_over":
                await server.fail_over()
                assert self.proxy is not None
                self.proxy.target = server.dsn
                self.proxy.reset()
                if self.done["fail_over"] < self.scenario.kinds["fail_over"]:
                    await server.follow(self.folder / f"standby {self.done['fail_over']}")
            case "fill_disk":
                await server.fill_disk(server.local.path, step.seconds)

    def _proxy_fault(self, step: Step) -> None:
        proxy = self.proxy
        assert proxy is not None
        match step.kind:
            case "reset":
                proxy.reset()
            case "black_hole":
                proxy.mode = Mode.BLACK_HOLE
                self._later(self._pass(step.seconds, cut=True))
            case "delay":
                proxy.delay = 0.1
                self._later(self._pass(step.seconds, cut=False))
            case "eat":
                proxy.marker = MARKERS[step.target % len(MARKERS)]
                proxy.eat += 1
            case kind:
                raise AssertionError(kind)

    async def _pass(self, seconds: float, *, cut: bool) -> None:
        assert self.proxy is not None
        await asyncio.sleep(seconds)
        self.proxy.mode, self.proxy.delay = Mode.PASS, 0.0
        if cut:
            self.proxy.reset()

    async def _doze(self, step: Step) -> None:
        if await self.server.doze(step.seconds):
            self._note(step, None)

    async def _unresolved(self, step: Step) -> None:
        switch = self.folder / UNKNOWN
        switch.touch()
        # Whoever is connected does not ask for a name: all have to connect.
        await self.server.cut_all()
        await asyncio.sleep(step.seconds)
        asked = switch.read_text()
        switch.unlink()
        if asked:
            self._note(step, len(asked))

    async def _wake(self, pid: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.processes.send(pid, signal.SIGCONT)

    def _awake(self, step: Step) -> int:
        """Whom to pause: the end of a pause would be the end of an earlier one of the same process too."""
        stopped = self.processes.stopped()
        awake = [pid for pid in self.processes.alive if pid not in stopped] or self.processes.alive
        return awake[step.target % len(awake)]

    async def _haunt(self, pid: int, held: Mapping[UUID, int]) -> None:
        """Wake a process once all that it held has been claimed by others."""
        loop = asyncio.get_running_loop()
        end = loop.time() + HAUNTING
        while await self.server.still(held) and loop.time() < end:  # noqa: ASYNC110  a server has no event to wait for
            await asyncio.sleep(0.05)
        self.processes.send(pid, signal.SIGCONT)

    async def _at_work(self, pid: int) -> None:
        """Until a process has jobs in hand: it may have only just started. There may be no jobs left either."""
        loop = asyncio.get_running_loop()
        end = loop.time() + STARTING
        while not await self.server.held(pid) and loop.time() < end:  # noqa: ASYNC110  another process tells nobody
            await asyncio.sleep(0.05)

    async def _feed(self, pid: int, feed: Callable[[], None], seconds: float) -> None:
        await asyncio.sleep(seconds)
        assert not self.processes.gone(pid), f"{pid} has not survived"
        feed()

    async def _mourn(self, pid: int, step: Step) -> None:
        """Note the death of a process that came to its point; one that does not come there in time is not noted."""
        loop = asyncio.get_running_loop()
        end = loop.time() + MOURNING
        while not self.processes.gone(pid):
            if loop.time() > end:
                self.processes.send(pid, signal.SIGKILL)
                break
            await asyncio.sleep(0.02)
        else:
            self._note(step, pid)
        self.processes.alive.remove(pid)
        self._doomed -= 1

    async def _thaw(self) -> None:
        """Wake whoever has stopped himself, after longer than a lease."""
        while True:
            for pid in self.processes.stopped():
                self.faults.write("freeze", {"target": pid})
                self.done["freeze"] = self.done.get("freeze", 0) + 1
                await asyncio.sleep(1.5 * LEASE)
                self.processes.send(pid, signal.SIGCONT)
            await asyncio.sleep(0.1)

    def _note(self, step: Step, target: object) -> None:
        self.done[step.kind] = self.done.get(step.kind, 0) + 1
        self.faults.write(step.kind, {"target": target, "seconds": step.seconds})

    def _later(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- the run ---

    async def live(self) -> float:
        """Send everything, do everything; answers how long it took until nothing was left after the last fault."""
        loop = asyncio.get_running_loop()
        thaw = asyncio.ensure_future(self._thaw()) if self.scenario.freezing else None
        try:
            every, began = orders(self.scenario, self.seed), loop.time()
            plan = steps(self.scenario, self.seed)
            # Jobs come for as long as faults do: a fault that meets an empty queue shows nothing.
            span = plan[-1].at + plan[-1].seconds if plan else 0.0
            sending = [asyncio.ensure_future(self._produce(side, every, began, span)) for side in range(2)]
            for step in plan:
                await asyncio.sleep(max(0.0, began + step.at - loop.time()))
                await self.strike(step)
            await asyncio.gather(*sending)
            if self._doomed:
                await self._keep_busy(len(every))
            await asyncio.gather(*self._tasks)
            last = loop.time()
            while (left := (await self.server.ask(LEFT))[0][0]) and loop.time() < last + PATIENCE:  # noqa: ASYNC110
                await asyncio.sleep(0.05 if left < 50 else 0.2)
            return loop.time() - last
        finally:
            if thaw is not None:
                thaw.cancel()

    async def _produce(self, side: int, every: list[Order], began: float, span: float) -> None:
        """Jobs are shared out by turns; those with keys are sent from both sides. What is unknown is sent again."""
        log = ProducerLog(self.folder / "producers.jsonl")
        random = Random(f"{self.scenario.name} {self.seed} producer {side}")
        for order in every:
            number = order.payload["number"]
            if number % 2 != side and not order.keyed:
                continue
            due = began + span * number / len(every)
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            await self._send(log, order, random if number % 2 == side else None)
        log.close()

    async def _keep_busy(self, sent: int) -> None:
        """More of the same, for processes that have not come to their point: on an empty queue they never would."""
        log = ProducerLog(self.folder / "producers.jsonl")
        random = Random(f"{self.scenario.name} {self.seed} more")
        more = orders(replace(self.scenario, jobs=sent + int(MOURNING / PACE)), self.seed)[sent:]
        while self._doomed:
            await self._send(log, more.pop(0), random)
            await asyncio.sleep(PACE)
        log.close()

    async def _send(self, log: ProducerLog, order: Order, random: Random | None) -> None:
        """Until it is known that the job is there. `random`: of the one who also cancels it, if it is to be canceled."""
        key = f"key {order.payload['number']}" if order.keyed else ""
        job = Job(order.topic, order.payload, key, concurrency_key=order.line)
        while True:
            try:
                answer = await log.enqueue(self.queue, job)
                break
            except StoreError:
                await asyncio.sleep(0.1)
        if random is not None:
            self.sent += 1
            if order.canceled:
                self._later(self._cancel(answer.id, random.uniform(0, 1)))

    async def _cancel(self, id: Any, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while True:
            try:
                await self.queue.cancel(id)
            except StoreError:
                await asyncio.sleep(0.1)
            else:
                return


@asynccontextmanager
async def opened(scenario: Scenario, seed: int, folder: Path) -> AsyncIterator[World]:
    """A server, workers, a producer's queue, and what stands between them."""
    async with AsyncExitStack() as stack:
        place = folder / "pg"
        place.mkdir()
        if scenario.tmpfs:
            stack.enter_context(tmpfs(place, 160))
        server = Server(place, scenario.settings)
        await server.start()
        stack.push_async_callback(server.stop)
        await asyncio.to_thread(migrate.up, server.dsn)
        await asyncio.to_thread(audit.install, server.dsn)
        await server.ask("checkpoint")
        if scenario.standby:
            await server.follow(folder / "standby")
            stack.push_async_callback(server.alone)
        dsn, proxy = server.dsn, None
        if scenario.proxied:
            proxy = await stack.enter_async_context(Proxy(server.dsn))
            dsn = proxy.dsn
        if scenario.pooled:
            dsn = stack.enter_context(Pooler(dsn, folder)).dsn
        if "doze" in scenario.kinds:
            await server.ask(DROWSY)
        prepared = not (scenario.pooled or scenario.proxied)
        watched = bool(scenario.zombies)
        setup = Setup(dsn, prepared, scenario.limited, scenario.slots, watched, scenario.skew)
        if scenario.named:
            named = make_conninfo(dsn, host=NAME, hostaddr=None)
            setup = replace(setup, dsn=named, resolver=str(folder / UNKNOWN))
        processes = Processes(folder, setup)
        stack.push_async_callback(processes.end)
        pool = await stack.enter_async_context(open_pool(dsn, min_size=0, max_size=4, prepared=prepared, timeout=5))
        store = PostgresStore(pool)
        stack.push_async_callback(store.close)
        await processes.start(PROCESSES)
        faults = Lines(folder / "faults.jsonl")
        stack.callback(faults.close)
        random = Random(f"{scenario.name} {seed} targets")
        yield World(scenario, seed, folder, server, processes, Queue(store), proxy, faults, random=random)


async def run(scenario: Scenario, seed: int) -> Result:
    """One run from its first job to the verdict. The folder of its logs stays when a promise was broken."""
    folder = _folder()
    began = time.monotonic()
    async with opened(scenario, seed, folder) as world:
        rest = await world.live()
        await world.processes.end()
        sources = Sources(
            world.server.dsn,
            journal=[folder / "journal.jsonl"],
            producers=[folder / "producers.jsonl"],
            faults=[folder / "faults.jsonl"],
        )
        rules = Rules(ttl=86400.0, slack=LEASE + REAPER, skew=0.5, drained=True)
        inspection = await asyncio.to_thread(inspect, sources, rules)
        recovery = await asyncio.to_thread(recoveries, world.server.dsn, folder / "faults.jsonl")
        password = conninfo_to_dict(world.server.dsn)["password"]
        assert password
        assert str(password) not in (folder / "workers.log").read_text(), f"a secret is told: {folder}"
        tries = folder / "tries.jsonl"
        found = await asyncio.to_thread(zombies, world.server.dsn, tries) if scenario.zombies else None
        eaten = 0 if world.proxy is None else world.proxy.eaten
    seconds = time.monotonic() - began
    result = Result(
        scenario.name, scenario.faults, seed, world.sent, world.done, seconds, inspection, recovery, rest, folder, eaten,
        found, scenario,
    )  # fmt: skip
    if not result.violations:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _folder() -> Path:
    """Short enough for a socket, and open to the account that the server may run under."""
    folder = Path(tempfile.mkdtemp(prefix="brooq-chaos-", dir="/tmp"))
    folder.chmod(0o755)
    return folder
