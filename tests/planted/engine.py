"""Planted bugs in the engine: a real queue runs, one of its parts is replaced by a weakened one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.planted.stage import TOPIC, Bug, Plant, Stage
from tests.simulation import mutant

from brooq import Claim, Config, Job, KindOptions, MustPreserveAttempt, Queue
from brooq.engine import outcome as outcomes
from brooq.engine import worker as workers
from brooq.engine.bind import Grounds
from brooq.engine.closing import Closing
from brooq.engine.kind import Kind
from brooq.postgres import as_psycopg
from brooq.vocabulary.event import Event, JobClaimed
from brooq.vocabulary.tx import Tx

CONFIG = Config(
    workers=2, poll_interval=0.02, lease=30, reaper_period=0.05, backoff_base=0.01, backoff_max=0.01, max_attempts=2
)


class Play:
    """One queue on the stage, its handler in the journal, and what it has done so far."""

    def __init__(self, stage: Stage, handler: Any, config: Config = CONFIG) -> None:
        """`handler` takes a claim and the play."""
        self.stage = stage
        self.queue = Queue(stage.store, config, name="w")
        self.began = asyncio.Event()
        self.queue.listen(stage.journal)
        self.queue.listen(self._told)

        async def handle(claim: Claim) -> None:
            await handler(claim, self)

        self.queue.register_kind(TOPIC, stage.journal.around(handle), KindOptions(attempt_timeout=5))

    def _told(self, event: Event) -> None:
        if isinstance(event, JobClaimed):
            self.began.set()

    async def send(self, **options: Any) -> Job:
        """Enqueue a job."""
        job = Job(TOPIC, **options)
        await self.stage.producers.enqueue(self.queue, job)
        return job

    async def until(self, job: Job, *states: str) -> None:
        """Wait for the row."""
        while True:
            record = await self.queue.find(job.id)
            if record is not None and record.state in states:
                return
            await asyncio.sleep(0.005)

    async def write_effect(self, tx: Tx, claim: Claim) -> None:
        """In the transaction that closes the job."""
        connection = as_psycopg(tx)
        assert connection is not None
        await connection.execute(
            "insert into public_audit.effect (job_id, claim_seq) values (%s, %s)", [claim.id, claim.token]
        )


def effect_of(claim: Claim, play: Play) -> None:
    """The handler has an effect that commits with its outcome."""
    play.stage.journal.effect(claim, tx=True)

    @claim.on_succeeded
    async def write(tx: Tx) -> None:
        await play.write_effect(tx, claim)


# --- schedules ---


async def chain_then_fail(stage: Stage) -> None:
    """The callback fails at first: nothing of this closing may stay."""
    failed = False

    async def handler(claim: Claim, play: Play) -> None:
        nonlocal failed
        if claim.payload != "parent":
            return
        claim.chain(Job(TOPIC, "child"))

        @claim.on_succeeded
        def fail(_: Tx) -> None:
            nonlocal failed
            if not failed:
                failed = True
                raise RuntimeError

    play = Play(stage, handler)
    async with play.queue:
        await play.until(await play.send(payload="parent"), "done", "dead")


async def canceled_before_its_end(stage: Stage) -> None:
    """Somebody cancels the job while its handler works; then the handler returns, with an effect."""
    over = asyncio.Event()

    async def handler(claim: Claim, play: Play) -> None:
        effect_of(claim, play)
        await over.wait()

    play = Play(stage, handler)
    async with play.queue:
        job = await play.send()
        await play.began.wait()
        assert (await play.queue.cancel(job.id)).canceled
        over.set()
        while play.queue.running():  # noqa: ASYNC110  the queue tells nobody when a canceled handler has gone
            await asyncio.sleep(0.005)


async def with_an_effect(stage: Stage) -> None:
    async def handler(claim: Claim, play: Play) -> None:
        effect_of(claim, play)

    play = Play(stage, handler)
    async with play.queue:
        await play.until(await play.send(), "done", "dead")


async def timed_out(stage: Stage) -> None:
    """The handler swallows its time-out and returns as if nothing were."""

    async def handler(_: Claim, __: Play) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

    play = Play(stage, handler, replace(CONFIG, max_attempts=1))
    kind = play.queue._kinds[TOPIC]
    play.queue._kinds[TOPIC] = replace(kind, options=replace(kind.options, attempt_timeout=0.05))
    async with play.queue:
        await play.until(await play.send(), "done", "dead")


async def stopped(stage: Stage) -> None:
    """A deploy: the running job goes back into circulation."""

    async def handler(_: Claim, __: Play) -> None:
        await asyncio.Event().wait()

    play = Play(stage, handler)
    await play.queue.start()
    job = await play.send()
    await play.began.wait()
    await play.queue.stop(timedelta(0))
    await play.until(job, "pending")
    await play.queue.close()


async def fails_always(stage: Stage) -> None:
    async def handler(_: Claim, __: Play) -> None:
        raise RuntimeError

    play = Play(stage, handler)
    async with play.queue:
        job = await play.send()
        async with asyncio.timeout(20):
            while True:
                record = await play.queue.find(job.id)
                assert record is not None
                if record.state == "dead" or record.attempts > 3:
                    return
                await asyncio.sleep(0.005)


async def preserves_once(stage: Stage) -> None:
    async def handler(claim: Claim, _: Play) -> None:
        if claim.token == 1:
            raise MustPreserveAttempt

    play = Play(stage, handler)
    async with play.queue:
        await play.until(await play.send(), "done", "dead")


# --- bugs ---


def planted(bug: Any) -> Plant:
    """One of the simulation's bugs, in the engine that works on PostgreSQL."""
    return lambda _: bug()


