"""A database with the roles that `brooq grants` makes, and a login in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from brooq.postgres import grants, migrate
from brooq.postgres.grants import Roles


@dataclass(frozen=True, slots=True)
class Place:
    """A schema that belongs to nobody but its roles."""

    dsn: str
    """The administrator's."""
    schema: str
    roles: Roles
    mark: str
    """A part of every role's name, new for every place: roles belong to the whole server."""

    def login(self, name: str, *members: str) -> str:
        """The DSN of a new login that is a member of the named roles and nothing else."""
        login, password = f"{name}_{self.mark}", uuid4().hex
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            query = sql.SQL("create role {} login password {}")
            connection.execute(query.format(sql.Identifier(login), sql.Literal(password)))
            for member in members:
                role = sql.Identifier(getattr(self.roles, member))
                connection.execute(sql.SQL("grant {} to {}").format(role, sql.Identifier(login)))
        return make_conninfo(self.dsn, user=login, password=password)

    def ask(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """As the administrator, in the schema."""
        with psycopg.connect(self.dsn, autocommit=True, options=f"-c search_path={self.schema}") as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def place(dsn: str, schema: str = "jobs", *, migrated: bool = True) -> Iterator[Place]:
    """Roles with names of their own, gone afterwards with all that they own."""
    mark = uuid4().hex[:8]
    roles = Roles(*(f"{each.name}_{mark}" for each in fields(Roles)))
    found = Place(dsn, schema, roles, mark)
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
        if row != (True,):
            pytest.skip("making roles needs a superuser")
    try:
        grants.apply(dsn, schema, roles)
        if migrated:
            migrate.up(found.login("deploy", "migrator"), schema)
            grants.apply(dsn, schema, roles)
        yield found
    finally:
        _drop(dsn, mark)


def _drop(dsn: str, mark: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = connection.execute("select rolname from pg_roles where rolname like %s", [f"%\\_{mark}"]).fetchall()
        for (name,) in names:
            connection.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
        for (name,) in names:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
