"""What can be known of a database that brooq lives in, read at a bounded cost. What of it is wrong is for others to say.

Every part can fail by itself, for want of a right for example: then it is missing, with the reason, and the rest is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from brooq.postgres.dsn import mask
from brooq.postgres.facts import Seen, to_workers
from brooq.postgres.grants import Right, rights
from brooq.postgres.migrate import Connection, connect
from brooq.postgres.pooler import Pooling, pooling
from brooq.postgres.statement import statements
from brooq.vocabulary.error import StoreUnavailable

T = TypeVar("T")

MOST = 20
"""How many of a kind are named."""
LOOKED_AT = 10_000
"""How many waiting jobs are looked at."""
TOPICS = 200
_TIMEOUTS = 12
"""The column of `examine_server.sql` that is JSON."""
PILL = 3
"""From how many leases that ran out without a word on a job is suspicious."""


@dataclass(frozen=True, slots=True)
class Host:
    """The server, and its settings as they are for this role. Timeouts are in seconds; those that are off are left out."""

    version: str
    number: int
    role: str
    database: str
    standby: bool
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    isolation: str
    read_only: str
    autovacuum: str
    track_counts: str
    timeouts: dict[str, float]
    sees_all: bool
    oldest_transaction: int
    freeze_at: int


@dataclass(frozen=True, slots=True)
class Clock:
    """How far the server's clock is ahead of this machine's, in seconds, give or take `doubt`."""

    ahead: float
    doubt: float


@dataclass(frozen=True, slots=True)
class Place:
    """Whether the schema is there, whether the role may use it, and whether it has the table of jobs."""

    there: bool
    open: bool
    complete: bool
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Something that holds the horizon back. `kind`: session, prepared, slot or standby."""

    kind: str
    name: str
    pid: int | None
    owner: str | None
    age: int | None
    """In transactions."""
    seconds: float | None
    """For how long; None: PostgreSQL does not say."""
    state: str | None
    """Of a session what it does, of a slot its type."""
    statement: str | None
    address: str
    active: bool
    retained: int | None
    """Bytes of WAL that a slot keeps."""


@dataclass(frozen=True, slots=True)
class Table:
    """The table of jobs as the counters have it."""

    rows: float
    bytes: int
    live: int
    dead: int
    cleaned_at: datetime | None
    enabled: bool
    cleaned_from: float
    """From how many dead rows on autovacuum comes."""
    age: int
    freeze_at: int
    being_cleaned: bool


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the table of jobs."""

    name: str
    valid: bool
    bytes: int
    rows: float
    """By the statistics; -1: there are none yet."""
    width: float
    """Of an entry, in bytes."""


@dataclass(frozen=True, slots=True)
class Connections:
    """How many there are, and how many there may be; None: no limit."""

    server: int
    server_limit: int
    database: int
    database_limit: int | None
    role: int
    role_limit: int | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A job that something is wrong with. `kind`: pill, or expired, which is a lease that nobody takes back."""

    kind: str
    id: UUID
    topic: str
    attempts: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Granted:
    """A right that a part needs, and whether this role has it; None: the table is not there."""

    right: Right
    granted: bool | None


@dataclass
class Examination:
    """What was found; None: it could not be looked at, `missing` says why."""

    host: Host
    clock: Clock
    place: Place
    pooling: Pooling
    at: datetime
    """By the server's clock."""
    pins: Sequence[Pin] | None = None
    connections: Connections | None = None
    table: Table | None = None
    indexes: Sequence[Index] | None = None
    granted: Sequence[Granted] | None = None
    suspects: Sequence[Suspect] | None = None
    topics: Sequence[tuple[str, float]] | None = None
    """Those in which a job could run now, and for how many seconds the first has waited."""
    workers: Sequence[Seen] | None = None
    missing: dict[str, str] = field(default_factory=dict)


def examine(dsn: str, schema: str) -> Examination:
    """Look at everything. Raises ConfigError and StoreUnavailable."""
    with connect(dsn, "brooq doctor") as connection:
        try:
            return _Examiner(connection, dsn, schema).run()
        except psycopg.Error as error:
            raise StoreUnavailable(mask(_reason(error), dsn)) from None


class _Examiner:
    def __init__(self, connection: Connection, dsn: str, schema: str) -> None:
        self._connection = connection
        self._dsn = dsn
        self._schema = schema
        self._statements = statements(schema)

    def run(self) -> Examination:
        asked = self._statements
        (row,) = self._ask(asked.examine_server)
        host = Host(*(json.loads(each or "{}") if index == _TIMEOUTS else each for index, each in enumerate(row)))
        place = Place(*self._ask(asked.examine_place, self._schema)[0])
        clock, at = self._clock()
        found = Examination(host, clock, place, pooling(self._connection, self._dsn), at)
        parts: dict[str, Callable[[], Any]] = {
            "pins": lambda: [Pin(*row) for row in self._ask(asked.examine_horizon, MOST)],
            "connections": lambda: Connections(*self._ask(asked.examine_connections)[0]),
        }
        if place.open and place.complete:
            parts |= {
                "place": self._version,
                "table": lambda: Table(*self._ask(asked.examine_table)[0]),
                "indexes": lambda: [Index(*row) for row in self._ask(asked.examine_indexes)],
                "granted": self._granted,
                "suspects": lambda: [
                    Suspect(*row) for row in self._in_order(asked.examine_jobs, LOOKED_AT, PILL, MOST)
                ],
                "topics": lambda: [(topic, seconds) for topic, seconds in self._in_order(asked.examine_topics, TOPICS)],
                "workers": lambda: to_workers(self._ask(asked.workers)),
            }
        for name, part in parts.items():
            try:
                setattr(found, name, part())
            except psycopg.Error as error:
                if self._connection.closed:
                    raise
                found.missing[name] = mask(_reason(error), self._dsn)
        return found

    def _version(self) -> Place:
        ((version, _),) = self._ask(self._statements.version)
        return Place(there=True, open=True, complete=True, version=version)

    def _granted(self) -> list[Granted]:
        needed = rights()
        columns = list(zip(*((each.part, each.table, each.privilege, each.column) for each in needed), strict=True))
        rows = self._ask(self._statements.examine_rights, *map(list, columns))
        return [Granted(right, row[-1]) for right, row in zip(needed, rows, strict=True)]

    def _clock(self) -> tuple[Clock, datetime]:
        """The best of a few looks: a quick answer leaves little doubt."""
        looks = []
        for _ in range(3):
            before = time.time()
            ((at,),) = self._ask("select clock_timestamp()")
            doubt = (time.time() - before) / 2
            looks.append((doubt, at.timestamp() - (before + doubt), at))
        doubt, ahead, at = min(looks)
        return Clock(ahead, doubt), at

    def _in_order(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._connection.transaction():
            self._ask(self._statements.in_order)
            return self._ask(statement, *parameters)

    def _ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.RawCursor(self._connection) as cursor:
            return cursor.execute(statement.encode(), parameters).fetchall()


def _reason(error: psycopg.Error) -> str:
    return error.diag.message_primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
