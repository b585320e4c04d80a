"""The store on PostgreSQL: what the contract cannot say, since only a database has it."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import AsyncConnectionPool
from tests.postgres.observer import Observer, Opened

from brooq import (
    AvailableAtError,
    Enqueued,
    IdempotencyKeyError,
    Job,
    JobError,
    KindOptions,
    Limits,
    PayloadError,
    Queue,
    SchemaError,
    State,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    TopicError,
)
from brooq.engine.config import Config
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold
from brooq.postgres import PostgresStore, migrate, open_pool, wrap_tx
from brooq.postgres.operator import Operator
from brooq.postgres.reader import Reader
from brooq.vocabulary.claim import Claim

LEASE = timedelta(seconds=30)
DAY = timedelta(days=1)


# --- the caller's transaction ---


@pytest.fixture
def closed_pool(dsn: str) -> AsyncConnectionPool:
    """A pool that nobody opened: whoever asks it for a connection fails."""
    return AsyncConnectionPool(dsn, open=False)


@pytest.mark.fault(15)
async def test_a_payload_that_jsonb_refuses_leaves_the_callers_transaction_usable(
    dsn: str, observer: Observer, closed_pool: AsyncConnectionPool
) -> None:
    """Fault 15: refused before any SQL, so the caller commits."""
    observer.run("create table caller (n int)")
    queue = Queue(PostgresStore(closed_pool))
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("insert into caller values (1)")
        with pytest.raises(PayloadError, match=r"\$\.a"):
            await queue.enqueue_tx(wrap_tx(connection), Job("t", {"a": "x\0y"}))
        await connection.execute("insert into caller values (2)")
        await connection.commit()
    assert observer.run("select n from caller order by n") == [(1,), (2,)]
    assert observer.value("select count(*) from job") == 0


@pytest.mark.fault(20)
async def test_a_duplicate_key_never_aborts_the_callers_transaction(
    dsn: str, observer: Observer, closed_pool: AsyncConnectionPool
) -> None:
    """Fault 20: no error, no hidden commit, and no other connection than the caller's."""
    observer.run("create table caller (n int)")
    queue = Queue(PostgresStore(closed_pool))
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("insert into caller values (1)")
        first = await queue.enqueue_tx(wrap_tx(connection), Job("t", 1, "k"))
        second = await queue.enqueue_tx(wrap_tx(connection), Job("t", 2, "k"))
        await connection.execute("insert into caller values (2)")
        assert observer.value("select count(*) from caller") == 0
        assert observer.value("select count(*) from job") == 0
        await connection.commit()
    assert (first.created, second) == (True, Enqueued(first.id, False))
    assert observer.value("select count(*) from caller") == 2
    assert observer.run("select id, payload from job") == [(first.id, 1)]


async def test_a_stricter_transaction_of_the_caller_gets_its_serialization_failure_unchanged(
    dsn: str, observer: Observer, closed_pool: AsyncConnectionPool
) -> None:
    """Requirement E4."""
    queue = Queue(PostgresStore(closed_pool))
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("select 1 from job")
        observer.run("insert into job (topic, idempotency_key) values ('t', 'k')")
        with pytest.raises(psycopg.errors.SerializationFailure):
            await queue.enqueue_tx(wrap_tx(connection), Job("t", None, "k"))
        await connection.rollback()


@pytest.mark.fault(21)
async def test_keys_and_topics_are_measured_before_sql(dsn: str, observer: Observer) -> None:
    """Fault 21: in bytes, so that the longest that passes fits the index however badly it compresses."""
    noise = base64.b64encode(os.urandom(3000)).decode()
    for key in (noise, "k\0", "😀" * 600, "\ud800", noise[:1025]):
        with pytest.raises(IdempotencyKeyError):
            Job("t", None, key)
    for topic in (noise, "", "a" * 129, "a\n", "A", "a..b", "-a", "ж"):
        with pytest.raises(TopicError):
            Job(topic)
    longest = [Job("a" * 128, None, noise[:1024]), Job("t", None, "😀" * 256)]
    async with Opened(dsn) as store:
        assert all(answer.created for answer in await store.enqueue(None, longest))
        assert not any(
            answer.created
            for answer in await store.enqueue(None, [Job(j.topic, None, j.idempotency_key) for j in longest])
        )
    assert observer.value("select max(octet_length(idempotency_key)) from job") == 1024


# --- time ---


