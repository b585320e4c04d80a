"""Handlers that block, crash and never return, beside each other: python -m examples.isolation"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
import ctypes
import logging
import re
import signal
import time

from brooq import Claim, Config, Job, KindOptions, Queue
from brooq.postgres import PostgresStore, open_pool
from examples.database import database


def resize(claim: Claim) -> None:
    """A plain function: it runs in a thread, and may block. It looks whether it should end."""
    for _ in range(100):
        if claim.canceled():
            return
        time.sleep(0.002)


def decode(claim: Claim) -> None:
    """Runs in a process, with a library that is not to be trusted."""
    if claim.payload == "crash":
        ctypes.string_at(0)
    elif claim.payload == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as some libraries do
        re.match(r"(a+)+$", "a" * 64 + "b")  # for longer than anybody lives, and nothing interrupts it


async def main() -> None:
    """Enqueue four jobs, and tell what became of them."""
    logging.getLogger("brooq").setLevel(logging.CRITICAL)
    with database() as dsn:
        async with open_pool(dsn) as pool:
            config = Config(workers=4, poll_interval=0.05, watchdog_grace=0.5, max_attempts=1)
            queue = Queue(PostgresStore(pool), config)
            queue.register_kind("image.resize", resize)
            queue.register_kind("image.decode", decode, KindOptions(isolation="process", attempt_timeout=10))
            jobs = {"thread": Job("image.resize")} | {
                name: Job("image.decode", name) for name in ("well", "crash", "hang")
            }
            await queue.enqueue_many(list(jobs.values()))
            async with queue:
                for name, job in jobs.items():
                    record = await queue.wait(job.id, 60)
                    print(f"{name}: {record.state} {record.last_error or ''}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
