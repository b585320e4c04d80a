"""How a handler steers its job by what it raises: python -m examples.signals"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

from brooq import (
    Claim,
    Config,
    Event,
    Job,
    JobCanceled,
    JobDead,
    JobDone,
    MustCancel,
    MustDelay,
    MustGiveUp,
    MustPreserveAttempt,
    Queue,
)
from brooq.postgres import PostgresStore, open_pool
from examples.database import database

runs: Counter[UUID] = Counter()


async def call_somebody() -> None:
    """Stands for a library of yours with errors of its own."""
    raise ConnectionError("410 Gone")


async def visit(claim: Claim) -> None:
    """Meets a different fate for each payload."""
    runs[claim.id] += 1
    first = runs[claim.id] == 1
    match claim.payload:
        case "busy" if first:
            raise MustDelay(0.2, "the other side asked for a pause")  # the attempt is spent
        case "deploying" if first:
            raise MustPreserveAttempt("nobody's fault")  # the attempt is given back
        case "unsubscribed":
            raise MustCancel("nobody wants it any more")
        case "no such address":
            raise MustGiveUp("no further attempt can help")
        case "wrapped":
            try:
                await call_somebody()
            except ConnectionError as error:
                # A signal works as the cause of another error too.
                raise RuntimeError("delivery failed") from MustGiveUp(str(error))
        case "flaky" if first:
            raise ConnectionError("any other error: retried with a growing delay")


async def work(dsn: str) -> None:
    """One job for each signal."""
    asked = ["fine", "flaky", "busy", "deploying", "unsubscribed", "no such address", "wrapped"]
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.05, backoff_base=0.1, backoff_max=1))
        queue.register_kind("example.visit", visit)
        answers = await queue.enqueue_many([Job("example.visit", payload) for payload in asked])
        left, all_over = {answer.id for answer in answers}, asyncio.Event()

        def told(event: Event) -> None:
            if isinstance(event, JobDone | JobDead | JobCanceled):
                left.discard(event.id)
                if not left:
                    all_over.set()

        queue.listen(told)
        async with queue:
            await all_over.wait()
        for payload, answer in zip(asked, answers, strict=True):
            record = await queue.find(answer.id)
            assert record is not None
            print(
                f"{payload}: {record.state}, attempts {record.attempts}, runs {runs[answer.id]}; {record.last_error or '-'}"
            )


if __name__ == "__main__":
    with database() as dsn:
        asyncio.run(work(dsn))
