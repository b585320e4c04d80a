"""A worker process for the tests in real time: `python -m tests.engine.worker_process DSN NAME`."""

from __future__ import annotations

import asyncio
import sys
import time

from brooq import Claim, Config, KindOptions, Queue
from brooq.postgres import PostgresStore, open_pool


async def main(dsn: str, name: str) -> None:
    """Work until killed; a line on standard output for each start of a handler."""
    async with open_pool(dsn, max_size=4) as pool:
        config = Config(lease=3, poll_interval=0.2, reaper_period=1, workers=4)
        queue = Queue(PostgresStore(pool), config, name=name)

        @queue.kind("sleep")
        async def sleep(claim: Claim) -> None:
            say(f"run {claim.topic} {claim.token}")
            await asyncio.sleep(claim.payload)

        async def block(claim: Claim) -> None:
            say(f"run {claim.topic} {claim.token}")
            time.sleep(claim.payload)  # noqa: ASYNC251  that is the fault

        queue.register_kind("block", block, KindOptions(attempt_timeout=60))
        async with queue:
            say("ready")
            await asyncio.Event().wait()


def say(line: str) -> None:
    """To standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
