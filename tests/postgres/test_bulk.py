"""Many jobs in a call: written in parts while the next one is encoded, and yet one transaction that is there or is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, LiteralString

import psycopg
import pytest
import pytest_asyncio
from tests.postgres.observer import Observer, Opened

from brooq import Enqueued, Job, JobError, PayloadError, StoreRefused, StoreUnavailable
from brooq.postgres import open_pool
from brooq.postgres.bell import PostgresBell
from brooq.postgres.bulk import FIRST, LARGEST, Parts
from brooq.postgres.enqueue import Prepared
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.payload import MAX_BYTES

MANY = 2500
"""More than the largest part."""

OPEN: LiteralString = (
    "select pid from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"
)
AT_WORK: LiteralString = (
    "select pid from pg_stat_activity where datname = current_database() and xact_start is not null"
    " and pid <> pg_backend_pid() and application_name = 'brooq'"
)
WAITING: LiteralString = (
    "select pid from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'"
)
Driver = Literal["psycopg", "asyncpg"]


@pytest.fixture(params=["psycopg", "asyncpg"])
def driver(request: pytest.FixtureRequest) -> Any:
    return request.param


def some(count: int, keys: bool = False) -> list[Job]:
    return [Job("t", {"n": number}, f"k{number % 1000}-{number}" if keys else "") for number in range(count)]


def split(parts: Parts) -> list[Prepared]:
    found: list[Prepared] = []
    while (part := parts.get(len(found))) is not None:
        found.append(part)
    return found


@pytest.mark.parametrize("lazily", [False, True], ids=["a list", "one by one"])
@pytest.mark.parametrize("total", [1, 2, FIRST, FIRST + 1, 2 * FIRST - 1, 2 * FIRST, 999, 1000, 1001, 10_000])
def test_parts_are_all_jobs_once_in_order(total: int, *, lazily: bool) -> None:
    jobs = [Job("t", number) for number in range(total)]
    parts = Parts(iter(jobs) if lazily else jobs, MAX_BYTES)
    found = split(parts)
    assert [job for part in found for job in part.jobs] == parts.jobs == jobs
    assert [payload for part in found for payload in part.payloads] == [str(number) for number in range(total)]
    sizes = [len(part.jobs) for part in found]
    assert max(sizes) <= LARGEST + FIRST
    assert min(sizes) >= min(FIRST, total)
    assert parts.single == (total < 2 * FIRST)
    assert len(sizes) == 1 or not parts.single
    assert len(sizes) > 1 or total < 2 * FIRST or lazily
    assert parts.get(0) is found[0], "encoded once"


@pytest.mark.parametrize("lazily", [False, True], ids=["a list", "one by one"])
def test_keys_are_sorted_over_all_parts(*, lazily: bool) -> None:
    jobs = [Job(topic, None, f"k{number % 17}") for number in range(800) for topic in ("b", "a")]
    parts = Parts(iter(jobs) if lazily else jobs, MAX_BYTES)
    found = split(parts)
    assert len(found) > 1
    assert all(parts.keyed(number) for number in range(len(found)))
    written = [(job.topic, job.idempotency_key) for part in found for job in part.jobs]
    assert written == sorted(written)
    assert parts.jobs == jobs


@pytest.mark.parametrize("first", [0, 1, FIRST, 2 * FIRST, 2 * FIRST + 1, 850, 999])
def test_keys_that_come_late_are_sorted_from_there_on(first: int) -> None:
    jobs = [Job("t", number, f"k{-number % 17}" if number >= first else "") for number in range(1000)]
    parts = Parts(iter(jobs), MAX_BYTES)
    found = split(parts)
    assert sorted(job.payload for part in found for job in part.jobs) == list(range(1000))
    assert parts.jobs == jobs
    keys = [job.idempotency_key for part in found for job in part.jobs]
    assert keys == sorted(keys)
    for number, part in enumerate(found):
        assert parts.keyed(number) or not any(job.idempotency_key for job in part.jobs)


@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys"])
async def test_all_jobs_are_written_in_one_transaction(
    driver: Driver, dsn: str, observer: Observer, keys: bool
) -> None:
    jobs = some(MANY, keys)
    async with Opened(dsn, driver=driver) as store:
        assert await store.enqueue(None, jobs) == [Enqueued(job.id, True) for job in jobs]
        assert await store.enqueue(None, jobs) == [Enqueued(job.id, True) for job in jobs], "by their ids"
    assert observer.value("select count(distinct xmin::text) from job") == 1
    rows = dict(observer.run("select id, payload from job"))
    assert rows == {job.id: job.payload for job in jobs}


@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys"])
async def test_jobs_are_made_while_those_before_are_written(
    driver: Driver, dsn: str, observer: Observer, keys: bool
) -> None:
    jobs = some(MANY, keys)
    seen: list[bool] = []

    def made() -> Iterator[Job]:
        for number, job in enumerate(jobs):
            if number == MANY - 1:
                seen.append(bool(observer.run(AT_WORK)))
            yield job

    async with Opened(dsn, driver=driver, min_size=1, max_size=1) as store:
        assert await store.enqueue(None, made()) == [Enqueued(job.id, True) for job in jobs]
    assert seen == [not keys], "with keys, all of them come before the first is written"
    assert observer.value("select count(distinct xmin::text) from job") == 1
    assert dict(observer.run("select id, payload from job")) == {job.id: job.payload for job in jobs}


@pytest.mark.parametrize("number", [0, FIRST, MANY - 1])
@pytest.mark.parametrize("error", [ValueError, psycopg.OperationalError, OSError, StoreUnavailable])
async def test_what_making_jobs_raises_reaches_the_caller_and_leaves_nothing(
    driver: Driver, dsn: str, observer: Observer, number: int, error: type[Exception]
) -> None:
    """Though it looks like trouble of the database's: the jobs cannot be made once more."""
    raised = error("mine")

    def made() -> Iterator[Job]:
        yield from some(number)
        raise raised

    async with Opened(dsn, driver=driver, min_size=1, max_size=1) as store:
        with pytest.raises(error) as caught:
            await store.enqueue(None, made())
        assert caught.value is raised
        assert observer.run(OPEN) == []
        assert (await store.enqueue(None, [Job("t")]))[0].created
    assert observer.value("select count(*) from job") == 1