class RepeatedHour(tzinfo):
    """A zone whose hour from 1 to 2 o'clock comes twice: `fold` tells which."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=-5 if moment is not None and moment.fold else -4)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "twice"


@pytest.mark.fault(46)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
async def test_a_moment_is_the_same_in_every_session(dsn: str, observer: Observer, zone: str) -> None:
    """Fault 46: aware is exact whatever the zone of the database's sessions."""
    observer.run("select set_config('TimeZone', 'UTC', false)")
    observer.set("TimeZone", "UTC" if zone == "UTC" else "America/New_York" if "York" in zone else "Asia/Kathmandu")
    noon = datetime(2027, 1, 1, 12, tzinfo=timezone(timedelta(hours=3)))
    early = datetime(2026, 11, 1, 1, 30, tzinfo=RepeatedHour(), fold=0)
    late = early.replace(fold=1)
    jobs = [Job("t", available_at=moment) for moment in (noon, early, late)]
    expected = [
        datetime(2027, 1, 1, 9, tzinfo=UTC),
        datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
        datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    ]
    async with Opened(dsn) as store:
        await store.enqueue(None, jobs)
        for job, moment in zip(jobs, expected, strict=True):
            record = await store.find(job.id)
            assert record is not None
            # In UTC: Python calls no moment of a repeated hour equal to one of another zone.
            assert record.available_at.astimezone(UTC) == moment
            assert observer.value("select available_at = %s from job where id = %s", moment, job.id)
        (answer,) = await store.enqueue(None, [Job("now")])
        (taken,) = (await store.exchange("w", [], ["now"], 1, LEASE)).taken
        assert taken.id == answer.id
        assert 0 <= taken.waited < 60
        assert abs(taken.until - datetime.now(UTC) - LEASE) < timedelta(minutes=1)


@pytest.mark.fault(46)
def test_a_moment_without_a_zone_or_out_of_range_is_refused() -> None:
    """Fault 46: naive, and what timestamptz or a shift to another zone could not hold."""
    with pytest.raises(AvailableAtError, match="no time zone"):
        Job("t", available_at=datetime(2027, 1, 1, 12))  # noqa: DTZ001  that is what is refused
    for moment in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))):
        with pytest.raises(AvailableAtError, match="out of range"):
            Job("t", available_at=moment)


# --- the schema's name ---


@pytest.mark.fault(55)
@pytest.mark.security("S11")
@pytest.mark.parametrize(
    "schema", ["q", "My-Schema", 'it\'s "quoted"', 'a"; drop schema public cascade; --', "слово 50% $1", "x" * 63]
)
async def test_every_verb_keeps_to_its_schema(empty_dsn: str, schema: str) -> None:
    """Fault 55: another table called job, with the same columns, stands first in everybody's search_path."""
    dsn, observer = empty_dsn, Observer(empty_dsn)
    migrate.up(dsn, "public")
    observer.run("insert into job (topic, idempotency_key, state, locked_by, locked_until, updated_at)"
                 " values ('t', 'k', 'processing', 'w', now() - interval '1 day', now() - interval '9 days')")  # fmt: skip
    before = observer.run("select * from public.job")
    migrate.up(dsn, schema)
    async with Opened(dsn, schema) as store:
        await store.open()
        queue = Queue(store)
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.execute("set local search_path = public")
            enqueued = await queue.enqueue_tx(wrap_tx(connection), Job("t", None, "k"))
            assert enqueued.created
            await connection.commit()
        await verbs(store, enqueued.id)
        assert not (await queue.enqueue(Job("t", None, "k"))).created
        await queue.enqueue(Job("t", 1, "later"))
    assert observer.run("select * from public.job") == before
    observer.close()
    assert migrate.down(dsn, schema)
    assert migrate.status(dsn, "public")[0].applied_at is not None


async def verbs(store: PostgresStore, first: UUID) -> None:
    """Every verb once, on the one job there is."""
    assert (await store.census(["t"])).depths == [("t", State.PENDING, 1, True)]
    over = timedelta(seconds=-1)
    (taken,) = (await store.exchange("w", [], ["t"], 10, over)).taken
    assert taken.id == first
    renewer = await store.renewer()
    assert (await renewer.renew("w", [taken.hold], over)).renewed == [taken.hold]
    await renewer.close()
    assert [each.id for each in await store.reap(10)] == [first]
    (taken,) = (await store.exchange("w", [], ["t"], 10, LEASE)).taken
    outcome = Outcome(taken.id, taken.token, State.FAILED, "e", 0.0)
    assert (await store.exchange("w", [outcome], [], 0, LEASE)).settled == [taken.hold]
    (taken,) = (await store.exchange("w", [], ["t"], 10, LEASE)).taken
    async with await store.begin() as tx:
        assert await store.settle(tx, "w", Outcome(taken.id, taken.token, State.PENDING))
    assert (await store.cancel(first)).canceled
    assert (await store.fates([first]))[first].state is State.CANCELED
    record = await store.find(first)
    assert record is not None
    assert record.expired_leases == 1
    assert await store.prune(timedelta(days=1), 10) == []


