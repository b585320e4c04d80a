"""Payloads: what comes back is what went in; what could not come back is refused, with its place (requirement E6)."""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brooq import PayloadError
from brooq.vocabulary import payload as payload_module
from brooq.vocabulary.payload import MAX_DEPTH, _quickly, _write, decode, encode

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


@pytest.fixture
def empty_connection(empty_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        yield connection


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, floats to the bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def through_jsonb(connection: psycopg.Connection[Any], text: str) -> str:
    row = connection.execute("select (%s::text)::jsonb::text", [text]).fetchone()
    assert row is not None
    return str(row[0])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_any_json_comes_back_from_jsonb_bit_for_bit(empty_connection: psycopg.Connection[Any], value: Any) -> None:
    assert same(decode(through_jsonb(empty_connection, encode(value))), value)


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1e16,
        1e22,
        1e308,
        1.7976931348623157e308,
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        0.1,
        1 / 3,
        1e-7,
        123456789.125,
    ],
    ids=ascii,
)
def test_every_float_comes_back_as_the_same_float(empty_connection: psycopg.Connection[Any], value: float) -> None:
    assert same(decode(through_jsonb(empty_connection, encode([value]))), [value])


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**64, -(2**200), 10**3999], ids=lambda value: f"{value.bit_length()} bits"
)
def test_big_integers_keep_every_digit(empty_connection: psycopg.Connection[Any], value: int) -> None:
    assert same(decode(through_jsonb(empty_connection, encode(value))), value)


def test_a_decimal_that_a_float_cannot_hold_comes_back_as_a_decimal(empty_connection: psycopg.Connection[Any]) -> None:
    value = Decimal("3.14159265358979323846264338327950288")
    assert decode(through_jsonb(empty_connection, encode(value))) == value
    assert encode(Decimal("9.90")) == "9.90", "the row keeps the digits as they were written"
    assert same(decode(encode(Decimal("9.90"))), 9.9), "what a float holds exactly comes back as a float"


def test_subclasses_are_taken_for_what_they_are() -> None:
    value = OrderedDict([("colour", Colour.RED), (Colour.RED, Level.HIGH), ("tuple", (1, 2))])
    assert json.loads(encode(value)) == {"colour": "red", "red": 3, "tuple": [1, 2]}


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"a": math.nan}, "$.a"),
        ({"a": [1, math.inf]}, "$.a[1]"),
        ([Decimal("NaN")], "$[0]"),
        ({"a": {1: 2}}, "$.a"),
        ({None: 1}, "$"),
        ({"a": ["x\0y"]}, "$.a[0]"),
        ({"x\0y": 1}, "$.x\0y"),
        ({"a": "\ud800"}, "$.a"),
        ({"a": {"b": object()}}, "$.a.b"),
        ({"a": {1, 2}}, "$.a"),
        ({"a": b"bytes inside"}, "$.a"),
        ({"a": 10**5000}, "$.a"),
        ([Decimal("1e100000")], "$[0]"),
    ],
    ids=map(str, range(13)),
)
@pytest.mark.fault(15)
def test_what_jsonb_could_not_give_back_is_refused_with_its_place(payload: Any, place: str) -> None:
    """Fault 15: before any SQL."""
    with pytest.raises(PayloadError) as caught:
        encode(payload)
    assert caught.value.place == place
    str(caught.value).encode()  # printable, whatever was in the payload


def test_a_circular_structure_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["self"] = payload
    with pytest.raises(PayloadError, match="refers to itself"):
        encode(payload)


def test_depth_is_limited_and_not_by_pythons_stack() -> None:
    payload: Any = 1
    for _ in range(MAX_DEPTH):
        payload = [payload]
    assert decode(encode(payload)) == payload
    with pytest.raises(PayloadError):
        encode([payload])
    for _ in range(100_000):
        payload = [payload]
    with pytest.raises(PayloadError):
        encode(payload)
    with pytest.raises(PayloadError):
        encode(b"[" * 100_000 + b"]" * 100_000)


def test_size_is_counted_in_bytes_of_utf8() -> None:
    assert encode("я" * 10, max_bytes=22) == '"' + "я" * 10 + '"'
    with pytest.raises(PayloadError, match="22 bytes"):
        encode("я" * 10, max_bytes=21)
    with pytest.raises(PayloadError):
        encode(b" " * 30 + b"1", max_bytes=20)


def test_bytes_are_json_that_is_ready_made() -> None:
    assert decode(encode(b'{"a": [1, 2.5, "\\u0416"]}')) == {"a": [1, 2.5, "Ж"]}
    assert same(
        decode(encode(b"[1e16, -0.0, 12345678901234567890.5]")), [1e16, -0.0, Decimal("12345678901234567890.5")]
    )


@pytest.mark.parametrize(
    "source", [b"", b"{", b"NaN", b"[1,]", b'"\\u0000"', b'"\\ud800"', b"\xff", b"{'a': 1}", b"[-Infinity]"]
)
def test_bytes_that_are_not_json_are_refused(source: bytes) -> None:
    with pytest.raises(PayloadError):
        encode(source)


def test_a_row_that_cannot_be_read_says_so() -> None:
    with pytest.raises(PayloadError, match="cannot be read"):
        decode("1" * 5000)


# --- the two writers ---

MESSY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=10),
        st.sampled_from(
            ["\\u0000", "\\\\u0000", "\0", "\ud800", "я", "\x7f", '"', 10**3998, 10**3999, 10**4000, -(10**4000), 1e16, 1e-4,
             9.9e-5, -0.0, 0.0, Decimal("1.10"), Colour.RED, Level.HIGH, b"bytes", object]
        ),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from([1, None, Colour.RED, "\0"]), inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=8,
)  # fmt: skip


def carefully(value: Any) -> str:
    """What the writer that names places makes of it."""
    pieces: list[str] = []
    _write(value, pieces, "$", 0)
    return "".join(pieces)


def told(write: Callable[[Any], str], value: Any) -> tuple[str, ...]:
    """What it writes, or how it refuses."""
    try:
        return (write(value),)
    except PayloadError as error:
        return ("refused", str(error), error.place)


@settings(max_examples=1000, deadline=None)
@given(st.dictionaries(TEXTS | st.text(max_size=3), MESSY, max_size=5))
def test_the_quick_writer_writes_what_the_careful_one_does_or_leaves_it_to_it(value: dict[str, Any]) -> None:
    expected = told(carefully, value)
    assert _quickly(value) in (None, expected[0])
    assert told(encode, value) == expected


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"n": 1, "to": "a@b", "ok": True, "no": None},
        {"nested": {"list": [1, 2.5, ("a", {"b": []})], "я": "\x1f\x7f\u2028🔑"}},
        {"big": 10**3999, "small": -(2**70), "float": 0.0001, "large": 9999999999999998.0},
    ],
    ids=range(4),
)
def test_plain_payloads_are_written_quickly(value: dict[str, Any]) -> None:
    if payload_module._encoder is None:
        pytest.skip("this Python has no encoder in C")
    assert _quickly(value) == carefully(value)


def test_nothing_is_different_without_the_encoder_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"n": 1, "to": ["a", None, 1.5]}
    quick = encode(value)
    monkeypatch.setattr(payload_module, "_encoder", None)
    assert encode(value) == quick == '{"n":1,"to":["a",null,1.5]}'