async def test_keys_that_exist_are_found_in_whichever_part(driver: Driver, dsn: str, observer: Observer) -> None:
    jobs = some(MANY, keys=True)
    known = [jobs[number] for number in range(0, MANY, 100)]
    again = [Job("t", None, job.idempotency_key) for job in jobs]
    async with Opened(dsn, driver=driver) as store:
        await store.enqueue(None, known)
        answers = await store.enqueue(None, [*again, *again[::500]])
    earlier = {job.idempotency_key: job.id for job in known}
    for job, answer in zip(again, answers, strict=False):
        found = earlier.get(job.idempotency_key)
        assert answer == ((job.id, True) if found is None else (found, False))
    assert answers[MANY:] == answers[:MANY:500]
    assert observer.value("select count(*) from job") == MANY


@pytest.mark.parametrize("number", [0, FIRST, MANY - 1])
@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys"])
@pytest.mark.fault(15)
async def test_a_payload_that_is_refused_leaves_nothing_and_a_clean_connection(
    driver: Driver, dsn: str, observer: Observer, number: int, keys: bool
) -> None:
    """Fault 15, however late it is met: the first one that was asked for is named."""
    jobs = some(MANY, keys)
    jobs[number] = Job("t", {"a": "x\0y"}, "aa" if keys else "")
    jobs[MANY - 1] = Job("t", {"b": "x\0y"}, "a" if keys else "") if number != MANY - 1 else jobs[number]
    async with Opened(dsn, driver=driver, min_size=1, max_size=1) as store:
        with pytest.raises(PayloadError, match=f"number {number} ") as caught:
            await store.enqueue(None, jobs)
        assert caught.value.place == "$.a"
        with pytest.raises(JobError, match="metadata"):
            await store.enqueue(None, [*some(MANY), Job("t", metadata={"a": object()})])
        assert observer.value("select count(*) from job") == 0
        assert (await store.enqueue(None, [Job("t")]))[0].created
        assert observer.run(OPEN) == []
    assert observer.value("select count(*) from job") == 1


async def test_what_the_database_refuses_in_a_later_part_leaves_nothing(
    driver: Driver, dsn: str, observer: Observer
) -> None:
    observer.run("alter table job add constraint small check ((payload ->> 'n')::int < 2000)")
    async with Opened(dsn, driver=driver, min_size=1, max_size=1) as store:
        with pytest.raises(StoreRefused):
            await store.enqueue(None, some(MANY))
        assert observer.value("select count(*) from job") == 0
        await store.enqueue(None, some(2000))
    assert observer.value("select count(*) from job") == 2000