@pytest.mark.fault(55)
async def test_a_wrong_schema_is_an_error_at_start(dsn: str) -> None:
    """Fault 55."""
    async with Opened(dsn, "elsewhere") as store:
        with pytest.raises(SchemaError, match="elsewhere"):
            await store.open()


async def test_a_start_that_is_refused_leaves_no_connection(dsn: str, observer: Observer) -> None:
    """Nobody closes what they could not start."""
    async with open_pool(dsn, min_size=0) as pool:
        queue = Queue(PostgresStore(pool, "elsewhere"))
        for _ in range(2):
            with pytest.raises(SchemaError, match="elsewhere"):
                await queue.start()
        await observer.until(lambda: observer.sessions() == 0)


# --- what the database's own settings must not change ---

WITNESS = """
create table witness (verb text, durable text, isolation text);
create function witness() returns trigger language plpgsql as $$
begin
    insert into witness values (
        coalesce(new.state, 'deleted'), current_setting('synchronous_commit'), current_setting('transaction_isolation')
    );
    return null;
end $$;
create trigger witness after insert or update or delete on job for each row execute function witness();
"""


@pytest.fixture
def witness(observer: Observer) -> Observer:
    """A trigger that writes down under which settings each row is written."""
    observer.run(WITNESS)
    return observer


async def test_a_database_that_does_not_wait_for_its_disk_does_so_for_jobs_and_outcomes(
    dsn: str, witness: Observer
) -> None:
    """Requirement G6. What the reaper writes may be lost: its lease is over all the same."""
    witness.set("synchronous_commit", "off")
    async with Opened(dsn) as store:
        await store.enqueue(None, [Job("t", n) for n in range(4)])
        await store.enqueue(None, [Job("u")])
        await store.enqueue(None, [Job("u", None, "k")])
        async with await store.begin() as tx:
            await store.enqueue(tx, [Job("t", 4)])
        taken = (await store.exchange("w", [], ["t"], 5, timedelta(seconds=-1))).taken
        one, two, three, *_ = taken
        await store.exchange("w", [Outcome(one.id, one.token, State.DONE)], [], 0, LEASE)
        async with await store.begin() as tx:
            assert await store.settle(tx, "w", Outcome(two.id, two.token, State.DEAD, "e"))
        await store.cancel(three.id)
        found = set(witness.run("select verb, durable from witness"))
        assert found == {(state, "on") for state in ("pending", "processing", "done", "dead", "canceled")}
        witness.run("delete from witness")
        assert len(await store.reap(10)) == 2
        assert witness.run("select distinct durable from witness") == [("off",)], "the trigger would have seen it"
        async with store.pool.connection() as connection:
            row = await (await connection.execute("show synchronous_commit")).fetchone()
            assert row == ("off",), "nothing of it stays in the session"


async def test_a_stricter_setting_is_never_lowered(dsn: str, witness: Observer) -> None:
    witness.set("synchronous_commit", "remote_apply")
    async with Opened(dsn) as store:
        await store.enqueue(None, [Job("t")])
        await store.exchange("w", [], ["t"], 5, LEASE)
    assert witness.run("select distinct durable from witness") == [("remote_apply",)]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_what_takes_two_statements_is_one_transaction_whatever_the_default(
    driver: str, dsn: str, witness: Observer
) -> None:
    """A claim within limits, a retry and the groups of the dead begin once, at READ COMMITTED, and end once."""
    witness.set("default_transaction_isolation", "serializable")
    async with Opened(dsn, driver=driver) as store:
        await store.limit("t", Limits(max_running=1), "ann")
        (job, _) = await store.enqueue(None, [Job("t"), Job("t")])
        (taken,) = (await store.claim_limited("w", "t", 5, LEASE)).taken
        assert (await store.claim_limited("w", "t", 5, LEASE)).taken == []
        await store.exchange("w", [Outcome(job.id, taken.token, State.DEAD, "lost")], [], 0, LEASE)
        operator, reader = Operator(store, "ann"), Reader(store)
        assert (await operator.retry(job.id)).id is not None
        assert [(group.kind, group.jobs) for group in await reader.dead()] == [("lost", 1)]
        await operator.close()
        await reader.close()
    assert witness.run("select distinct isolation from witness") == [("read committed",)]


