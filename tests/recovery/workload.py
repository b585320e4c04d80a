"""Jobs of every sort, a worker process for them, and what must be true of them once the trouble is over."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psutil
import psycopg
import pytest
from tests.service.brooq_process import Worker, worker

CHECKPOINTER: LiteralString = "select pid from pg_stat_activity where backend_type = 'checkpointer'"
T = TypeVar("T")

APP = '''
"""The application under trouble: one kind, told by its payload what to do."""

import asyncio
from contextlib import asynccontextmanager

from brooq import Claim, Job, MustCancel, MustDelay, MustPreserveAttempt, Queue
from brooq.postgres import PostgresStore, as_psycopg
from brooq.service.settings import load


async def handle(claim: Claim) -> None:
    what = claim.payload["what"]
    await asyncio.sleep(0.01)
    if what == "fail" or (what == "once" and claim.attempt == 1):
        raise ValueError(what)
    if what == "cancel":
        raise MustCancel
    if what == "delay" and claim.attempt == 1:
        raise MustDelay(0.1)
    if what == "preserve" and claim.token == 1:
        raise MustPreserveAttempt
    if what == "chain":
        claim.chain(Job("all", {"what": "chained", "by": str(claim.id)}))
    if what == "effect":
        async def effect(tx):
            await as_psycopg(tx).execute("insert into effect (job) values (%s)", [claim.id])

        claim.on_succeeded(effect)


@asynccontextmanager
async def opened():
    settings = load(database=True)
    async with settings.make_pool(max_size=4) as pool:
        queue = Queue(PostgresStore(pool), settings.config)
        queue.register_kind("all", handle)
        yield queue
'''
ENDINGS = {
    "done": "done", "once": "done", "fail": "dead", "cancel": "canceled", "delay": "done", "preserve": "done",
    "chain": "done", "effect": "done",
}  # fmt: skip
QUICK = {
    "QUEUE_WORKERS": "4", "QUEUE_MAX_ATTEMPTS": "2", "QUEUE_BACKOFF_BASE": "50ms", "QUEUE_BACKOFF_MAX": "200ms",
    "QUEUE_LEASE": "2s",
}  # fmt: skip
HEALED = 30.0
"""Within so many seconds everything has to be done after the trouble: the pause between tries is 5 seconds at most, and
a busy machine shall not decide."""


def ask(dsn: str, query: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
    """One statement on a connection of its own."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5, prepare_threshold=None) as connection:
        cursor = connection.execute(query, parameters or None)
        return cursor.fetchall() if cursor.description else []


def enqueue(dsn: str, rounds: int) -> None:
    """So many jobs of every sort, as any language does it. Returns when they are durable."""
    ask(
        dsn,
        "insert into job (topic, payload) select 'all', jsonb_build_object('what', what)"
        " from generate_series(1, %s), unnest(%s::text[]) as what",
        rounds,
        list(ENDINGS),
    )


def until(condition: Callable[[], T], what: str, seconds: float = HEALED) -> T:
    """Look again and again until it is true, and return it; while the database does not answer, it is not."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except psycopg.OperationalError as error:
            what = f"{what} ({error})"[:500]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def crash(dsn: str, backend: int) -> None:
    """Kill this process of the server, and return when the server has ended all others and has come back.

    An answer alone says nothing: the server answers until it has seen that one of its processes is gone. That another
    checkpointer is at work tells it.
    """
    began = ask(dsn, CHECKPOINTER)
    os.kill(backend, signal.SIGKILL)
    until(lambda: ask(dsn, CHECKPOINTER) not in ([], began), "the server did not begin anew")


def settled(dsn: str, rounds: int) -> None:
    """Every job has its one right ending, nothing is lost, and effects in the same database happened exactly once."""
    until(
        lambda: ask(dsn, "select count(*) from job where state not in ('done', 'dead', 'canceled')") == [(0,)],
        "jobs are left",
    )
    rows = ask(dsn, "select payload ->> 'what', state, count(*) from job group by 1, 2")
    expected = {(what, state, rounds) for what, state in ENDINGS.items()} | {("chained", "done", rounds)}
    assert set(rows) == expected
    effects = ask(dsn, "select job from effect")
    wanted = ask(dsn, "select id from job where payload ->> 'what' = 'effect'")
    assert Counter(effects) == Counter(wanted)
    chained = ask(dsn, "select payload ->> 'by', count(*) from job where payload ->> 'what' = 'chained' group by 1")
    assert all(count == 1 for _, count in chained)


@dataclass(frozen=True, slots=True)
class Outage:
    """What a worker did while the database was in trouble."""

    seconds: float
    lines: list[dict[str, Any]]
    cpu: float
    """Seconds of processor time."""


class Patient:
    """A worker process under observation."""

    def __init__(self, process: Worker) -> None:
        """It has started."""
        self.process = process
        self._measured = psutil.Process(process.process.pid)

    @contextmanager
    def outage(self, seconds: float) -> Iterator[list[Outage]]:
        """Keep the trouble going for so long at least after the block has made it; then the list has its one entry."""
        found: list[Outage] = []
        begun, lines, cpu = time.monotonic(), len(self.process.lines), self._cpu()
        yield found
        while time.monotonic() - begun < seconds:
            assert self.process.process.poll() is None, self.process.log
            time.sleep(0.1)
        found.append(Outage(time.monotonic() - begun, self.process.lines[lines:], self._cpu() - cpu))

    def _cpu(self) -> float:
        times = self._measured.cpu_times()
        return float(times.user + times.system)


@contextmanager
def at_work(dsn: str, folder: Path, **values: str) -> Iterator[Patient]:
    """A worker process on a migrated database. It must still be the same one at the end, and stop when it is told."""
    if ask(dsn, "select to_regclass('effect')") == [(None,)]:
        ask(dsn, "create table effect (job uuid not null)")
    (folder / "trouble.py").write_text(APP)
    with worker("--app", "trouble:opened", dsn=dsn, cwd=folder, **(QUICK | values)) as process:
        process.wait_for("has started")
        yield Patient(process)
        assert process.process.poll() is None, process.log
        process.send()
        assert process.exit_code() == 0, process.log


def calm(outage: Outage, record: pytest.FixtureRequest, most: float = 0.5) -> None:
    """No storm of lines, no spinning. The figure is reported; the bound leaves a busy machine its room, and is on the
    processor's time, not on the clock's."""
    share = outage.cpu / outage.seconds
    # What is said of jobs grows with the jobs, not with the trouble.
    told = [str(line["message"]) for line in outage.lines if "job" not in line]
    record.node.user_properties += [("cpu_share", round(share, 4)), ("lines", len(told))]
    print(f"{outage.seconds:.1f} s of trouble: {len(told)} lines, {100 * share:.1f} % of a processor")  # noqa: T201  a figure
    assert len(told) <= outage.seconds + 1, "\n".join(told)
    assert outage.cpu <= most * outage.seconds, outage
