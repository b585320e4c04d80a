"""Migrations: a deploy step, synchronous, safe when several run at once; never called by a worker.

Every step takes a lock, looks again at what is applied, and does one migration; so two migrators share the work, and
one that dies leaves nothing behind: its session, and the lock with it, ends. The lock is tried, never waited for:
a statement that waits holds a snapshot, and CREATE INDEX CONCURRENTLY would wait for that snapshot (a deadlock).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

import psycopg
from psycopg import errors, sql

from brooq.postgres import migration
from brooq.postgres.dsn import describe, mask
from brooq.postgres.migration import Migration, Statement
from brooq.vocabulary.error import ConfigError, SchemaError, StoreUnavailable
from brooq.vocabulary.message import text

LATEST = migration.latest(migration.folder())
"""The migration that this version of brooq needs: no less, no more."""

TABLE = "brooq_migration"
PATIENCE = 600.0
"""For how many seconds a migration waits for another migrator, or for a lock on a table, before it gives up."""

# How long a migration may queue for a lock on a table, and so hold up everybody who queues behind it (fault 29).
_LOCK_TIMEOUT = "200ms"
_MAX_IDENTIFIER_BYTES = 63

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """How one migration stands in one schema."""

    version: int
    name: str
    applied_at: datetime | None
    """When it was applied, by the database's clock; None: it is not."""
    changed: bool
    """The file is not the one that was applied."""
    known: bool = True
    """False: it was applied by a newer brooq, and this one has no file for it."""


def up(dsn: str, schema: str = "public", *, to: int | None = None, patience: float = PATIENCE) -> list[MigrationStatus]:
    """Apply what is not applied yet, up to and including version `to`; answers what this call applied.

    An empty list: there was nothing to do. The schema is created when missing. Each migration is one transaction, so a
    failure leaves the earlier ones applied. Raises SchemaError (a changed or unknown migration, a failing statement),
    StoreUnavailable (no connection, or `patience` seconds without the lock), ConfigError (DSN or schema name).
    """
    with Migrator.open(dsn, schema, patience, migration.folder()) as migrator:
        return migrator.up(to)


def down(dsn: str, schema: str = "public", *, steps: int = 1, patience: float = PATIENCE) -> list[MigrationStatus]:
    """Take back the last `steps` migrations, newest first, with all data they hold; answers what was taken back.

    Taking back the first one leaves the schema without any trace of brooq. Errors as those of `up`.
    """
    with Migrator.open(dsn, schema, patience, migration.folder()) as migrator:
        return migrator.down(steps)


def status(dsn: str, schema: str = "public") -> list[MigrationStatus]:
    """How every migration stands, in order of version; changes nothing, and an absent schema is no error."""
    with Migrator.open(dsn, schema, PATIENCE, migration.folder()) as migrator:
        return migrator.status()


def script(schema: str = "public") -> str:
    """All migrations as one SQL text for psql and for other tools, with the records that `status` and a worker read."""
    check_name(schema)
    search_path = sql.SQL("set local search_path to {}, pg_temp;").format(sql.Identifier(schema)).as_string()
    parts = [sql.SQL("create schema if not exists {};").format(sql.Identifier(schema)).as_string()]
    for each in migration.load(migration.folder()):
        record = _insert(sql.Identifier(TABLE), each).as_string() + ";"
        body = [f"-- {each.file}", _create_table().as_string() + ";", *(statement.sql for statement in each.up)]
        if each.transactional:
            parts += ["begin isolation level read committed;", search_path, *body, record, "commit;"]
        else:
            session = search_path.replace("set local", "set", 1)
            parts += [session, *body, record, "reset search_path;"]
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Step:
    """One migration as statements for another tool's runner, with the record that `status` and a worker read."""

    version: int
    name: str
    up: tuple[str, ...]
    down: tuple[str, ...]
    transactional: bool
    """Whether all of it belongs into one transaction; else none of it may be in one."""


def steps(schema: str = "public") -> list[Step]:
    """Every migration, in order, for tools that run migrations themselves (Django's, Alembic). The session's search_path is
    what it was before, behind each. Raises ConfigError."""
    check_name(schema)
    found = migration.load(migration.folder())
    return [_step(each, schema, first=each is found[0]) for each in found]