async def test_a_database_that_is_serializable_by_default_does_not_disturb_the_queue(
    dsn: str, witness: Observer
) -> None:
    """Every statement says READ COMMITTED; rivals on the same rows never meet 40001."""
    witness.set("default_transaction_isolation", "serializable")

    over = timedelta(seconds=-1)

    async def work(worker: str, store: PostgresStore) -> None:
        renewer = await store.renewer()
        for number in range(12):
            answers = await store.enqueue(None, [Job("t", number, f"k{number}"), Job("t", number)])
            taken = (await store.exchange(worker, [], ["t"], 4, over)).taken
            await renewer.renew(worker, [each.hold for each in taken], over)
            await store.exchange(
                worker, [Outcome(each.id, each.token, State.FAILED, "e", 0.0) for each in taken[:2]], ["t"], 0, LEASE
            )
            await store.reap(5)
            await store.cancel(answers[0].id)
            await store.find(answers[1].id)
            await store.prune(timedelta(0), 3)
            await store.census(["t"])
        await renewer.close()

    async with Opened(dsn) as one, Opened(dsn) as two, Opened(dsn) as three:
        await asyncio.gather(work("one", one), work("two", two), work("three", three))
    witness.run("insert into job (topic) values ('by-hand')")
    rows = witness.run("select isolation, count(*) from witness where verb <> 'deleted' group by isolation")
    assert dict(rows).keys() == {"read committed"}
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into job (topic) values ('by-hand')")
        connection.commit()
    assert witness.value("select count(*) from witness where isolation = 'serializable'") == 1, "the trigger sees it"


async def test_data_that_the_database_refuses_is_told_apart_from_an_outage(dsn: str, witness: Observer) -> None:
    witness.run("alter table job add constraint short check (length(last_error) < 5)")
    async with Opened(dsn) as store:
        await store.enqueue(None, [Job("t")])
        (taken,) = (await store.exchange("w", [], ["t"], 1, LEASE)).taken
        with pytest.raises(StoreRefused) as caught:
            await store.exchange("w", [Outcome(taken.id, taken.token, State.FAILED, "secret", 0.0)], [], 0, LEASE)
        assert "secret" not in str(caught.value), "the DETAIL of the driver quotes the row"
        assert (
            await store.exchange("w", [Outcome(taken.id, taken.token, State.FAILED, "safe", 0.0)], [], 0, LEASE)
        ).settled


# --- connections ---


@pytest.mark.fault(29)
async def test_connections_that_died_in_the_pool_are_not_lent(dsn: str, observer: Observer) -> None:
    """Fault 29: every session is cut, and the next enqueue works, however many the pool had."""
    async with Opened(dsn, min_size=8, max_size=8, timeout=10) as store:
        await store.enqueue(None, [Job("t", 0)])
        for number in (1, 2, 3):
            await observer.until(lambda: observer.sessions() >= 8)
            assert observer.cut() >= 8
            assert (await store.enqueue(None, [Job("t", number, f"k{number}")]))[0].created
            assert not (await store.cancel(UUID(int=number))).canceled
    assert observer.value("select count(*) from job") == 4


@pytest.mark.fault(25)
async def test_a_connection_to_a_server_that_only_reads_is_not_kept(dsn: str, observer: Observer) -> None:
    """Fault 25: after a failover only a new connection finds the server that writes, whoever asks and by which way."""
    observer.set("default_transaction_read_only", "on")
    async with Opened(dsn, min_size=1, max_size=1) as store:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.exchange("w", [], ["t"], 1, LEASE)
        renewer = await store.renewer()
        with pytest.raises(StoreUnavailable, match="read-only"):
            await renewer.renew("w", [Hold(Job("t").id, 1)], LEASE)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.reap(1)
        # From here on new sessions write. Those that are there do not, and are what the store meets first.
        observer.run(sql.SQL("alter database {} reset all").format(database(observer)))
        (first,) = await store.enqueue(None, [Job("t")])
        assert [each.id for each in (await store.exchange("w", [], ["t"], 1, LEASE)).taken] == [first.id]
        assert await store.reap(1) == []
        assert (await renewer.renew("w", [Hold(first.id, 1)], LEASE)).renewed
        await renewer.close()


