"""Enqueueing through whatever a consumer has in hand, on the real libraries (requirement T4)."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session
from tests.database import Server
from tests.pooler import Pooler
from tests.postgres.library import (
    LIBRARIES,
    WRAPPED,
    Asyncpg,
    AsyncPsycopg,
    AsyncSqlalchemyAsyncpg,
    Django,
    Library,
    Psycopg,
    Sqlalchemy,
    SqlalchemyConnection,
)

from brooq import Claim, Config, Enqueued, Job, JobRecord, PayloadError, Queue, State, TxError
from brooq.postgres import PostgresStore, Producer, as_psycopg, migrate, open_pool, wrap_tx
from brooq.postgres.producer import cancel, enqueue, enqueue_many, find, jobs, retry

LATER = datetime(2040, 2, 29, 12, 30, tzinfo=UTC)


def _name(kind: object) -> str | None:
    return kind.__name__ if isinstance(kind, type) else None


@pytest.fixture(scope="module")
def place(postgres: Server) -> Iterator[str]:
    """A database for the tests of this file that leave nothing behind."""
    with postgres.database(migrated=True) as found:
        yield found


@pytest.fixture
def dsn(place: str) -> Iterator[str]:
    """The database, empty: a fresh one for each of so many tests would take longer than the tests."""
    yield place
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("truncate job")
        connection.execute("drop table if exists bill")


@pytest.fixture(params=LIBRARIES, ids=_name)
def library(request: pytest.FixtureRequest, dsn: str) -> Iterator[Library]:
    opened: Library = request.param(dsn)
    yield opened
    opened.end()


def rows(dsn: str, what: str = "topic, payload") -> list[Any]:
    """Of the table, as everybody sees it."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(sql.SQL("select {} from job order by id").format(sql.SQL(what))).fetchall()


def test_a_commit_makes_rows_and_jobs_visible_together(library: Library, dsn: str) -> None:
    library.execute("create table bill (id int)")
    answer = library.call(enqueue, Job("bill.send", {"to": "ä", "n": 2**70}))
    assert answer.created
    assert rows(dsn) == []
    library.commit()
    assert rows(dsn, "id, payload") == [(answer.id, {"to": "ä", "n": 2**70})]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select count(*) from bill").fetchone() == (0,)


def test_a_rollback_leaves_neither_rows_nor_jobs(library: Library, dsn: str) -> None:
    library.execute("create table bill (id int)")
    library.call(enqueue, Job("bill.send"))
    library.rollback()
    assert rows(dsn) == []
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select to_regclass('bill')").fetchone() == (None,)


def test_a_job_that_comes_first_in_its_transaction_is_not_committed_on_its_own(library: Library, dsn: str) -> None:
    library.call(enqueue, Job("first"))
    assert rows(dsn) == []
    library.rollback()
    assert rows(dsn) == []


def test_a_savepoint_takes_back_only_its_own(library: Library, dsn: str) -> None:
    library.call(enqueue, Job("t", "before"))
    with library.taken_back():
        library.call(enqueue, Job("t", "inside"))
    library.call(enqueue, Job("t", "after"))
    library.commit()
    assert rows(dsn, "payload") == [("before",), ("after",)]


