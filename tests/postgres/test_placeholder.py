"""Placeholders of the other drivers: what is replaced, and what only looks like one."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from brooq.postgres.placeholder import arguments, named
from brooq.postgres.statement import Statements, statements


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select $1", "select %(p1)s"),
        ("select $1::text, $2, $1, $10", "select %(p1)s::text, %(p2)s, %(p1)s, %(p10)s"),
        ("-- $1 ids\nselect $1", "\nselect %(p1)s"),
        ("select 'a$1', '$1''$2', $1", "select 'a$1', '$1''$2', %(p1)s"),
        ('select 1 from "a$1%"."b""$2" where x = $1', 'select 1 from "a$1%%"."b""$2" where x = %(p1)s'),
        ("select 7 % $1 as \"--\", '--'", "select 7 %% %(p1)s as \"--\", '--'"),
    ],
)
def test_placeholders_are_replaced_and_nothing_else(statement: str, expected: str) -> None:
    assert named(statement) == expected


def test_every_shipped_statement_keeps_its_parameters_and_its_schema() -> None:
    for each in fields(Statements):
        text = getattr(statements("a$1 %(p1)s 'b'"), each.name)
        uncommented = re.sub(r"--[^\n]*", "", text)
        numbers = {int(number) for number in re.findall(r"(?<!a)\$(\d+)", uncommented)}
        assert named(text) % {f"p{number}": f"${number}" for number in numbers} == uncommented, each.name


def test_parameters_are_named_from_one() -> None:
    assert arguments(["a", None]) == {"p1": "a", "p2": None}
