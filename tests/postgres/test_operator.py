"""The trail of what people do by hand: who, when, what, why; added to and never changed (S23)."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from tests.postgres.observer import Observer, Opened
from tests.postgres.roles import place
from tests.service.brooq_process import inside

from brooq import Job, State
from brooq.postgres.operator import Operator
from brooq.vocabulary.error import StoreUnavailable

pytestmark = pytest.mark.security("S23")
TRAIL = "select actor, login = session_user, action, job, topic, found, done, reason from brooq_operation order by id"
FORGED_LOGIN = (
    "insert into brooq_operation (login, actor, action, job, topic, found, done)"
    " select 'ann', 'eve', 'cancel', id, topic, state, true from job"
)
FORGED = (FORGED_LOGIN, "select * from brooq_operation", "delete from brooq_operation")


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_cancel_and_its_trail_are_one_commit(driver: str, dsn: str, observer: Observer) -> None:
    async with Opened(dsn, driver=driver) as store:
        (job,) = await store.enqueue(None, [Job("t")])
        operator = Operator(store, "ann@host")
        assert await operator.cancel(job.id, "customer asked") == (True, State.PENDING, "t")
        assert await operator.cancel(job.id) == (False, State.CANCELED, "t")
        assert await operator.cancel(UUID(int=1)) == (False, None, None)
        assert observer.run(TRAIL) == [
            ("ann@host", True, "cancel", job.id, "t", "pending", True, "customer asked"),
            ("ann@host", True, "cancel", job.id, "t", "canceled", False, None),
        ]
        # No trail, no action: with the table in the way of its own row the job stays as it was.
        (other,) = await store.enqueue(None, [Job("t")])
        observer.run("alter table brooq_operation add constraint no check (reason <> 'no')")
        with pytest.raises(Exception, match="violates check constraint"):
            await operator.cancel(other.id, "no")
        assert observer.value("select state from job where id = %s", other.id) == "pending"
        await operator.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update brooq_operation set reason = 'another'", "delete from brooq_operation", "truncate brooq_operation",
        "update brooq_operation set at = now() where false",
    ],
)  # fmt: skip
def test_nobody_changes_the_trail_not_even_a_superuser(statement: str, dsn: str) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="only added to"),
    ):
        connection.execute(statement.encode())


def test_the_command_notes_the_person_and_the_reason(dsn: str, observer: Observer, tmp_path: Path) -> None:
    id = str(observer.value("insert into job (topic) values ('t') returning id"))
    done = inside("cancel", id, "--reason", "no\nlonger\x1b[31m", dsn=dsn, cwd=tmp_path, SUDO_USER="ann")
    assert (done.returncode, done.stderr) == (0, "")
    ((actor, reason, at),) = observer.run("select actor, reason, at > now() - interval '1 min' from brooq_operation")
    assert actor.startswith("ann as ")
    assert "@" in actor
    assert reason == "no\nlonger\\x1b[31m"
    assert at is True


async def test_a_worker_may_add_to_it_and_a_viewer_read_it(empty_dsn: str) -> None:
    with place(empty_dsn) as found:
        async with (
            Opened(found.login("app", "producer"), found.schema) as producer,
            Opened(found.login("work", "worker"), found.schema) as work,
        ):
            (job,) = await producer.enqueue(None, [Job("t")])
            operator, stranger = Operator(work, "ann"), Operator(producer, "eve")
            assert (await operator.cancel(job.id)).canceled
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await stranger.cancel(job.id)
            await operator.close()
            await stranger.close()
        options = f"-c search_path={found.schema}"
        with psycopg.connect(found.login("look", "viewer"), options=options) as viewer:
            rows = viewer.execute("select actor, login from brooq_operation").fetchall()
            assert rows == [("ann", f"work_{found.mark}")]
        with psycopg.connect(found.login("other", "worker"), options=options, autocommit=True) as connection:
            for forged in FORGED:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(forged.encode())