def _step(each: Migration, schema: str, *, first: bool) -> Step:
    table = sql.Identifier(schema, TABLE)
    scope = sql.SQL("local" if each.transactional else "session")
    path = sql.SQL("set {} search_path to {}, pg_temp").format(scope, sql.Identifier(schema)).as_string()
    back = sql.SQL("set {} search_path to default").format(scope).as_string()
    forget = sql.SQL("delete from {} where version = {}").format(table, sql.Literal(each.version)).as_string()
    make = []
    if first:
        make = [sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)).as_string()]
        make.append(_create_table(schema).as_string())
    drop = [sql.SQL("drop table {}").format(table).as_string()] if first else []
    up, down = ([statement.sql for statement in statements] for statements in (each.up, each.down))
    return Step(
        each.version,
        each.name,
        (*make, path, *up, _insert(table, each).as_string(), back),
        (path, *down, forget, *drop, back),
        each.transactional,
    )


class Migrator:
    """One connection, one schema, one folder of files."""

    def __init__(
        self, connection: Connection, schema: str, patience: float, source: Traversable, beside: str | None = None
    ) -> None:
        """`beside` is another schema whose names the files may use too."""
        self._connection = connection
        self._schema = schema
        self._beside = beside
        self._patience = patience
        self._files = {each.version: each for each in migration.load(source)}
        digest = hashlib.sha256(f"{TABLE}:{schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)

    @classmethod
    @contextmanager
    def open(
        cls, dsn: str, schema: str, patience: float, source: Traversable, beside: str | None = None
    ) -> Iterator[Migrator]:
        """Connect for the length of a block; the driver's errors become ours."""
        for name in (schema, *([] if beside is None else [beside])):
            check_name(name)
        with connect(dsn) as connection:
            migrator = cls(connection, schema, patience, source, beside)
            try:
                yield migrator
            except psycopg.OperationalError as error:
                raise StoreUnavailable(mask(_first_line(error), dsn)) from None
            except psycopg.Error as error:
                raise SchemaError(mask(_first_line(error), dsn)) from None

    def up(self, to: int | None = None) -> list[MigrationStatus]:
        """As the function of this name."""
        self._connection.read_only = False
        if to is not None and to not in self._files:
            raise SchemaError(text("migrate.no_such", version=to, latest=max(self._files, default=0)))
        return list(iter(lambda: self._patiently(lambda: self._step_up(to)), None))

    def down(self, steps: int) -> list[MigrationStatus]:
        """As the function of this name."""
        self._connection.read_only = False
        done = []
        for _ in range(steps):
            taken = self._patiently(self._step_down)
            if taken is None:
                break
            done.append(taken)
        return done

    def status(self) -> list[MigrationStatus]:
        """As the function of this name."""
        with self._connection.transaction():
            return self._status()

    def has_table(self, schema: str, name: str) -> bool:
        """Whether there is such a table."""
        where = "select 1 from pg_tables where schemaname = %s and tablename = %s"
        return self._connection.execute(where, (schema, name)).fetchone() is not None

    def _step_up(self, to: int | None) -> MigrationStatus | None:
        """Apply the lowest migration that is not applied; None: all are."""
        with self._connection.transaction():
            self._lock()
            each = self._pending(to)
            if each is None:
                return None
            self._create()
            if each.transactional:
                self._run(each, each.up)
                return self._record(each)
        with self._session_lock(each):
            # Another migrator may have done it between the two locks: look once more.
            with self._connection.transaction():
                found = self._pending(to)
            if found is each:
                self._run(each, each.up)
                return self._record(each)
        return self._step_up(to)

    def _step_down(self) -> MigrationStatus | None:
        """Take back the newest applied migration; None: none is applied."""
        with self._connection.transaction():
            self._lock()
            newest = self._newest()
            if newest is None:
                return None
            each = self._files[newest.version]
            if each.transactional:
                self._run(each, each.down)
                self._forget(each)
                return newest
        with self._session_lock(each):
            with self._connection.transaction():
                found = self._newest()
            if found is not None and found.version == each.version:
                self._run(each, each.down)
                self._forget(each)
                return found
        return self._step_down()

    def _pending(self, to: int | None) -> Migration | None:
        self._check(stands := self._status())
        applied = {stand.version for stand in stands if stand.applied_at}
        waiting = [version for version in self._files if version not in applied and (to is None or version <= to)]
        return self._files[min(waiting)] if waiting else None

    def _newest(self) -> MigrationStatus | None:
        self._check(stands := self._status())
        return max((stand for stand in stands if stand.applied_at), key=lambda stand: stand.version, default=None)

    def _check(self, stands: list[MigrationStatus]) -> None:
        """Refuse to touch what another version of brooq made."""
        for stand in stands:
            if not stand.known:
                latest = max(self._files, default=0)
                raise SchemaError(text("migrate.newer", schema=self._schema, found=stand.version, latest=latest))
            if stand.changed:
                raise SchemaError(text("migrate.changed", schema=self._schema, file=self._files[stand.version].file))

    def _status(self) -> list[MigrationStatus]:
        records: dict[int, tuple[str, str, datetime]] = {}
        if self.has_table(self._schema, TABLE):
            query = sql.SQL("select version, name, checksum, applied_at from {}").format(self._table())
            records = {version: (name, checksum, at) for version, name, checksum, at in self._connection.execute(query)}
        stands = []
        for version in sorted(self._files.keys() | records.keys()):
            file, record = self._files.get(version), records.get(version)
            name = file.name if file else record[0] if record else ""
            changed = file is not None and record is not None and file.checksum != record[1]
            stands.append(MigrationStatus(version, name, record[2] if record else None, changed, file is not None))
        return stands

    def _run(self, each: Migration, statements: tuple[Statement, ...]) -> None:
        """Run the statements with the schemas alone in search_path, and leave no setting of the session behind."""
        places = [sql.Identifier(name) for name in (self._schema, self._beside) if name is not None]
        path = sql.SQL("set {} search_path to {}, pg_temp").format(
            sql.SQL("local" if each.transactional else "session"), sql.SQL(", ").join(places)
        )
        self._connection.execute(path)
        if each.transactional:
            self._connection.execute(sql.SQL("set local lock_timeout to {}").format(sql.Literal(_LOCK_TIMEOUT)))
            # A role's default must not cut a migration in the middle.
            self._connection.execute("set local statement_timeout to 0")
        else:
            # CREATE INDEX CONCURRENTLY blocks nobody while it waits, and giving up would leave an invalid index behind.
            limit = sql.Literal(int(self._patience * 1000))
            self._connection.execute(sql.SQL("set session lock_timeout to {}").format(limit))
            self._connection.execute("set session statement_timeout to 0")
        try:
            for statement in statements:
                self._execute(each, statement)
        finally:
            if not each.transactional and not self._connection.broken:
                for name in ("search_path", "lock_timeout", "statement_timeout"):
                    self._connection.execute(sql.SQL("reset {}").format(sql.SQL(name)))

    def _execute(self, each: Migration, statement: Statement) -> None:
        try:
            self._connection.execute(statement.sql.encode())
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            if each.transactional:
                raise  # `_patiently` tries the whole migration again
            raise StoreUnavailable(text("migrate.busy", seconds=self._patience)) from None
        except psycopg.Error as error:
            if self._connection.broken:
                raise
            place = f"{each.file}:{statement.line}"
            raise SchemaError(
                text("migrate.failed", place=place, reason=_first_line(error), code=error.sqlstate)
            ) from error

    def _record(self, each: Migration) -> MigrationStatus:
        query = sql.SQL("{} returning applied_at").format(_insert(self._table(), each))
        found = self._connection.execute(query).fetchone()
        return MigrationStatus(each.version, each.name, found[0] if found else None, changed=False)

    def _forget(self, each: Migration) -> None:
        query = sql.SQL("delete from {} where version = {}")
        self._connection.execute(query.format(self._table(), sql.Literal(each.version)))
        if each.version == min(self._files):
            self._connection.execute(sql.SQL("drop table {}").format(self._table()))

    def _create(self) -> None:
        # Looked for first: CREATE SCHEMA IF NOT EXISTS asks for the right to create even where it creates nothing.
        if not self._connection.execute("select 1 from pg_namespace where nspname = %s", (self._schema,)).fetchone():
            self._connection.execute(sql.SQL("create schema {}").format(sql.Identifier(self._schema)))
        if not any(stand.applied_at for stand in self._status()):
            self._connection.execute(_create_table(self._schema))

    def _table(self) -> sql.Identifier:
        return sql.Identifier(self._schema, TABLE)

    def _lock(self) -> None:
        """The lock of this schema for the length of the transaction: it holds behind a transaction pooler too."""
        self._try("select pg_try_advisory_xact_lock(%s)")

    @contextmanager
    def _session_lock(self, each: Migration) -> Iterator[None]:
        """The same lock for a migration that cannot run in a transaction."""
        # A pooler hands out a made-up process number. Behind one, lock and statements may land in different sessions.
        pid = self._connection.execute("select pg_backend_pid()").fetchone()
        if pid is None or pid[0] != self._connection.info.backend_pid:
            raise SchemaError(text("migrate.pooler", file=each.file))
        self._try("select pg_try_advisory_lock(%s)")
        try:
            yield
        finally:
            if not self._connection.broken:
                self._connection.execute("select pg_advisory_unlock(%s)", (self._key,))

    def _try(self, query: str) -> None:
        found = self._connection.execute(query, (self._key,)).fetchone()
        if not (found and found[0]):
            raise _BusyError

    def _patiently(self, step: Callable[[], MigrationStatus | None]) -> MigrationStatus | None:
        """Repeat a step while another migrator, or a lock on a table, is in its way; nothing is held in between."""
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                return step()
            except (_BusyError, errors.LockNotAvailable, errors.DeadlockDetected):
                if time.monotonic() + pause > deadline:
                    raise StoreUnavailable(text("migrate.busy", seconds=self._patience)) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)


