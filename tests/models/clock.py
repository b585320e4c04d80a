"""A database whose time stands still until a test moves it.

The statements ask `now()` without a schema, so a function of that name in a schema that comes before pg_catalog answers
them; it reads a table, which every connection sees. Defaults of columns are set to it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
CLOCK = """
create schema clock;
create table clock.moment (at timestamptz not null);
insert into clock.moment values ('2030-01-01 00:00:00+00');
create function clock.now() returns timestamptz language sql stable as 'select at from clock.moment';
create function clock.transaction_timestamp() returns timestamptz language sql stable as 'select at from clock.moment';
create function clock.statement_timestamp() returns timestamptz language sql stable as 'select at from clock.moment';
create function clock.clock_timestamp() returns timestamptz language sql stable as 'select at from clock.moment';
alter table job alter available_at set default clock.now(), alter created_at set default clock.now(),
    alter updated_at set default clock.now();
"""
PATH = "clock, pg_catalog, public"


class Clock:
    """The time of one database, in whole seconds since the epoch of the tests. Sessions that begin later obey it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Stops the time, over a connection in autocommit."""
        connection.execute(CLOCK)
        ((name,),) = connection.execute("select current_database()")
        connection.execute(
            sql.SQL("alter database {} set search_path = {}").format(sql.Identifier(name), sql.SQL(PATH))
        )
        self._connection = connection

    def set(self, seconds: int) -> None:
        """The time from now on."""
        self._connection.execute("update clock.moment set at = %s", [moment(seconds)])


def moment(seconds: int) -> datetime:
    """The moment that many seconds after the epoch."""
    return EPOCH + timedelta(seconds=seconds)


def seconds(at: datetime) -> int:
    """The seconds of a moment; it must be a whole number."""
    whole, rest = divmod(at - EPOCH, timedelta(seconds=1))
    assert not rest, at
    return whole