def test_a_key_that_exists_answers_its_job_and_the_transaction_goes_on(library: Library, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        first = enqueue(other, Job("t", idempotency_key="k"))
    assert library.call(enqueue, Job("t", idempotency_key="k")) == (first.id, False)
    again = Job("t", "new")
    assert library.call(enqueue, again).created
    assert library.call(enqueue, again) == (again.id, True)
    library.commit()
    assert len(rows(dsn)) == 2


@pytest.mark.parametrize("payload", [math.nan, "\0", object(), "\ud800"], ids=["nan", "nul", "object", "surrogate"])
def test_a_bad_payload_is_refused_before_sql_and_the_transaction_goes_on(
    library: Library, dsn: str, payload: object
) -> None:
    library.call(enqueue, Job("t", "before"))
    with pytest.raises(PayloadError):
        library.call(enqueue, Job("t", {"bad": payload}))
    library.call(enqueue, Job("t", "after"))
    library.commit()
    assert rows(dsn, "payload") == [("before",), ("after",)]


def test_every_field_of_a_job_arrives(library: Library, dsn: str) -> None:
    full = Job("t", [1, None, "%s $1 %(p1)s"], "k", LATER, 3, 7, ("a", "b%"), {"who": "anna"})
    plain = Job("u")
    one = Job("v", "x", available_at=LATER, priority=1)
    assert [answer.id for answer in library.call(enqueue_many, [full, plain])] == [full.id, plain.id]
    library.call(enqueue, one)
    library.commit()
    columns = "topic, payload, idempotency_key, available_at, priority, max_attempts, tags, metadata"
    found = rows(dsn, columns)
    assert found[0] == ("t", [1, None, "%s $1 %(p1)s"], "k", LATER, 3, 7, ["a", "b%"], {"who": "anna"})
    assert found[1][3] <= datetime.now(UTC) + timedelta(minutes=5)
    assert (found[2][0], found[2][3], found[2][4]) == ("v", LATER, 1)


def test_a_job_is_found_and_canceled_through_the_same_object(library: Library, dsn: str) -> None:
    job = Job("t", {"n": 1.5}, "k", LATER, tags=("a",), metadata={"b": 1})
    library.call(enqueue, job)
    record = library.call(find, job.id)
    assert (record.payload, record.available_at, record.tags, record.metadata) == ({"n": 1.5}, LATER, ("a",), {"b": 1})
    assert library.call(cancel, str(job.id)) == (True, State.PENDING, "t")
    assert library.call(cancel, job.id) == (False, State.CANCELED, "t")
    library.commit()
    assert rows(dsn, "state") == [("canceled",)]
    assert library.call(cancel, uuid4()) == (False, None, None)
    assert library.call(find, uuid4()) is None


def test_jobs_are_listed_and_retried_and_it_is_written_down_who_did_it(library: Library, dsn: str) -> None:
    first, second = Job("t", 1), Job("u", 2)
    library.call(enqueue_many, [first, second])
    assert [record.payload for record in library.call(jobs)] == [2, 1]
    assert [record.id for record in library.call(jobs, "t", "pending")] == [first.id]
    assert library.call(jobs, "t", "done") == []
    assert library.call(retry, first.id, actor="anna") == (None, State.PENDING, "t", None)
    assert library.call(cancel, first.id, actor="anna", reason="100% wrong").canceled
    made = library.call(retry, first.id, actor="boris", reason="it was right")
    assert (made.state, made.topic) == (State.CANCELED, "t")
    assert library.call(find, made.id).retry_of == first.id
    assert library.call(retry, first.id, actor="boris").standing == made.id
    library.commit()
    with psycopg.connect(dsn) as connection:
        asked = "select actor, action, done, reason from brooq_operation where job = %s order by id"
        trail = connection.execute(asked, [first.id]).fetchall()
    assert trail == [
        ("anna", "retry", False, None),
        ("anna", "cancel", True, "100% wrong"),
        ("boris", "retry", True, "it was right"),
        ("boris", "retry", False, None),
    ]
    assert library.call(retry, uuid4(), actor="anna") == (None, None, None, None)


def test_a_serialization_failure_reaches_the_caller_unchanged(dsn: str, library: Library) -> None:
    """E4: the rival's job is newer than the transaction's snapshot, and cannot be answered."""
    library.execute("set transaction isolation level serializable")
    library.execute("select 1 from job")
    with psycopg.connect(dsn) as other:
        enqueue(other, Job("t", idempotency_key="k"))
    with pytest.raises(Exception, match="could not serialize") as caught:
        library.call(enqueue, Job("t", idempotency_key="k"))
    assert not type(caught.value).__module__.startswith("brooq")
    library.rollback()
    assert library.call(enqueue, Job("t", idempotency_key="k")).created is False


def test_the_schema_is_the_one_that_was_named(dsn: str, library: Library) -> None:
    schema = 'it\'s 100% $1 "mine"'
    migrate.up(dsn, schema)
    producer = Producer(schema=schema)
    job = Job("t", idempotency_key="k")
    assert library.call(producer.enqueue, job).created
    assert library.call(producer.enqueue, Job("t", idempotency_key="k")) == (job.id, False)
    assert library.call(producer.find, job.id).idempotency_key == "k"
    assert library.call(find, job.id) is None
    library.rollback()


async def test_an_enqueue_wakes_an_idle_worker(dsn: str) -> None:
    """With a poll interval of an hour, nothing but the wake-up brings the jobs in time."""
    heard: dict[str, threading.Event] = {}
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool), Config(poll_interval=3600))

        @queue.kind("t")
        async def handle(claim: Claim) -> None:
            heard[claim.payload].set()

        async with queue:
            for kind in LIBRARIES:
                heard[kind.__name__] = threading.Event()

                def produce(kind: type[Library] = kind) -> bool:
                    library = kind(dsn)
                    library.call(enqueue, Job("t", kind.__name__))
                    library.commit()
                    library.end()
                    return heard[kind.__name__].wait(60)

                assert await asyncio.to_thread(produce), kind.__name__


@pytest.mark.parametrize(
    "kind", [Psycopg, AsyncPsycopg, Asyncpg, Sqlalchemy, AsyncSqlalchemyAsyncpg, Django], ids=_name
)
def test_it_works_behind_a_pooler_in_transaction_mode(dsn: str, tmp_path: Path, kind: type[Library]) -> None:
    with Pooler(dsn, tmp_path) as pooler:
        library = kind(pooler.dsn, pooled=True)
        try:
            library.call(enqueue, Job("t", idempotency_key="k"))
            library.rollback()
            assert library.call(enqueue, Job("t", idempotency_key="k")).created
            assert library.call(enqueue, Job("t", idempotency_key="k")).created is False
            library.commit()
            for _ in range(8):
                library.call(enqueue_many, [Job("t"), Job("u")])
                library.commit()
        finally:
            library.end()
    assert len(rows(dsn)) == 17


