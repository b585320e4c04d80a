"""The application of the chaos runs: three topics, handlers that end in every way, a journal. One process of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from psycopg_pool import AsyncConnectionPool
from tests.chaos.doom import Doom, DoomedStore
from tests.chaos.plan import LEASE, LIMITS, REAPER, SLOTS, TIGHT, TOPICS
from tests.chaos.tries import Tries, WatchedStore

from brooq import (
    Claim,
    Config,
    Job,
    KindOptions,
    Limits,
    MustCancel,
    MustDelay,
    MustPreserveAttempt,
    Queue,
    StoreUnavailable,
)
from brooq.postgres import PostgresStore, as_psycopg, open_pool, wrap_tx
from brooq.service import journal
from brooq.service.journal import Journal, Lines
from brooq.vocabulary.tx import Tx

CONFIG = Config(
    workers=SLOTS, poll_interval=0.1, lease=LEASE, reaper_period=REAPER, census_period=60, max_attempts=3,
    backoff_base=0.05, backoff_max=0.2, shutdown_grace=0.2,
)  # fmt: skip
GATHERED, GATHERING = 24, 3 * LEASE
"""How many handlers gather before their process stands still, and for how many seconds it waits for them at most."""
NAME = "database.test"
"""What the server is called where it is known by a name."""
EFFECT = "insert into public_audit.effect (job_id, claim_seq) values (%s, %s)"


@dataclass(frozen=True)
class Setup:
    """What one process is told."""

    dsn: str
    prepared: bool
    limited: bool
    slots: int
    watched: bool
    """Whether its writes are written down."""
    skew: float = 0.0
    """By how many seconds its wall clock is wrong."""
    resolver: str = ""
    """While this file exists, the name of the server is one that nobody knows, and asking for it leaves a mark there."""
    point: str = ""
    """Where it kills itself, when it comes there for the n-th time; nowhere when it is empty."""
    times: int = 1


class Application:
    """The handler of every topic."""

    def __init__(self, journal: Journal, pool: AsyncConnectionPool[Any], doom: Doom) -> None:
        """Where runs are written down; connections for what handlers do in the database; when to die."""
        self._journal = journal
        self._pool = pool
        self._doom = doom
        self._gathered: asyncio.Event | None = None
        self._count = 0

    def gather(self) -> None:
        """From now on handlers wait at their ends; when there are many, or after a while, the whole process stands still.
        Whoever wakes it finds all these ends to be written at once, before the engine has looked at its leases."""
        self._gathered, self._count = asyncio.Event(), 0
        asyncio.get_running_loop().call_later(GATHERING, self._stand_still)

    def _stand_still(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.set()
            os.kill(os.getpid(), signal.SIGSTOP)

    async def handle(self, claim: Claim) -> None:
        """End in the way that the payload says, together with others when they gather."""
        try:
            await self._handle(claim)
        finally:
            if self._gathered is not None:
                self._count += 1
                if self._count < GATHERED:
                    await self._gathered.wait()
                else:
                    self._stand_still()

    async def _handle(self, claim: Claim) -> None:
        self._doom.at("before a handler")
        do = claim.payload["do"]
        await asyncio.sleep(claim.payload["wait"])
        if claim.payload.get("ask"):
            await deaf(self._ask(claim))
        if do == "fail" or (do == "fail once" and claim.attempt == 1):
            raise RuntimeError(do)
        if do == "cancel":
            raise MustCancel
        if do == "delay" and claim.attempt == 1:
            raise MustDelay(0.1)
        if do == "preserve" and claim.token == 1:
            raise MustPreserveAttempt
        if do == "chain":
            claim.chain(Job("fast", {"do": "succeed", "wait": 0.0}))
        if do in {"effect", "freeze"}:
            self._effect(claim)
        if do == "freeze" and claim.token == 1:
            claim.on_succeeded(freeze)
        self._doom.at("after a handler")

    async def _ask(self, claim: Claim) -> None:
        """A transaction of the handler's own, tied to its claim."""
        async with self._pool.connection() as connection, connection.transaction():
            await claim.assert_held(wrap_tx(connection))

    def _effect(self, claim: Claim) -> None:
        self._journal.effect(claim, tx=True)

        @claim.on_succeeded
        async def write(tx: Tx) -> None:
            connection = as_psycopg(tx)
            assert connection is not None
            self._doom.at("in a callback")
            await connection.execute(EFFECT, [claim.id, claim.token])
            self._doom.at("after a callback")


async def deaf(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, whoever cancels."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except Exception:
            break
    task.result()


def freeze(_: Tx) -> None:
    """The whole process stands still, with the row locked."""
    os.kill(os.getpid(), signal.SIGSTOP)


async def main(setup: Setup, folder: Path) -> None:
    """Work until SIGTERM, then hand everything back."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    lines = Journal(folder / "journal.jsonl")
    async with open_pool(setup.dsn, min_size=0, max_size=4, prepared=setup.prepared, timeout=10) as pool:
        doom = Doom(setup.point, setup.times, Lines(folder / "faults.jsonl"))
        application = Application(lines, pool, doom)
        store = PostgresStore(pool)
        if setup.watched:
            store = WatchedStore(pool, Tries(folder / "tries.jsonl"))
        elif setup.point:
            store = DoomedStore(pool, doom)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, application.gather)
        config = replace(CONFIG, workers=setup.slots)
        if setup.point.endswith("a reap"):
            config = replace(config, reaper_period=0.05)  # to find something before the others do
        queue = Queue(store, config, name="chaos")
        for topic in TOPICS:
            limits = (TIGHT if setup.limited else LIMITS).get(topic, Limits())
            options = KindOptions(attempt_timeout=30, **limits.as_object())
            queue.register_kind(topic, lines.around(application.handle), options)
        queue.listen(lines)
        while not stop.is_set():
            try:
                await queue.start()
                break
            except StoreUnavailable:
                await asyncio.sleep(0.1)
        await stop.wait()
        await queue.close()


def set_clock(skew: float) -> None:
    """Let the wall clock be wrong for all but the journal, which is what it is measured with."""
    seconds, nanoseconds = time.time, time.time_ns
    vars(journal)["time"] = SimpleNamespace(time=seconds)
    time.time = lambda: seconds() + skew
    time.time_ns = lambda: nanoseconds() + int(skew * 1e9)


def set_resolver(switch: Path) -> None:
    """Let the name of the server lead here, unless the file is there."""
    ask = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host != NAME:
            return ask(host, *arguments, **options)
        try:
            with switch.open("r+") as file:  # which does not make it, should it be gone by now
                file.seek(0, os.SEEK_END)
                file.write(".")
        except FileNotFoundError:
            return ask("127.0.0.1", *arguments, **options)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    socket.getaddrinfo = getaddrinfo


def run(setup: Setup, folder: Path) -> None:
    """One process, from its fork to its end."""
    if setup.skew:
        set_clock(setup.skew)
    if setup.resolver:
        set_resolver(Path(setup.resolver))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(process)d %(levelname)s %(message)s")
    logging.raiseExceptions = False
    # A failed attempt is what most of these jobs are for; its traceback is not.
    logging.getLogger("brooq").addFilter(lambda record: not record.exc_info)
    asyncio.run(main(setup, folder))