async def test_it_is_read_committed_whatever_the_default(driver: Driver, dsn: str, observer: Observer) -> None:
    observer.set("default_transaction_isolation", "serializable")
    observer.run(
        "create function witness() returns trigger language plpgsql as $$ begin"
        " new.payload := to_jsonb(current_setting('transaction_isolation')); return new; end $$;"
        " create trigger witness before insert on job for each row execute function witness()"
    )
    async with Opened(dsn, driver=driver) as store:
        await store.enqueue(None, some(MANY))
    assert observer.run("select distinct payload #>> '{}' from job") == [("read committed",)]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13])
async def test_one_that_is_canceled_is_there_or_not_and_its_connection_is_clean(
    driver: Driver, dsn: str, observer: Observer, steps: int
) -> None:
    async with Opened(dsn, driver=driver, min_size=1, max_size=1) as store:
        await store.enqueue(None, [Job("t")])
        task = asyncio.create_task(store.enqueue(None, some(MANY)))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert (await store.enqueue(None, [Job("t")]))[0].created
    assert observer.value("select count(*) from job") in (2, 2 + MANY)


@pytest.mark.fault(29)
async def test_one_whose_connection_is_cut_is_repeated_as_a_whole(driver: Driver, dsn: str, observer: Observer) -> None:
    """Fault 29: cut while a later part waits for a lock."""
    jobs = [*some(1000), *some(MANY, keys=True)]
    async with Opened(dsn, driver=driver) as store:
        with psycopg.connect(dsn) as rival:
            rival.execute("insert into job (topic, idempotency_key) values ('t', %s)", [jobs[-1].idempotency_key])
            task = asyncio.create_task(store.enqueue(None, iter(jobs)))
            await observer.until(
                lambda: bool(
                    observer.value("select count(*) from pg_locks where not granted and locktype = 'transactionid'")
                )
            )
            observer.run("select pg_terminate_backend(%s)", observer.value(WAITING))
            rival.rollback()
        assert await task == [Enqueued(job.id, True) for job in jobs]
    assert observer.value("select count(*) from job") == len(jobs)


@pytest_asyncio.fixture
async def belled(driver: Driver, dsn: str) -> AsyncIterator[tuple[PostgresStore, PostgresBell]]:
    """A store, and somebody who waits for its jobs."""
    async with open_pool(dsn, driver=driver) as pool:
        store = PostgresStore(pool)
        bell = store.bell(["a", "b", "c", "later"])
        assert isinstance(bell, PostgresBell)
        await bell.hang_up(lambda _: None)
        yield store, bell
        await bell.close()


async def rung(bell: PostgresBell, count: int) -> int:
    """How often it has rung once it has rung that often."""
    heard = 0
    async with asyncio.timeout(30):
        while heard < count:
            heard += await bell.wait(10.0)
    return heard + await bell.wait(0.2)


async def test_workers_of_all_topics_are_woken_once(belled: tuple[PostgresStore, PostgresBell]) -> None:
    """For what is ready, whichever part it is in."""
    store, bell = belled
    later = datetime.now(UTC) + timedelta(hours=1)
    jobs = [
        *[Job("a") for _ in range(FIRST)],
        *[Job("later", available_at=later) for _ in range(FIRST)],
        *[Job("b", available_at=later if number else later - timedelta(hours=2)) for number in range(FIRST)],
        *[Job("c", available_at=later) for _ in range(1000)],
        *[Job("a") for _ in range(FIRST)],
    ]
    await store.enqueue(None, jobs)
    assert await rung(bell, 2) == 2


async def test_workers_are_woken_though_the_last_part_is_all_known(belled: tuple[PostgresStore, PostgresBell]) -> None:
    store, bell = belled
    known = [Job("a", None, f"z{number}") for number in range(1000)]
    await store.enqueue(None, known)
    assert await rung(bell, 1) == 1
    again = [Job("a", None, job.idempotency_key) for job in known]
    await store.enqueue(None, again)
    assert await bell.wait(0.2) == 0, "nothing is new"
    await store.enqueue(None, [Job("a", None, "a"), *again])
    assert await rung(bell, 1) == 1