@pytest.mark.fault(25)
async def test_a_transaction_on_a_server_that_only_reads_costs_its_connection(dsn: str, observer: Observer) -> None:
    """Fault 25: the pool gets a closed connection back, and makes a new one."""
    observer.set("default_transaction_read_only", "on")
    async with Opened(dsn, min_size=1, max_size=1) as store:
        tx = await store.begin()
        observer.run(sql.SQL("alter database {} reset all").format(database(observer)))
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.enqueue(tx, [Job("t")])
        await tx.rollback()
        async with await store.begin() as again:
            assert (await store.enqueue(again, [Job("t")]))[0].created
    assert observer.value("select count(*) from job") == 1


def database(observer: Observer) -> sql.Identifier:
    return sql.Identifier(str(observer.value("select current_database()")))


@pytest.mark.fault(29)
async def test_the_engines_own_connections_are_replaced_when_they_died(dsn: str, observer: Observer) -> None:
    """Fault 29: one call tells of the loss, in the engine's words; the next one works."""
    async with Opened(dsn) as store:
        renewer = await store.renewer()
        verbs: list[Callable[[], Awaitable[object]]] = [
            partial(store.exchange, "w", [], ["t"], 1, LEASE),
            partial(store.reap, 1),
            partial(renewer.renew, "w", [], LEASE),
        ]
        for verb in verbs:
            await verb()
        observer.cut()
        for verb in verbs:
            with pytest.raises(StoreError):
                await verb()
            await verb()
        await renewer.close()


@pytest.mark.fault(28)
async def test_no_transaction_is_open_while_a_handler_runs(dsn: str, observer: Observer) -> None:
    """Fault 28: neither of the engine nor of what asks about it; looked at until the lease was renewed three times."""
    started, end = asyncio.Event(), asyncio.Event()

    async def handler(claim: Claim) -> None:
        started.set()
        await end.wait()

    async with Opened(dsn) as store:
        queue = Queue(store, Config(lease=0.6, poll_interval=0.05, reaper_period=0.1, census_period=0.1))
        queue.register_kind("t", handler, KindOptions(attempt_timeout=60))
        async with queue:
            job_id, _ = await queue.enqueue(Job("t"))
            await started.wait()
            ends: set[datetime] = set()

            def renewed_three_times() -> bool:
                idle = observer.run(
                    "select pid, query from pg_stat_activity where datname = current_database()"
                    " and state like 'idle in transaction%%' and state_change < clock_timestamp() - interval '200 ms'"
                )
                assert not idle
                ends.add(observer.value("select locked_until from job where id = %s", job_id))
                return len(ends) > 3

            await observer.until(renewed_three_times)
            await queue.find(job_id)
            end.set()
            await observer.until(lambda: observer.value("select state from job") == "done")


# --- the table ---


async def test_renewals_are_heap_only_updates(dsn: str, observer: Observer) -> None:
    """Requirement L1: a renewal writes no index entry, so leases bloat nothing."""
    rounds, jobs = 20, 10

    def updates() -> tuple[int, int]:
        found = observer.run("select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'job'")
        return int(found[0][0]), int(found[0][1])

    async with Opened(dsn) as store:
        await store.enqueue(None, [Job("t", n) for n in range(jobs)])
        taken = (await store.exchange("w", [], ["t"], jobs, LEASE)).taken
    await observer.until(lambda: updates()[0] >= jobs)  # a session tells its counts when it ends
    before = updates()
    async with Opened(dsn) as store:
        renewer = await store.renewer()
        for _ in range(rounds):
            assert len((await renewer.renew("w", [each.hold for each in taken], LEASE)).renewed) == jobs
        await renewer.close()
    await observer.until(lambda: updates()[0] - before[0] >= rounds * jobs)
    after = updates()
    assert after[0] - before[0] == rounds * jobs
    # All but those that had to go to a new page, since the old versions on theirs were still in somebody's sight.
    assert after[1] - before[1] >= 0.9 * rounds * jobs


async def test_a_priority_that_is_no_small_number_is_refused_before_sql() -> None:
    for priority in (-1, 10, 2**40):
        with pytest.raises(JobError):
            Job("t", priority=priority)