class _BusyError(Exception):
    """Another migrator has the lock."""


def _create_table(schema: str | None = None) -> sql.Composed:
    name = sql.Identifier(schema, TABLE) if schema else sql.Identifier(TABLE)
    return sql.SQL(
        "create table if not exists {} (version bigint primary key, name text not null, checksum text not null,"
        " applied_at timestamptz not null default clock_timestamp())"
    ).format(name)


def _insert(table: sql.Identifier, each: Migration) -> sql.Composed:
    # Literals, not parameters: beside parameters psycopg takes a '%' in the schema's name for a placeholder.
    values = sql.SQL(", ").join(map(sql.Literal, (each.version, each.name, each.checksum)))
    return sql.SQL("insert into {} (version, name, checksum) values ({})").format(table, values)


def check_name(schema: str) -> None:
    """Raises ConfigError for a name that no schema can have."""
    # PostgreSQL cuts longer names silently, and two schemas would become one.
    # search_path reads "$user" as a variable even when quoted.
    if schema in {"", "$user"} or "\0" in schema or len(schema.encode("utf-8", "replace")) > _MAX_IDENTIFIER_BYTES:
        raise ConfigError([text("migrate.schema_name", schema=repr(schema), limit=_MAX_IDENTIFIER_BYTES)])


def connect(dsn: str, application_name: str = "brooq migrate") -> Connection:
    """A connection for a step of a deployment. Raises ConfigError and StoreUnavailable; no error of it, nor an error that
    it was raised from, shows the password."""
    failure: ConfigError | StoreUnavailable
    try:
        # No prepared statements: behind a pooler they would land in another session than their use.
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=10,
            prepare_threshold=None,
            client_encoding="utf8",
            application_name=application_name,
        )
    except psycopg.ProgrammingError:
        # libpq quotes parts of the DSN here, and any part may be the password: nothing of it is passed on.
        failure = ConfigError([text("dsn.invalid")])
    except psycopg.Error as error:
        failure = StoreUnavailable(
            text("migrate.unreachable", where=describe(dsn), reason=mask(_first_line(error), dsn))
        )
    else:
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection
    raise failure  # outside of the except block, so that the original hangs nowhere in its context


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    return primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
