"""The server dies and its standby takes over: by a DSN that names both, and by an address that moves."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.proxy import Proxy
from tests.recovery.conftest import SETTINGS
from tests.recovery.standby import follows, make_standby, promote
from tests.recovery.workload import ask, at_work, calm, enqueue, settled, until

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres

OUTAGE = 6.0


@pytest.fixture
def pair(folder: Path) -> Iterator[tuple[LocalPostgres, LocalPostgres]]:
    """A server and the synchronous standby that follows it."""
    settings = SETTINGS | {"synchronous_standby_names": "*", "wal_keep_size": "64MB"}
    with LocalPostgres(folder / "a", settings=SETTINGS) as first:
        migrate.up(first.dsn)
        ask(first.dsn, "create table effect (job uuid not null)")
        with make_standby(first, folder / "b", SETTINGS) as standby:
            first.stop()
            with LocalPostgres(folder / "a", port=_port(standby), settings=settings) as primary:
                until(lambda: follows(primary.dsn), "the standby does not follow")
                yield primary, standby


def _port(standby: LocalPostgres) -> int:
    """Where the standby looks for its primary."""
    line = (standby.path / "data" / "postgresql.auto.conf").read_text()
    return int(line.rpartition("port=")[2].partition(" ")[0].strip("'"))


@pytest.mark.fault(25)
def test_a_dsn_of_both_servers_finds_the_one_that_writes(
    pair: tuple[LocalPostgres, LocalPostgres], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The primary dies without a word. With a synchronous standby nothing acknowledged is lost."""
    primary, standby = pair
    place = conninfo_to_dict(primary.dsn)
    both = make_conninfo(
        host="127.0.0.1,127.0.0.1", port=f"{primary.port},{standby.port}", user=place["user"], dbname=place["dbname"],
        password=place["password"], target_session_attrs="read-write",
    )  # fmt: skip
    with at_work(both, tmp_path) as patient:
        enqueue(primary.dsn, 20)
        until(lambda: ask(primary.dsn, "select count(*) from job where state = 'done'")[0][0] > 10, "nothing was done")
        with patient.outage(OUTAGE) as outage:
            os.kill(primary.pid, signal.SIGQUIT)
            primary.stop()
        calm(outage[0], request)
        promote(standby.dsn)
        enqueue(standby.dsn, 5)
        settled(standby.dsn, 25)


@pytest.mark.fault(25)
@pytest.mark.parametrize("stays", [False, True], ids=["the old one dies", "the old one stays up, read-only"])
async def test_an_address_that_moves_is_followed(
    pair: tuple[LocalPostgres, LocalPostgres], tmp_path: Path, stays: bool
) -> None:
    """Connections to a server that only reads from now on must not be kept: the address leads elsewhere by now."""
    primary, standby = pair
    async with Proxy(primary.dsn) as proxy:

        def work() -> None:
            with at_work(proxy.dsn, tmp_path) as patient:
                enqueue(primary.dsn, 20)
                until(lambda: ask(primary.dsn, "select 1 from job where state = 'done'"), "nothing was done")
                if stays:
                    ask(primary.dsn, "alter system set default_transaction_read_only = on")
                    ask(primary.dsn, "select pg_reload_conf()")
                    patient.process.wait_for("read-only transaction")
                else:
                    os.kill(primary.pid, signal.SIGQUIT)
                    primary.stop()
                promote(standby.dsn)
                proxy.target = standby.dsn
                enqueue(standby.dsn, 5)
                settled(standby.dsn, 25)

        await asyncio.to_thread(work)


def test_the_pair_is_what_it_seems(pair: tuple[LocalPostgres, LocalPostgres]) -> None:
    primary, standby = pair
    assert ask(primary.dsn, "select pg_is_in_recovery()") == [(False,)]
    assert ask(standby.dsn, "select pg_is_in_recovery()") == [(True,)]
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        enqueue(standby.dsn, 1)
