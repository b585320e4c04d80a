"""A queue that is not started, on a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.postgres.observer import Observer

from brooq import Claim, Config, MustGiveUp, Queue
from brooq.postgres import PostgresStore
from brooq.postgres.pool import make_pool

FAST = Config(poll_interval=0.05, lease=3, reaper_period=0.5, census_period=0.2, shutdown_grace=1)


@pytest.fixture
def observer(dsn: str) -> Iterator[Observer]:
    """A connection beside the dashboard, to the same database."""
    found = Observer(dsn)
    yield found
    found.close()


@pytest.fixture
async def queue(dsn: str) -> AsyncIterator[Queue]:
    """Its kind `mail` gives up whenever the payload is `fail`."""
    pool = make_pool(dsn, min_size=0)
    made = Queue(PostgresStore(pool), FAST)

    async def mail(claim: Claim) -> None:
        if claim.payload == "fail":
            raise MustGiveUp(f"550 no mailbox of job {claim.id}")

    made.register_kind("mail", mail)
    await pool.open(wait=False)
    yield made
    await made.close()
    await pool.close()