@contextmanager
def effects_on_their_own(_: Stage) -> Iterator[None]:
    """Callbacks run in a transaction that commits before the outcome is written."""
    original = Closing._once

    async def once(self: Closing) -> bool:
        tx = await self._store.begin()
        await self._call_back(tx)
        await tx.commit()
        return await original(self)

    with mutant.planted(Closing, "_once", once):
        yield


def never_dead(_: Stage) -> Any:
    """The last attempt is followed by another one."""
    original = outcomes.decide

    def decide(id: Any, token: int, attempt: int, ending: Any, options: Any, max_attempts: int, random: Any) -> Any:
        return original(id, token, attempt, ending, options, max_attempts + 10, random)

    return mutant.planted(workers, "decide", decide)


def preserve_keeps_the_attempt(_: Stage) -> Any:
    """The attempt that a handler gave back stays spent."""
    original = outcomes.decide

    def decide(*arguments: Any) -> Any:
        outcome = original(*arguments)
        if outcome is not None and outcome.refund and outcome.error is not None:
            outcome.refund = 0
        return outcome

    return mutant.planted(workers, "decide", decide)


def handler_run_twice(_: Stage) -> Any:
    """A claim is given to two handlers."""
    original = Grounds.bind

    def bind(self: Grounds, kind: Kind) -> Kind:
        bound = original(self, kind)

        async def twice(claim: Claim[Any]) -> None:
            await bound.call(claim)
            await bound.call(claim)

        return replace(bound, call=twice)

    return mutant.planted(Grounds, "bind", bind)


BUGS = (
    Bug("chain_outside_the_transaction", ["C14"], planted(mutant.chain_outside_the_transaction), chain_then_fail),
    Bug("callbacks_before_the_guard", ["C11"], planted(mutant.callbacks_before_guard), canceled_before_its_end),
    Bug("effects_on_their_own", ["C11"], effects_on_their_own, with_an_effect),
    Bug("swallowed_timeout_is_success", ["C10"], planted(mutant.swallowed_cancellation_is_success), timed_out),
    Bug("stop_costs_an_attempt", ["C9"], planted(mutant.release_without_refund), stopped),
    Bug("never_dead", ["C9"], never_dead, fails_always),
    Bug("preserve_keeps_the_attempt", ["C9"], preserve_keeps_the_attempt, preserves_once),
    Bug("handler_run_twice", ["C3"], handler_run_twice, with_an_effect),
)
