"""The text of an error for `last_error`."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brooq.engine.reason import MAX_BYTES, UNPRINTABLE, reason, sanitize


class Hostile(Exception):
    """Its text raises what it was given."""

    def __str__(self) -> str:
        error = self.args[0]
        assert isinstance(error, BaseException)
        raise error


def test_type_and_message() -> None:
    assert reason(ValueError("bad")) == "ValueError: bad"
    assert reason(ValueError()) == "ValueError"


@pytest.mark.fault(13)
def test_nul_is_shown_as_text() -> None:
    """Fault 13."""
    assert reason(ValueError("bad\x00byte")) == "ValueError: bad\\x00byte"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("\ud800", "\\ud800"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("\U000e0001", "\\U000e0001"),
        ("tab\tand é ünd 漢 🙂", "tab\tand é ünd 漢 🙂"),
    ],
)
def test_what_cannot_be_printed_is_escaped(message: str, expected: str) -> None:
    assert sanitize(message) == expected


@pytest.mark.parametrize("error", [ValueError(), RecursionError(), SystemExit(), KeyboardInterrupt()], ids=repr)
def test_an_error_whose_text_raises_keeps_its_type(error: BaseException) -> None:
    assert reason(Hostile(error)) == f"Hostile: {UNPRINTABLE}"


@pytest.mark.parametrize("message", ["x" * 10_000_000, "é" * 10_000_000, "\x00" * 5_000, "漢" * 2_000])
def test_a_long_text_is_cut_on_a_character(message: str) -> None:
    begun = time.process_time()
    text = reason(ValueError(message))
    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith("…")
    assert time.process_time() - begun < 5


@given(st.text(st.characters(), max_size=6000), st.integers(10, 5000))
def test_every_text_becomes_storable(text: str, limit: int) -> None:
    made = sanitize(text, limit)
    assert "\x00" not in made
    assert len(made.encode("utf-8")) <= limit


@pytest.mark.fault(53)
def test_the_lines_that_quote_a_row_are_cut() -> None:
    """Fault 53."""
    error = ValueError('violates check "c"\nDETAIL:  Failing row contains (1, s3cret).\nCONTEXT:  COPY s3cret')
    assert reason(error) == 'ValueError: violates check "c"'
    assert reason(ValueError("first\n  CONTEXT: s3cret")) == "ValueError: first"


@pytest.mark.fault(53)
def test_neither_locals_nor_causes_are_in_it() -> None:
    """Fault 53."""

    def call() -> None:
        headers = {"Authorization": "Bearer tok-123"}
        try:
            raise KeyError(str(headers))  # noqa: TRY301
        except KeyError as error:
            raise ValueError("the request failed") from error

    with pytest.raises(ValueError, match="request") as caught:
        call()
    assert reason(caught.value) == "ValueError: the request failed"


def test_members_of_a_group_follow_it() -> None:
    error = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    assert reason(error) == "ExceptionGroup: two (2 sub-exceptions); ValueError: a; KeyError: 'b'"


def test_a_group_of_many_names_the_first() -> None:
    text = reason(ExceptionGroup("many", [ValueError(str(number)) for number in range(100)]))
    assert "ValueError: 4" in text
    assert "ValueError: 5" not in text


@pytest.mark.fault(53)
def test_a_group_does_not_smuggle_a_detail_in() -> None:
    """Fault 53."""
    assert "s3cret" not in reason(ExceptionGroup("g", [ValueError("a\nDETAIL: s3cret"), ValueError("b")]))
