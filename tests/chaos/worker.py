"""The application of the chaos runs: three topics, handlers that end in every way, a journal. One process of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from tests.chaos.plan import LEASE, LIMITS, REAPER, SLOTS, TIGHT, TOPICS

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
from brooq.postgres import PostgresStore, as_psycopg, open_pool
from brooq.service.journal import Journal
from brooq.vocabulary.tx import Tx

CONFIG = Config(
    workers=SLOTS, poll_interval=0.1, lease=LEASE, reaper_period=REAPER, census_period=60, max_attempts=3,
    backoff_base=0.05, backoff_max=0.2, shutdown_grace=0.2,
)  # fmt: skip
EFFECT = "insert into public_audit.effect (job_id, claim_seq) values (%s, %s)"


class Application:
    """The handler of every topic."""

    def __init__(self, journal: Journal) -> None:
        """Where runs are written down."""
        self._journal = journal

    async def handle(self, claim: Claim) -> None:
        """End in the way that the payload says."""
        do = claim.payload["do"]
        await asyncio.sleep(claim.payload["wait"])
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

    def _effect(self, claim: Claim) -> None:
        self._journal.effect(claim, tx=True)

        @claim.on_succeeded
        async def write(tx: Tx) -> None:
            connection = as_psycopg(tx)
            assert connection is not None
            await connection.execute(EFFECT, [claim.id, claim.token])


def freeze(_: Tx) -> None:
    """The whole process stands still, with the row locked."""
    os.kill(os.getpid(), signal.SIGSTOP)


async def main(dsn: str, folder: Path, *, prepared: bool, limited: bool) -> None:
    """Work until SIGTERM, then hand everything back."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    journal = Journal(folder / "journal.jsonl")
    application = Application(journal)
    async with open_pool(dsn, min_size=0, max_size=4, prepared=prepared, timeout=10) as pool:
        queue = Queue(PostgresStore(pool), CONFIG, name="chaos")
        for topic in TOPICS:
            limits = (TIGHT if limited else LIMITS).get(topic, Limits())
            options = KindOptions(attempt_timeout=30, **limits.as_object())
            queue.register_kind(topic, journal.around(application.handle), options)
        queue.listen(journal)
        while not stop.is_set():
            try:
                await queue.start()
                break
            except StoreUnavailable:
                await asyncio.sleep(0.1)
        await stop.wait()
        await queue.close()


def run(dsn: str, folder: Path, *, prepared: bool, limited: bool) -> None:
    """One process, from its fork to its end."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(process)d %(levelname)s %(message)s")
    logging.raiseExceptions = False
    # A failed attempt is what most of these jobs are for; its traceback is not.
    logging.getLogger("brooq").addFilter(lambda record: not record.exc_info)
    asyncio.run(main(dsn, folder, prepared=prepared, limited=limited))
