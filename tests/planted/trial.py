"""One bug on trial: its schedule with the bug, which must be seen, and without it, where nothing may be."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.database import Server
from tests.planted import engine, limits, statements
from tests.planted.stage import Bug, staged

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres
from brooq.service.verify.ledger import Violation

BUGS: tuple[Bug, ...] = (*statements.BUGS, *engine.BUGS, *limits.BUGS)

FORGETFUL: dict[str, str | int | bool] = {
    "fsync": False,
    "synchronous_commit": False,
    "full_page_writes": False,
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "autovacuum": False,
    "restart_after_crash": True,
    "shared_buffers": "32MB",
}
"""What is not asked to be durable is lost with the memory of the server."""


async def play(bug: Bug, dsn: str, folder: Path, *, planted: bool) -> list[Violation]:
    """What the checker finds after the schedule."""
    async with staged(dsn, folder) as stage:
        plant = bug.plant(stage) if planted else nullcontext()
        if inspect.isawaitable(plant):
            plant = await plant
        with plant or nullcontext():
            await bug.schedule(stage)
        return stage.verdict().ledger.violations


@contextmanager
def place(bug: Bug, server: Server) -> Iterator[str]:
    """A migrated database: on the server of the tests, or on one that may be crashed."""
    if not bug.crashes:
        with server.database(migrated=True) as dsn:
            yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="brooq-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with LocalPostgres(Path(folder) / "pg", settings=FORGETFUL) as local:
            migrate.up(local.dsn)
            yield local.dsn


async def trial(bug: Bug, server: Server) -> tuple[list[Violation], list[Violation]]:
    """What is found without the bug, and with it."""
    with place(bug, server) as dsn, tempfile.TemporaryDirectory(prefix="brooq-") as folder:
        without, with_it = Path(folder) / "without", Path(folder) / "with"
        without.mkdir()
        with_it.mkdir()
        return await play(bug, dsn, without, planted=False), await play(bug, dsn, with_it, planted=True)
