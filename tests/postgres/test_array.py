"""Arrays for psycopg: the server reads what was meant, and other connections know nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.database import Server

from brooq.postgres.drivers.array import packed, register


@pytest.fixture(scope="module")
def place(postgres: Server) -> Iterator[str]:
    with postgres.database(migrated=False) as found:
        yield found


NO_NUL = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)


def back(dsn: str, kind: str, value: list[Any]) -> Any:
    with psycopg.connect(dsn) as connection:
        register(connection.adapters)
        with psycopg.RawCursor(connection) as cursor:
            cursor.execute(f"select $1::{kind}".encode(), [packed(value)])
            row = cursor.fetchone()
            assert row is not None
            return row[0]


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just("uuid[]"), st.lists(st.uuids())),
        st.tuples(st.just("bigint[]"), st.lists(st.integers(-(2**63), 2**63 - 1))),
        st.tuples(st.just("text[]"), st.lists(st.none() | NO_NUL)),
    )
)
def test_the_server_reads_what_was_meant(place: str, case: tuple[str, list[Any]]) -> None:
    kind, value = case
    assert back(place, kind, value) == value


def test_small_integers_fit_where_smaller_ones_are_asked_for(place: str) -> None:
    assert back(place, "smallint[]", [1, -2]) == [1, -2]


class Subclass(UUID):
    """As asyncpg has one."""


def test_ids_of_a_subclass_are_ids(place: str) -> None:
    id = uuid4()
    assert back(place, "uuid[]", [Subclass(int=id.int)]) == [id]


@pytest.mark.parametrize("value", [[], [None], [1, "a"], [1.5], [True], "text", None, 7, (1, 2)], ids=repr)
def test_everything_else_is_left_to_psycopg(value: Any) -> None:
    assert packed(value) is value
