"""Pictures of the dashboard for the documents: `make screenshots` writes docs/screenshots/ anew.

The queue is real and works; what has happened in the ten minutes before is written into the tables by hand.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

import psycopg
from tests.browser import browser, log_in, visit
from tests.database import server
from tests.service.dashboard.stand import WRITING, stand

from brooq import Claim, Config, Job, KindOptions, MustGiveUp, Queue
from brooq.postgres import PostgresStore, open_pool

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
PAST = """
insert into brooq_sample (step, at, topic, done, failed, dead, claimed, waited, waited_p95, attempts, waiting, processing)
select 10, to_timestamp(floor(extract(epoch from now()) / 10) * 10 - n * 10), topic, busy * rate, busy * rate / 25,
       case when mod(n, 9) = 0 then rate / 30 else 0 end, busy * rate, busy * rate * (0.012 + 0.03 * busy * busy),
       0.05 + 0.2 * busy * busy, busy * rate, (busy * busy * rate)::bigint, least(8, 1 + (busy * 6)::bigint)
from generate_series(1, 62) as n,
     lateral (select 0.55 + 0.3 * sin(n / 7.0) + 0.14 * sin(n * 1.7)) as wave (busy),
     (values ('email.send', 140), ('invoice.create', 36), ('report.render', 9)) as topics (topic, rate);
insert into job (topic, state, attempts, created_at, updated_at)
select (array['email.send', 'email.send', 'invoice.create', 'report.render'])[1 + mod(n, 4)], 'done', 1,
       now() - interval '10 minutes', now() - n * interval '20 ms' from generate_series(1, 24000) as n;
insert into job (topic, available_at, created_at)
select 'webhook.deliver', now() - interval '4 minutes', now() - interval '4 minutes' from generate_series(1, 14) as n;
insert into job (topic, available_at, created_at)
select 'email.send', now() + n * interval '1 minute', now() - interval '9 minutes' from generate_series(1, 60) as n;
analyze job;
"""


async def main() -> None:
    """Take them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with server("pictures") as postgres, postgres.database(migrated=True) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in PAST.split(";\n"):
                connection.execute(statement.encode())
        async with open_pool(dsn) as pool:
            queue = make_queue(PostgresStore(pool))
            await queue.enqueue_many([Job("email.send", {"to": f"user{n}@example.org", "number": n}, f"welcome-{n}")
                                      for n in range(60)])  # fmt: skip
            await queue.enqueue_many([Job("invoice.create", {"order": n}, f"order-{n}") for n in range(20)])
            await queue.enqueue_many([Job("report.render", {"month": n}) for n in range(6)])
            async with queue, stand(queue, payloads=True) as shown:
                # Until what fails is dead, and a census with samples has been taken.
                while sum(queue.metrics.settled[topic, "dead"] for topic in queue.kinds) < 12:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                await queue.store.pause("webhook.deliver", "Anna", "their endpoint is down until 15:00")
                await asyncio.sleep(2)
                await take(shown.base)


def make_queue(store: PostgresStore) -> Queue:
    """Kinds that succeed, fail, and take their time."""
    queue = Queue(
        store, Config(workers=8, poll_interval=0.1, census_period=1, lease=30, shutdown_grace=1), name="mailer-1"
    )
    chance = Random(4)

    async def mail(claim: Claim) -> None:
        await asyncio.sleep(chance.uniform(0.01, 0.05))
        if claim.payload["number"] % 9 == 4:
            raise MustGiveUp(f"550 <{claim.payload['to']}>: no such mailbox")
        if claim.payload["number"] % 13 == 5:
            raise TimeoutError(f"smtp.example.org:25 did not answer within {claim.attempt * 5} s")

    async def bill(claim: Claim) -> None:
        if claim.payload["order"] % 8 == 3:
            raise ValueError("currency 'XDR' has no rate for 2026-11-30")

    async def render(claim: Claim) -> None:
        await asyncio.sleep(120)

    queue.register_kind("email.send", mail, KindOptions(max_attempts=3, backoff_base=0.3, backoff_max=1))
    queue.register_kind("invoice.create", bill, KindOptions(max_attempts=2, backoff_base=0.2))
    queue.register_kind("report.render", render, KindOptions(attempt_timeout=200))
    return queue


async def take(base: str) -> None:
    """Each picture: light or dark, wide or narrow, English or Russian."""
    async with browser() as opened:
        async with visit(opened, base) as page:
            await log_in(page, WRITING)
            await page.goto("/")
            await page.screenshot(path=FOLDER / "overview.png")
            await page.goto("/jobs?state=dead&topic=email.send&error=Timeout")
            await page.click("[data-open]")
            await page.wait_for_selector(".life")
            await page.screenshot(path=FOLDER / "job.png")
        async with visit(opened, base, light=False) as page:
            await log_in(page, WRITING)
            await page.goto("/")
            await page.screenshot(path=FOLDER / "overview-dark.png")
        async with visit(opened, base, language="ru-RU") as page:
            await log_in(page, WRITING, name="Анна")
            await page.goto("/dead")
            await page.screenshot(path=FOLDER / "dead-ru.png")
        async with visit(opened, base, width=390, height=844, light=False) as page:
            await log_in(page, WRITING)
            await page.goto("/jobs")
            await page.screenshot(path=FOLDER / "jobs-narrow.png")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
