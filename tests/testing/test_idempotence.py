"""Handlers that may not run twice are found in each window, with the await that shows it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from brooq import Claim, Job, LeaseLost, PayloadError, Queue, current_claim
from brooq.postgres import PostgresStore, as_psycopg, open_pool
from brooq.testing import MemoryStore, assert_idempotent
from brooq.testing.memory import MemoryTx


class World:
    """What handlers change: a ledger, an outbox, balances. Every access takes a turn of the event loop."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.ledger: list[Any] = []
        self.marks: set[Any] = set()

    def state(self) -> Any:
        return (list(self.ledger), set(self.marks))

    async def add(self, entry: Any) -> None:
        self.ledger.append(entry)
        await asyncio.sleep(0)

    async def mark(self, mark: Any) -> None:
        self.marks.add(mark)
        await asyncio.sleep(0)

    async def has(self, entry: Any) -> bool:
        found = entry in self.ledger
        await asyncio.sleep(0)
        return found


world = World()


@pytest.fixture(autouse=True)
def fresh() -> None:
    world.reset()


def line(handler: Callable[..., Any], text: str) -> str:
    """Where the line of a handler stands."""
    source, start = inspect.getsourcelines(handler)
    (number,) = [number for number, each in enumerate(source, start) if text in each]
    return f"{__file__}:{number}"


async def check(handler: Callable[[Claim], Any], job: Job | None = None, **more: Any) -> list[str]:
    return await assert_idempotent(handler, job or Job("t", 7), state=world.state, reset=world.reset, **more)


# --- what is idempotent ---


async def guarded(claim: Claim) -> None:
    world.marks.add(claim.id)
    if claim.id not in world.ledger:
        world.ledger.append(claim.id)
    await world.mark("seen")


async def only_in_the_closing_transaction(claim: Claim) -> None:
    await world.mark("begun")
    claim.on_succeeded(lambda _: world.add(claim.payload))
    claim.chain(Job("next"))


@pytest.mark.parametrize("handler", [guarded, only_in_the_closing_transaction])
async def test_an_idempotent_handler_passes(handler: Callable[[Claim], Any]) -> None:
    places = await check(handler)
    assert places
    assert all(place.startswith(__file__) for place in places)
    assert world.state() == ([], set())


async def test_the_awaits_tried_are_those_of_the_consumers_code() -> None:
    assert await check(only_in_the_closing_transaction) == [line(World.mark, "sleep")]


# --- planted ---


async def appends(claim: Claim) -> None:
    world.ledger.append(claim.payload)


async def test_an_effect_that_is_repeated_is_found_when_the_outcome_is_lost() -> None:
    with pytest.raises(AssertionError) as caught:
        await check(appends)
    said = str(caught.value)
    assert said.startswith("appends is not idempotent: it had ended, its outcome was lost")
    assert "undisturbed: ([7], set())" in said
    assert "([7, 7], set())" in said


async def begins_twice(claim: Claim) -> None:
    """Finished work is recognized; work that was begun is not."""
    if "finished" in world.marks:
        return
    await world.add("begun")
    world.marks.add("finished")


async def test_a_death_between_effect_and_mark_is_found_at_its_await() -> None:
    with pytest.raises(AssertionError) as caught:
        await check(begins_twice)
    assert f"its process died at {line(World.add, 'sleep')}" in str(caught.value)


async def looks_and_leaps(claim: Claim) -> None:
    """Right one after the other, wrong at one time."""
    if await world.has(claim.id):
        return
    world.ledger.append(claim.id)


async def test_two_copies_that_look_and_then_leap_are_found_at_the_look() -> None:
    with pytest.raises(AssertionError) as caught:
        await check(looks_and_leaps)
    assert f"lost its lease at {line(World.has, 'sleep')}, a second copy ran" in str(caught.value)
    assert "and the first went on" in str(caught.value)


async def locks(claim: Claim) -> None:
    """Relies on its clean-up, which a killed process does not do."""
    if "lock" in world.marks:
        return
    world.marks.add("lock")
    try:
        await asyncio.sleep(0)
        world.marks.add("done")
    finally:
        world.marks.discard("lock")


async def test_a_lock_that_only_a_clean_up_opens_is_found() -> None:
    with pytest.raises(AssertionError, match=r"its process died at .*\n.*\{'done'\}.*\n.*\{'lock'\}"):
        await check(locks)


async def undoes(claim: Claim) -> None:
    """Cleans up behind its interruption what the second copy has done."""
    try:
        world.marks.add("sent")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        world.marks.discard("sent")
        raise


async def test_a_clean_up_that_undoes_the_second_copys_work_is_found() -> None:
    with pytest.raises(AssertionError) as caught:
        await check(undoes)
    assert f"lost its lease at {line(undoes, 'sleep')}" in str(caught.value)
    assert "the first was interrupted there" in str(caught.value)


async def refuses(claim: Claim) -> None:
    if "done" in world.marks:
        raise ValueError("done already")
    world.marks.add("done")


