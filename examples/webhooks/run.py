"""Plays the whole: sends the deliveries twice, kills the worker half-way, starts it again, waits until all is over."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from psycopg_pool import AsyncConnectionPool

from brooq import Queue, State
from brooq.postgres import PostgresStore
from examples.webhooks.app import GONE, SEND
from examples.webhooks.deliveries import Delivery
from examples.webhooks.findings import Course
from examples.webhooks.show import Show
from examples.webhooks.stage import OURS, Stage

BULKS = 20
"""In how many bulks the deliveries come, and how long the sender pauses between two."""
PAUSE = 0.15
GLANCE = 0.1
"""How often the table is looked at, in seconds."""
STALLED = 60.0
Pool = AsyncConnectionPool[Any]


class RunError(Exception):
    """A program of the demo has ended by itself."""


@dataclass(frozen=True, slots=True)
class Look:
    """The table at one moment: how many jobs in each topic and state."""

    counts: Counter[tuple[str, str]]

    def state(self, *states: State) -> int:
        """How many jobs, of any topic, are in these states."""
        return sum(count for (_, state), count in self.counts.items() if state in states)

    @property
    def done(self) -> int:
        """How many mails are done."""
        return self.counts[SEND, State.DONE]

    @property
    def settled(self) -> int:
        """How many mails have met their end, good or bad."""
        return self.done + self.counts[SEND, State.DEAD] + self.counts[SEND, State.CANCELED]

    @property
    def waiting(self) -> int:
        """How many jobs are not over."""
        return self.state(State.PENDING, State.PROCESSING, State.FAILED)


async def play(stage: Stage, deliveries: Sequence[Delivery], show: Show) -> Course:
    """Everything from the first delivery to the last outcome. Raises RunError."""
    course = Course([delivery.key for delivery in deliveries])
    pool: Pool = AsyncConnectionPool(stage.dsn, kwargs={"application_name": OURS}, min_size=1, max_size=4, open=False)
    async with pool:
        with ExitStack() as programs:
            programs.enter_context(stage.mail_server)
            programs.enter_context(stage.worker)
            sending = asyncio.create_task(_send(pool, deliveries, course))
            try:
                await _watch(stage, pool, course, sending, show)
                await sending
            finally:
                sending.cancel()
    return course


async def stay(stage: Stage, ready: Callable[[], None]) -> None:
    """Let everything run on, for somebody who looks at the dashboard, until Ctrl-C. Raises RunError. `ready` is called once
    there is something to look at.

    The mail server knows everybody again: whoever retries what has died sees it done.
    """
    stage.mail_server.drop("--refuse", GONE)
    stage.mail_server.add("--refuse", "nobody@example.org")
    with stage.mail_server, stage.worker:
        told = False
        while True:
            for program in (stage.worker, stage.mail_server):
                if program.code is not None:
                    raise RunError(f"{program.name} has ended (exit code {program.code}):\n{program.last_words()}")
            if not told and await _answers(stage.dashboard):
                told = True
                ready()
            await asyncio.sleep(GLANCE)


async def _answers(address: str) -> bool:
    """Whether somebody listens there."""
    place = urlsplit(address)
    try:
        _, writer = await asyncio.open_connection(place.hostname, place.port)
    except OSError:
        return False
    writer.close()
    return True


async def _send(pool: Pool, deliveries: Sequence[Delivery], course: Course) -> None:
    """Send them in bulk, and then all of them again, as a sender does whose answers were lost."""
    # So that the speed is that of the work, not of a program that starts.
    await _until_connections(pool, some=True)
    queue = Queue(PostgresStore(pool))
    size = max(1, -(-len(deliveries) // BULKS))
    bulks = [deliveries[start : start + size] for start in range(0, len(deliveries), size)]
    for bulk in bulks:
        answers = await queue.enqueue_many([delivery.job() for delivery in bulk])
        course.created += sum(answer.created for answer in answers)
        await asyncio.sleep(PAUSE)
    for bulk in bulks:
        answers = await queue.enqueue_many([delivery.job() for delivery in bulk])
        course.created_again += sum(answer.created for answer in answers)


async def _watch(stage: Stage, pool: Pool, course: Course, sending: asyncio.Task[None], show: Show) -> None:
    """Look at the table until everything is over, or nothing moves any more: then the checks will tell."""
    last, moved = None, time.monotonic()
    while True:
        sent = sending.done()
        began = time.monotonic()
        look = Look(await _counts(pool))
        now = time.monotonic()
        show.progress(look.settled, look.state(State.PROCESSING), look.state(State.FAILED), look.state(State.DEAD))
        _watch_programs(stage, sending)
        stalled = now - moved > STALLED
        if stalled and not sent:
            raise RunError(f"nothing moves; the last words of the worker:\n{stage.worker.last_words()}")
        if stalled or (sent and not look.waiting):
            return
        if look != last:
            last, moved = look, now
        halfway = look.done >= len(course.keys) / 2
        if course.killed_at is None and halfway and look.state(State.PROCESSING):
            await _kill(stage, pool, course, look, show)
        # A big table is looked at less often: looking must stay a small part of the work.
        await asyncio.sleep(max(GLANCE, 5 * (now - began)))


async def _kill(stage: Stage, pool: Pool, course: Course, look: Look, show: Show) -> None:
    """SIGKILL, see what it held, start it again."""
    stage.worker.kill()
    # Whatever it had sent to the database before its death still counts; only then is the table what it left behind.
    await _until_connections(pool, some=False)
    left = Look(await _counts(pool))
    course.killed_at, course.held = look.done, left.state(State.PROCESSING)
    stage.worker.start()
    show.say(f"{look.done} mails are done: worker killed with {course.held} jobs in its hands, and started again")


def _watch_programs(stage: Stage, sending: asyncio.Task[None]) -> None:
    if sending.done():
        sending.result()
    for program in (stage.worker, stage.mail_server):
        if program.code is not None:
            raise RunError(f"{program.name} has ended (exit code {program.code}):\n{program.last_words()}")


async def _counts(pool: Pool) -> Counter[tuple[str, str]]:
    async with pool.connection() as connection:
        found = await connection.execute("select topic, state, count(*) from job group by topic, state")
        return Counter({(topic, state): count for topic, state, count in await found.fetchall()})


async def _until_connections(pool: Pool, *, some: bool) -> None:
    """Wait until the worker has connections, or has none any more."""
    while bool(await _connections(pool)) is not some:  # noqa: ASYNC110  another process's, so there is no event
        await asyncio.sleep(0.01)


async def _connections(pool: Pool) -> int:
    """How many connections of the worker the database still serves."""
    async with pool.connection() as connection:
        found = await connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'brooq'"
        )
        (count,) = await found.fetchone() or (0,)
        return int(count)
