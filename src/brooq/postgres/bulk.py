"""Enqueues in a transaction of their own: repeated when their fate is unknown, and in parts when there are many jobs.

Client and server would take turns: one encodes while the other waits. In parts the server writes one while the next is
encoded. All parts are one transaction: all jobs or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence, Sized
from contextlib import AbstractAsyncContextManager
from itertools import count, islice
from typing import Any, TypeAlias
from uuid import UUID

from brooq.postgres.enqueue import (
    SILENCE,
    Prepared,
    Rings,
    encoded,
    have_keys,
    in_order,
    insert,
    parameters,
    refuse,
    rings,
)
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

MADE = 200
"""How many jobs a part has that are made meanwhile: making one takes the client as long as writing it takes the server, so
that neither gets ahead of the other."""

Lend: TypeAlias = "Callable[..., AbstractAsyncContextManager[Session]]"


class Parts:
    """The jobs of one call in the order of writing, each part taken from the caller and encoded when it is first asked for.

    Keys are locked in one order: when the first one comes, so does everything that is left, and is sorted.
    """

    def __init__(self, jobs: Iterable[Job], max_payload: int) -> None:
        """What fits into one part is encoded at once. Raises PayloadError and JobError, see `refuse`, and what the
        caller's iterable raises."""
        self.jobs: list[Job] = []
        """Those that have come, in the order of the caller."""
        self.broken: Exception | None = None
        """What the caller's iterable has raised."""
        self._max_payload = max_payload
        self._source = iter(jobs)
        self._size, self._growth = (FIRST, GROWTH) if isinstance(jobs, Sized) else (MADE, 1)
        self._waiting: list[Job] = []
        self._parts: list[Prepared] = []
        self._first_keyed: int | None = None
        self._take(2 * FIRST)
        self.single = len(self.jobs) < 2 * FIRST
        """Whether all of them are one part."""
        if self.single:
            self.get(0)

    def get(self, number: int) -> Prepared | None:
        """The part of this number, from 0; None where there are not so many."""
        while number >= len(self._parts):
            self._take(self._size + FIRST)
            if not self._waiting:
                return None
            self._parts.append(self._encoded())
        return self._parts[number]

    def keyed(self, number: int) -> bool:
        """Whether any job of the part may have a key."""
        return self._first_keyed is not None and number >= self._first_keyed

    def _take(self, size: int) -> None:
        """Let so many wait for their part, as far as there are any."""
        came = self._next(size - len(self._waiting))
        if self._first_keyed is not None:
            self._waiting += came
            return
        self.jobs += came
        if have_keys(came):
            rest = self._next(None)
            self.jobs += rest
            self._first_keyed = len(self._parts)
            self._growth = GROWTH
            self._source = iter(in_order([*self._waiting, *came, *rest]))
            self._waiting, came = [], self._next(size)
        self._waiting += came

    def _next(self, size: int | None) -> list[Job]:
        """So many more of the caller's; None: all of them."""
        try:
            return list(islice(self._source, size))
        except Exception as error:
            self.broken = error
            raise

    def _encoded(self) -> Prepared:
        """A last part that would be smaller than the first one belongs to the one before."""
        size = self._size if len(self._waiting) >= self._size + FIRST else len(self._waiting)
        part, self._waiting = self._waiting[:size], self._waiting[size:]
        self._size = min(self._size * self._growth, LARGEST)
        try:
            return encoded(part, self._max_payload)
        except JobError:
            refuse(self.jobs, self._max_payload)
            raise


async def enqueue_alone(
    lend: Lend, driver: Driver, statements: Statements, parts: Parts, *, wake: bool
) -> dict[UUID, UUID]:
    """In a transaction of its own, repeated when its fate is unknown: the ids tell what an earlier try has done.

    Answers as `insert`. `lend` is a store's way to borrow a connection of the pool.
    """
    unknown = False
    new = len(parts.jobs) > 1 or not parts.keyed(0)
    for attempt in range(TRIES):
        try:
            async with lend(checked=False, begins=not parts.single) as session:
                return await _write(session, statements, parts, new=new, wake=wake)
        except driver.errors as error:
            if error is parts.broken:
                raise
            trouble = translate(error, writing=True)
            if new and isinstance(trouble, (StoreRefused, OutcomeUnknown)):
                # Written by an earlier call with the same jobs, or perhaps by this one: now their ids may exist.
                new = False
                if isinstance(trouble, StoreRefused):
                    continue
        except StoreError as error:
            if error is parts.broken:
                raise
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
    found: dict[UUID, UUID] = {}
    if parts.single:
        part = parts.get(0)
        assert part is not None
        told = rings(part.jobs) if wake else SILENCE
        return await _insert(session, statements, part, told, keyed=parts.keyed(0), new=new)
    under_way = _start(session.execute(BEGIN))
    try:
        for number in count():
            # What is under way runs to its first wait, and what uvloop has kept of it is sent: the server begins.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            part = parts.get(number)
            if part is None:
                break
            told = rings(part.jobs) if wake else SILENCE
            values = session.packed(parameters(part, told))
            found.update(await under_way or {})
            under_way = _start(_insert(session, statements, part, told, values, keyed=parts.keyed(number), new=new))
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
