"""No connection to be had: others hold all of them. The worker waits for its turn, quietly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.recovery.workload import ask, at_work, calm, enqueue, settled, until

from brooq.postgres import grants, migrate
from brooq.postgres.local import LocalPostgres

LIMIT = 20
OUTAGE = 6.0


@pytest.fixture
def crowded(folder: Path) -> Iterator[tuple[LocalPostgres, str]]:
    """A server with few connections, and a plain login: the last ones are kept for the superuser."""
    with LocalPostgres(folder / "pg", settings={"max_connections": LIMIT, "shared_buffers": "16MB"}) as local:
        migrate.up(local.dsn)
        grants.apply(local.dsn)
        ask(local.dsn, "create role plain login password 'plain' in role brooq_worker, brooq_producer, brooq_janitor")
        ask(local.dsn, "create table effect (job uuid not null)")
        ask(local.dsn, "alter table effect owner to plain")
        yield local, make_conninfo(local.dsn, user="plain", password="plain")


@pytest.mark.fault(20)
def test_a_worker_waits_for_a_free_connection(
    crowded: tuple[LocalPostgres, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Its sessions are cut, and somebody else takes their places at once."""
    local, plain = crowded
    with ExitStack() as others, at_work(plain, tmp_path) as patient:
        enqueue(local.dsn, 20)
        until(lambda: ask(local.dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")

        def full() -> bool:
            ask(local.dsn, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brooq'")
            try:
                while True:
                    others.enter_context(psycopg.connect(plain, connect_timeout=5, application_name="crowd"))
            except psycopg.OperationalError:
                pass  # that was the last one
            return ask(local.dsn, "select 1 from pg_stat_activity where application_name = 'brooq'") == []

        until(full, "the worker kept a connection")
        with patient.outage(OUTAGE) as outage:
            pass
        calm(outage[0], request)
        patient.process.wait_for("the store does not answer")
        others.close()
        enqueue(local.dsn, 5)
        settled(local.dsn, 25)