@pytest.mark.parametrize("kind", WRAPPED, ids=_name)
def test_what_is_awaited_can_be_wrapped_for_the_queue(dsn: str, kind: type[Library]) -> None:
    library = kind(dsn)
    try:

        async def produce() -> None:
            async with open_pool(dsn) as pool:
                queue = Queue(PostgresStore(pool))
                await queue.enqueue_tx(wrap_tx(library.handle), Job("t", "gone"))
                await library.handle.rollback() if kind is not Asyncpg else await library.transaction.rollback()  # type: ignore[attr-defined]

        library.wait(produce())
        assert rows(dsn) == []
    finally:
        library.end()


def test_a_wrapped_session_ends_as_its_transaction(dsn: str) -> None:
    library = AsyncSqlalchemyAsyncpg(dsn)
    try:

        async def produce(*, commit: bool) -> None:
            async with open_pool(dsn) as pool, wrap_tx(library.handle) as tx:
                assert as_psycopg(tx) is None
                await Queue(PostgresStore(pool)).enqueue_tx(tx, Job("t", commit))
                if not commit:
                    await tx.rollback()

        library.wait(produce(commit=False))
        assert rows(dsn) == []
        library.wait(produce(commit=True))
        assert rows(dsn, "payload") == [(True,)]
    finally:
        library.end()


# --- what is refused ---


def test_a_connection_that_would_commit_the_job_on_its_own_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(TxError, match="autocommit"):
            enqueue(connection, Job("t"))
        with connection.transaction() as transaction:
            assert enqueue(transaction, Job("t")).created
    library = Sqlalchemy(dsn)
    autocommit = library.engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(autocommit) as session, pytest.raises(TxError, match="autocommit"):
        enqueue(session, Job("t"))
    library.end()
    assert len(rows(dsn)) == 1


async def test_so_is_one_of_asyncpg_and_an_asynchronous_session(dsn: str) -> None:
    def refused() -> None:
        library = AsyncSqlalchemyAsyncpg(dsn)
        library.wait(library.handle.close())
        autocommit = library.engines.execution_options(isolation_level="AUTOCOMMIT")
        library.handle = type(library.handle)(autocommit)
        with pytest.raises(TxError, match="autocommit"):
            library.call(enqueue, Job("t"))
        library.end()
        plain = Asyncpg(dsn)
        plain.wait(plain.transaction.rollback())
        with pytest.raises(TxError, match="autocommit"):
            plain.call(enqueue, Job("t"))
        plain.end()

    await asyncio.to_thread(refused)
    assert rows(dsn) == []


def test_django_outside_of_atomic_is_refused(dsn: str) -> None:
    library = Django(dsn)
    library.block.__exit__(None, None, None)
    try:
        with pytest.raises(TxError, match="atomic"):
            enqueue(library.handle, Job("t"))
    finally:
        library._begin()
        library.end()
    assert rows(dsn) == []


@pytest.mark.parametrize("other", [None, 7, "postgresql://", object()], ids=["None", "int", "str", "object"])
def test_what_carries_no_transaction_is_refused_in_words(other: Any) -> None:
    with pytest.raises(TypeError, match=r"psycopg, asyncpg, SQLAlchemy, SQLModel or Django is needed, not"):
        enqueue(other, Job("t"))


def test_an_engine_is_no_transaction_and_sqlite_no_postgresql(dsn: str) -> None:
    library = SqlalchemyConnection(dsn)
    with pytest.raises(TypeError, match="Engine"):
        enqueue(library.engine, Job("t"))  # type: ignore[call-overload]
    library.end()
    lite = create_engine("sqlite://")
    with lite.connect() as connection, pytest.raises(TypeError, match=r"PostgreSQL.*sqlite\+pysqlite"):
        enqueue(connection, Job("t"))
    lite.dispose()


def test_what_blocks_is_not_wrapped_but_told_where_it_belongs(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(TypeError, match=r"psycopg\.Connection .*producer\.enqueue"):
        wrap_tx(connection)


def test_no_jobs_are_no_statement(library: Library) -> None:
    assert library.call(enqueue_many, []) == []


if TYPE_CHECKING:

    async def what_blocks_and_what_is_awaited_is_told_by_types(
        connection: psycopg.Connection[Any],
        later: psycopg.AsyncConnection[Any],
        session: Session,
        scope: scoped_session[Session],
        awaited: AsyncSession,
    ) -> None:
        job = Job("t")
        assert_type(enqueue(connection, job), Enqueued)
        assert_type(enqueue(session, job), Enqueued)
        assert_type(enqueue(scope, job), Enqueued)
        assert_type(await enqueue(later, job), Enqueued)
        assert_type(await enqueue_many(awaited, [job]), list[Enqueued])
        assert_type(find(connection, job.id), JobRecord | None)
        enqueue(dsn, job)  # type: ignore[call-overload]