async def test_a_handler_that_refuses_its_second_run_is_found() -> None:
    with pytest.raises(AssertionError, match=r"cannot be run again: it had ended.* ValueError\('done already'\)"):
        await check(refuses)


def blocks(claim: Claim) -> None:
    world.ledger.append(claim.payload)


def blocks_well(claim: Claim) -> None:
    world.marks.add(claim.payload)


async def test_a_handler_that_blocks_is_run_twice() -> None:
    with pytest.raises(AssertionError, match="outcome was lost"):
        await check(blocks)
    assert await check(blocks_well) == []


async def test_what_a_handler_raises_undisturbed_is_no_finding() -> None:
    async def broken(claim: Claim) -> None:
        raise KeyError("its own")

    with pytest.raises(KeyError):
        await check(broken)


# --- what claims can do ---


async def fenced(claim: Claim) -> None:
    """Looks and leaps, as above; but whoever has lost the job in between is stopped before the leap."""
    found = await world.has(claim.payload)
    await claim.progress(0.5, "looked")
    await claim.assert_held(await MemoryStore().begin())
    if not found:
        world.ledger.append(claim.payload)


async def fenced_too_early(claim: Claim) -> None:
    await claim.assert_held(await MemoryStore().begin())
    if not await world.has(claim.payload):
        world.ledger.append(claim.payload)


async def test_a_fence_stops_the_copy_that_has_lost_the_job() -> None:
    assert await check(fenced)
    with pytest.raises(AssertionError, match="lost its lease"):
        await check(fenced_too_early)


@dataclass
class Order:
    number: int


async def typed(claim: Claim[Order]) -> None:
    assert current_claim() is claim
    world.marks.add(claim.payload.number)
    await asyncio.sleep(0)


async def test_a_handler_gets_the_payload_that_it_asks_for() -> None:
    assert len(await check(typed, Job("t", {"number": 7}))) == 1
    with pytest.raises(PayloadError, match="number"):
        await check(typed, Job("t", {"number": "seven"}))


# --- on a real database ---


@asynccontextmanager
async def shop(dsn: str) -> AsyncIterator[tuple[Queue, psycopg.AsyncConnection[Any]]]:
    async with open_pool(dsn) as pool, await psycopg.AsyncConnection.connect(dsn, autocommit=True) as reading:
        await reading.execute("create table account (id int primary key, cents int)")
        yield Queue(PostgresStore(pool)), reading


async def test_transactions_that_wait_for_each_other_are_let_through(dsn: str) -> None:
    """The first copy stands with a row locked; the second waits for it, and a killed one's transaction is rolled back."""
    async with shop(dsn) as (queue, reading):
        store = queue.store
        assert isinstance(store, PostgresStore)
        pool: Any = store.pool

        async def reset() -> None:
            await reading.execute("truncate account")
            await reading.execute("insert into account values (1, 100)")

        async def state() -> Any:
            return await (await reading.execute("select * from account")).fetchall()

        async def sets(claim: Claim) -> None:
            async with pool.connection() as connection:
                await connection.execute("update account set cents = 90 where id = 1")

        async def subtracts(claim: Claim) -> None:
            async with pool.connection() as connection:
                await connection.execute("update account set cents = cents - 10 where id = 1")

        async def subtracts_at_the_close(claim: Claim) -> None:
            @claim.on_succeeded
            async def pay(tx: Any) -> None:
                connection = as_psycopg(tx)
                assert connection is not None
                await connection.execute("update account set cents = cents - 10 where id = 1")

        async def ask(handler: Callable[[Claim], Any]) -> list[str]:
            return await assert_idempotent(handler, Job("t"), state=state, reset=reset, queue=queue, patience=0.1)

        assert len(await ask(sets)) >= 2
        await ask(subtracts_at_the_close)
        with pytest.raises(AssertionError, match=r"\(1, 80\)"):
            await ask(subtracts)


async def test_a_store_in_memory_is_enough_for_callbacks() -> None:
    queue = Queue(MemoryStore())
    await check(only_in_the_closing_transaction, queue=queue)
    assert isinstance(queue.store, MemoryStore)
    assert {record.topic for record in queue.store.jobs} == {"next"}


@dataclass
class Entry:
    """A typed payload."""

    name: str


async def test_a_handler_has_its_typed_payload_and_its_fence_in_a_trial() -> None:
    """Of two copies that overlap the first is a zombie: what it asks for is refused."""
    refused = 0

    async def adds_behind_the_fence(claim: Claim[Entry]) -> None:
        nonlocal refused
        assert current_claim() is claim
        claim.progress(0.5)
        if await world.has(claim.payload.name):
            return
        try:
            await claim.assert_held(MemoryTx(MemoryStore()))
        except LeaseLost:
            refused += 1
            return
        world.ledger.append(claim.payload.name)

    await assert_idempotent(adds_behind_the_fence, Job("t", Entry("a")), state=world.state, reset=world.reset)
    assert refused
