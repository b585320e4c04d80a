"""Enqueues in a transaction of their own: repeated when their fate is unknown, and in parts when there are many jobs.

Client and server would take turns: one encodes while the other waits. In parts the server writes one while the next is
encoded. All parts are one transaction: all jobs or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias
from uuid import UUID

from brooq.postgres.enqueue import SILENCE, Prepared, Rings, encoded, in_order, insert, parameters, refuse, rings
from brooq.postgres.session import BEGIN, Driver, Session
from brooq.postgres.statement import Statements
from brooq.postgres.trouble import PoolExhausted, translate
from brooq.vocabulary.error import JobError, OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from brooq.vocabulary.job import Job

TRIES = 5
"""How often an enqueue of its own transaction is tried when the connection is lost or the database asks to retry."""

FIRST, GROWTH, LARGEST = 100, 3, 1000
"""How many jobs the first part has, how many times as many each that follows, and at most. The server has nothing to do
while the first part is encoded, so it is small; it takes longer than the client, so the next ones may be larger."""

Lend: TypeAlias = "Callable[..., AbstractAsyncContextManager[Session]]"


class Parts:
    """The jobs of one call in the order of writing, each part encoded when it is first asked for."""

    def __init__(self, jobs: Sequence[Job], max_payload: int) -> None:
        """What fits into one part is encoded at once. Raises PayloadError and JobError, see `refuse`."""
        self.jobs = jobs
        self._max_payload = max_payload
        self._ordered = in_order(jobs)
        self.keyed = self._ordered is not jobs or bool(jobs[0].idempotency_key)
        """Whether any job has a key."""
        self._ends = _ends(len(jobs))
        self._encoded: list[Prepared] = []
        if len(self) == 1:
            self[0]

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> Prepared:
        while number >= len(self._encoded):
            begin = self._ends[len(self._encoded) - 1] if self._encoded else 0
            part = self._ordered[begin : self._ends[len(self._encoded)]]
            try:
                self._encoded.append(encoded(part, self._max_payload))
            except JobError:
                refuse(self.jobs, self._max_payload)
                raise
        return self._encoded[number]


def _ends(count: int) -> list[int]:
    """Where each part ends. A last part that would be smaller than the first one belongs to the one before."""
    if count < 2 * FIRST:
        return [count]
    ends: list[int] = []
    size = FIRST
    while not ends or ends[-1] < count:
        ends.append((ends[-1] if ends else 0) + size)
        size = min(size * GROWTH, LARGEST)
    if len(ends) > 1 and count - ends[-2] < FIRST:
        ends.pop()
    ends[-1] = count
    return ends


async def enqueue_alone(
    lend: Lend, driver: Driver, statements: Statements, parts: Parts, *, wake: bool
) -> dict[UUID, UUID]:
    """In a transaction of its own, repeated when its fate is unknown: the ids tell what an earlier try has done.

    Answers as `insert`. `lend` is a store's way to borrow a connection of the pool.
    """
    unknown = False
    new = len(parts.jobs) > 1 or not parts.keyed
    for attempt in range(TRIES):
        try:
            async with lend(checked=False, begins=len(parts) > 1) as session:
                return await _write(session, statements, parts, new=new, wake=wake)
        except driver.errors as error:
            trouble = translate(error, writing=True)
            if new and isinstance(trouble, (StoreRefused, OutcomeUnknown)):
                # Written by an earlier call with the same jobs, or perhaps by this one: now their ids may exist.
                new = False
                if isinstance(trouble, StoreRefused):
                    continue
        except StoreError as error:
            trouble = error
        unknown = unknown or isinstance(trouble, OutcomeUnknown)
        if isinstance(trouble, PoolExhausted) or not isinstance(trouble, (StoreUnavailable, OutcomeUnknown)):
            break
        await asyncio.sleep(0.05 * 2**attempt if attempt else 0.0)
        try:
            await driver.mend()
        except driver.errors:
            pass  # the next try tells
    raise OutcomeUnknown(str(trouble)) if unknown else trouble


async def _write(session: Session, statements: Statements, parts: Parts, *, new: bool, wake: bool) -> dict[UUID, UUID]:
    if len(parts) == 1:
        told = rings(parts.jobs) if wake else SILENCE
        return await _insert(session, statements, parts[0], told, keyed=parts.keyed, new=new)
    found: dict[UUID, UUID] = {}
    under_way = _start(session.execute(BEGIN))
    try:
        for number in range(len(parts)):
            # What is under way runs to its first wait, and what uvloop has kept of it is sent: the server begins.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            told = rings(parts[number].jobs) if wake else SILENCE
            values = session.packed(parameters(parts[number], told))
            found.update(await under_way or {})
            under_way = _start(_insert(session, statements, parts[number], told, values, keyed=parts.keyed, new=new))
        found.update(await under_way or {})
    except BaseException as error:
        await _ended(session, under_way, cancel=isinstance(error, asyncio.CancelledError))
        raise
    await session.commit()
    return found


async def _insert(
    session: Session,
    statements: Statements,
    part: Prepared,
    told: Rings,
    values: Sequence[Any] | None = None,
    *,
    keyed: bool,
    new: bool,
) -> dict[UUID, UUID]:
    """`values`: as in `insert`. `new`: no id of these exists, as far as is known, and the transaction is theirs. Raises the
    driver's errors, a unique violation among them when one does exist."""
    if keyed or not new:
        return await insert(session, statements, part, told, values=values, new=new)
    statement = statements.enqueue_new if len(part.jobs) > 1 else statements.enqueue_one_new
    await session.fetch(statement, values or parameters(part, told))
    return {}


def _start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to ask
    return task


async def _ended(session: Session, under_way: asyncio.Task[Any], *, cancel: bool) -> None:
    """Only then the connection is free, to roll back on it."""
    if cancel:
        under_way.cancel()
    try:
        await asyncio.wait([under_way])
    except BaseException:
        session.sever()
        raise
