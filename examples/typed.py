"""A typed payload, a result that somebody waits for, and progress on the way: python -m examples.typed"""

# ruff: noqa: T201  an example speaks
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date

from brooq import Claim, Config, Job, Queue
from brooq.postgres import PostgresStore, open_pool
from examples.database import database


@dataclass
class Line:
    """What was sold."""

    goods: str
    cents: int


@dataclass
class Invoice:
    """What the job is about."""

    customer: str
    day: date
    lines: list[Line]


async def total(claim: Claim[Invoice]) -> dict[str, int]:
    """The type checker knows that the payload is an Invoice."""
    cents = 0
    for number, line in enumerate(claim.payload.lines, 1):
        cents += line.cents
        await claim.progress(number / len(claim.payload.lines), line.goods)
        await asyncio.sleep(0.05)
    return {"cents": cents}


async def main() -> None:
    """Enqueue an invoice and something that is none."""
    with database() as dsn:
        async with open_pool(dsn) as pool:
            queue = Queue(PostgresStore(pool), Config(poll_interval=0.05, max_attempts=1))
            queue.kind("invoice.total", keep_result=True)(total)
            invoice = Invoice("Anna", date(2027, 1, 1), [Line("kettle", 4200), Line("tea", 550)])
            good, _ = await queue.enqueue(Job("invoice.total", invoice))
            bad, _ = await queue.enqueue(
                Job(
                    "invoice.total",
                    {"customer": "Boris", "day": "2027-01-01", "lines": [{"goods": "tea", "cents": "5"}]},
                )
            )
            async with queue:
                record = await queue.wait(good, timeout=60)
                print(f"{record.state}: {record.result}")
                if record.progress is not None:
                    print(f"progress was told of, last: {record.progress.note}")
                record = await queue.wait(bad, timeout=60)
                print(f"{record.state}: {record.last_error}")


if __name__ == "__main__":
    asyncio.run(main())
