"""Puts the audit's trigger on the table of jobs, and takes it away with everything it has written."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.resources import files
from importlib.resources.abc import Traversable

from psycopg import errors, sql

from brooq.postgres.migrate import PATIENCE, Migrator, connect
from brooq.vocabulary.error import SchemaError
from brooq.vocabulary.message import text

SUFFIX = "_audit"


def schema_for(schema: str, audit_schema: str | None = None) -> str:
    """Where the audit of a schema is, unless it is said."""
    return audit_schema or schema + SUFFIX


def install(dsn: str, schema: str = "public", audit_schema: str | None = None, *, patience: float = PATIENCE) -> bool:
    """Install the audit; False: it is there already. Safe when several run at once, and while workers work.

    From the next change on every one of them is written down, in the same transaction. Whoever installs owns the audit:
    let that be another role than the workers', who need no right on it. Raises SchemaError (there is no table of jobs),
    StoreUnavailable, ConfigError.
    """
    with _migrator(dsn, schema, schema_for(schema, audit_schema), patience) as migrator:
        if not migrator.has_table(schema, "job"):
            raise SchemaError(text("postgres.schema_missing", schema=schema))
        return bool(migrator.up())


def uninstall(dsn: str, schema: str = "public", audit_schema: str | None = None, *, patience: float = PATIENCE) -> bool:
    """Take the trigger away, with all that the audit holds; False: there is none. Errors as those of `install`."""
    place = schema_for(schema, audit_schema)
    with _migrator(dsn, schema, place, patience) as migrator:
        taken = bool(migrator.down(len(migrator.status())))
    if taken:
        with connect(dsn) as connection:
            try:
                connection.execute(sql.SQL("drop schema {}").format(sql.Identifier(place)))
            except errors.DependentObjectsStillExist:
                pass  # somebody keeps other things in it
    return taken


def _migrator(dsn: str, schema: str, place: str, patience: float) -> AbstractContextManager[Migrator]:
    return Migrator.open(dsn, place, patience, folder(), beside=schema)


def folder() -> Traversable:
    """The audit's own migrations."""
    return files("brooq.postgres") / "audit"
