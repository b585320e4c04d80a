"""The roles that brooq's tables are used with, by least privilege: one SQL text, printed or applied (security rule S12)."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import NamedTuple

import psycopg
from psycopg import sql

from brooq.postgres.dsn import mask
from brooq.postgres.migrate import connect
from brooq.postgres.statement import MAX_IDENTIFIER_BYTES
from brooq.vocabulary.error import ConfigError, SchemaError, StoreUnavailable
from brooq.vocabulary.message import text

_PLACE = re.compile(r"""(?P<quote>["'])(?P<name>brooq(?:_[a-z]+)?)(?P=quote)|\$brooq\$""")
"""Where names stand in the file: it is valid SQL for the names it is written with."""

# The grants on tables among its statements; the owner's tables are its own.
_GRANT = re.compile(r"^\s*grant ([^;']+?)\son\s+((?:\"brooq\"\.\w+[,\s]*)+)\sto ([^;]+);", re.MULTILINE)
_PRIVILEGE = re.compile(r"(select|insert|update|delete)\s*(?:\(([^)]*)\))?")
_TABLE = re.compile(r'"brooq"\.(\w+)')
_PART = re.compile(r'"brooq_(\w+)"')

_RESERVED = frozenset({"public", "none"})
"""Names that SQL takes for something else than a role, quoted or not."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the roles in the cluster; several queues may have roles of their own."""

    owner: str = "brooq_owner"
    migrator: str = "brooq_migrator"
    producer: str = "brooq_producer"
    worker: str = "brooq_worker"
    janitor: str = "brooq_janitor"
    viewer: str = "brooq_viewer"


class Right(NamedTuple):
    """A right that a part of the system needs. `column` None: on the whole table."""

    part: str
    """A field of Roles."""
    table: str
    privilege: str
    column: str | None


def rights() -> list[Right]:
    """Every right on a table that the script grants, as it stands there: so the two cannot differ."""
    found = []
    script = re.sub(r"--[^\n]*", "", (files("brooq.postgres") / "grants.sql").read_text(encoding="utf-8"))
    for privileges, tables, roles in _GRANT.findall(script):
        for privilege, columns in _PRIVILEGE.findall(privileges):
            for table in _TABLE.findall(tables):
                for part in _PART.findall(roles):
                    named = [name.strip() for name in columns.split(",")] if columns else [None]
                    found += [Right(part, table, privilege, name) for name in named]
    return found


def script(schema: str = "public", roles: Roles = Roles()) -> str:
    """SQL that makes the roles and grants them what each needs on the tables of a schema; running it again is safe.

    Raises ConfigError for names that PostgreSQL cannot hold, and for two roles of one name.
    """
    names = {f"brooq_{each.name}": getattr(roles, each.name) for each in fields(Roles)}
    _check([schema, *names.values()])
    names["brooq"] = schema
    # A dollar quote ends where its tag comes next: the tag must not be in any name.
    tag = "$brooq$"
    while any(tag in name for name in names.values()):
        tag = f"{tag[:-1]}_$"

    def put(match: re.Match[str]) -> str:
        if match["name"] is None:
            return tag
        name = names[match["name"]]
        return (sql.Identifier(name) if match["quote"] == '"' else sql.Literal(name)).as_string().strip()

    # In one pass: a name that looks like a place for another one stays as it is.
    return _PLACE.sub(put, (files("brooq.postgres") / "grants.sql").read_text(encoding="utf-8"))


def apply(dsn: str, schema: str = "public", roles: Roles = Roles()) -> None:
    """Run the script in one transaction. Whoever `dsn` names has to be allowed to create roles, the first time.

    Raises SchemaError (what PostgreSQL refuses), StoreUnavailable (no connection), ConfigError (DSN or names).
    """
    statements = script(schema, roles)
    with connect(dsn) as connection:
        try:
            connection.execute(statements.encode())
        except psycopg.OperationalError as error:
            raise StoreUnavailable(mask(str(error), dsn)) from None
        except psycopg.Error as error:
            reason = error.diag.message_primary or type(error).__name__
            raise SchemaError(text("grants.refused", reason=mask(reason, dsn), code=error.sqlstate)) from None


def _check(names: list[str]) -> None:
    schema, *roles = names
    wrong = [schema] * (not _fits(schema)) + [
        role for role in roles if not _fits(role) or role in _RESERVED or role.startswith("pg_")
    ]
    problems = [text("grants.name", name=ascii(name), limit=MAX_IDENTIFIER_BYTES) for name in wrong]
    problems += [text("grants.twice", name=ascii(name)) for name in sorted(set(roles)) if roles.count(name) > 1]
    if problems:
        raise ConfigError(problems)


def _fits(name: str) -> bool:
    try:
        return 0 < len(name.encode("utf-8")) <= MAX_IDENTIFIER_BYTES and "\0" not in name
    except UnicodeEncodeError:
        return False
