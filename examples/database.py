"""A database to try things in: the one that DATABASE_URL names, else a PostgreSQL of one's own in ./.brooq/examples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from brooq.postgres import migrate
from brooq.postgres.local import LocalPostgres


@contextmanager
def database() -> Iterator[str]:
    """The DSN of a database with brooq's schema."""
    if given := os.environ.get("DATABASE_URL"):
        migrate.up(given)
        yield given
        return
    with LocalPostgres(".brooq/examples") as postgres:
        migrate.up(postgres.dsn)
        yield postgres.dsn


def given() -> str:
    """The DSN that DATABASE_URL names, for programs of several processes, which cannot each start a PostgreSQL."""
    dsn = os.environ.get("DATABASE_URL")
    if not dsn:
        raise SystemExit(
            "DATABASE_URL is not set; for a PostgreSQL of your own: export DATABASE_URL=$(brooq local start)"
        )
    return dsn
