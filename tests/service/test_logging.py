"""Logs: one record is one line, without passwords, whatever is logged (requirement S4)."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brooq.service.line import one_line
from brooq.service.logging import _TURN, Masker, formatter
from brooq.service.secret import Secret

CANARY = "pa55-canary"
DSN = f"postgresql://user:{CANARY}@db.example/app"
MASKER = Masker([Secret(DSN), Secret("tok-canary"), None])
JSON = formatter(MASKER, form="json")
CONSOLE = formatter(MASKER, form="console")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
# The alphabet that hurts comes often.
nasty = st.text(
    st.sampled_from("ab\n\r\t\x00\x0b\x0c\x1b\x1c\x7f\x85\u2028\u2029\u202e\u2066\ufeff\ud800{}%\\\"'")
    | st.characters()
)


def record(
    message: object, *arguments: object, extra: dict[str, Any] | None = None, error: Any = None
) -> logging.LogRecord:
    logger = logging.getLogger("brooq.test")
    info = None if error is None else (type(error), error, error.__traceback__)
    return logger.makeRecord("brooq.test", logging.INFO, __file__, 1, message, arguments, info, extra=extra)


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """The error with a traceback."""
    try:
        raise error from cause
    except type(error):
        return error


@given(message=nasty, name=st.from_regex(r"[a-z]{1,8}", fullmatch=True).map("x_".__add__), value=anything, error=nasty)
def test_one_record_is_one_line(message: str, name: str, value: object, error: str) -> None:
    failure = raised(ValueError(error))
    for each in (JSON, CONSOLE):
        line = each.format(record("%s", message, extra={name: value}, error=failure))
        assert len(line.splitlines()) == 1
        assert line.encode()
        assert one_line(line) == line
    read = json.loads(JSON.format(record("%s", message, extra={name: value})))
    assert read["message"] == message
    assert name in read


@pytest.mark.security("S10")
def test_ten_thousand_hostile_values_are_ten_thousand_lines() -> None:
    """In every part of a record, in both forms: nothing breaks a line, steers a terminal or turns the reading order."""
    chance = Random(8)  # the same values at every run
    hostile = (
        "\r\n", "\x1b[2J", "\x9b31m", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\ufeff", "\x00", "\x85", "\x0b",
        "\x1c", "\ud800", '{"level": "critical"}', "2026-11-30 ERROR forged", "%s%n", "${jndi:x}", "\U000e0041", "я", "\\n",
    )  # fmt: skip
    stream = io.StringIO()
    for number in range(10_000):
        value, other, third = ("".join(chance.choices(hostile, k=chance.randint(1, 6))) for _ in range(3))
        made = record("%s", value, extra={f"x_{other}": other, "x_y": [third, {third: other}]}, error=ValueError(third))
        stream.write((JSON if number % 2 else CONSOLE).format(made) + "\n")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10_000
    assert [line for line in lines if one_line(line) != line] == []
    assert all(json.loads(line)["level"] == "info" for line in lines[1::2])


def test_fields_of_a_record() -> None:
    read = json.loads(JSON.format(record("job %s", 7, extra={"job": "x", "count": 3, "level": "mine", "event": "e"})))
    assert list(read)[:4] == ["time", "level", "logger", "message"]
    assert (read["level"], read["logger"], read["message"]) == ("info", "brooq.test", "job 7")
    assert (read["job"], read["count"], read["level_"], read["event_"]) == ("x", 3, "mine", "e")


class Unprintable:
    """Its text cannot be made."""

    def __repr__(self) -> str:
        raise RuntimeError(CANARY)


@pytest.mark.parametrize(
    "broken",
    [
        record("%d", "no number"),
        record("%s %s", "one argument"),
        record("%s", Unprintable()),
        record("plain", extra={"x_value": Unprintable()}),
        record("plain", extra={"x_value": 10**5000}),
        record("plain", extra={"x_value": float("nan")}),
    ],
)
def test_a_record_that_cannot_be_made_is_a_line_too(broken: logging.LogRecord) -> None:
    for each in (JSON, CONSOLE):
        line = each.format(broken)
        assert len(line.splitlines()) == 1
        assert CANARY not in line
    json.loads(JSON.format(broken), parse_constant=pytest.fail)


def test_no_password_in_any_part_of_a_record() -> None:
    failure = raised(ValueError(f"cannot reach {DSN}"), RuntimeError(CANARY))
    made = record("to %s with tok-canary", DSN, extra={"dsn": DSN, "x": {"deep": [DSN, Secret(DSN)]}}, error=failure)
    for each in (JSON, CONSOLE):
        line = each.format(made)
        assert "canary" not in line
        assert "ValueError" in line
        assert "***" in line


def test_a_terminal_gets_a_traceback_that_can_be_read_and_not_be_mistaken_for_records() -> None:
    failure = raised(ValueError("first\n2026 ERROR forged\x1b[31m"))
    lines = formatter(MASKER, form="console", terminal=True).format(record("oh", error=failure)).split("\n")
    assert len(lines) > 3
    assert all(line.startswith("  | ") for line in lines[1:])
    assert "\x1b" not in "".join(lines[1:])


def run(source: str) -> subprocess.CompletedProcess[str]:
    head = (
        "import logging, sys, threading\nfrom brooq.service.logging import Masker, configure\n"
        "from brooq.service.secret import Secret\n"
        f"DSN = {DSN!r}\nconfigure(Masker([Secret(DSN)]), form='json')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + source], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "source",
    [
        "raise ValueError(DSN + '\\nsecond line')",
        "t = threading.Thread(target=lambda: int(DSN)); t.start(); t.join()",
        "class A:\n    def __del__(self): raise ValueError(DSN)\nA()",
        "import warnings; warnings.warn(DSN)",
        "logging.getLogger('other').error('%s', DSN)",
        "import structlog; structlog.get_logger('s').warning('hello', dsn=DSN, other='a\\nb')",
    ],
)
def test_what_nobody_caught_is_a_record_like_any_other(source: str) -> None:
    done = run(source)
    assert CANARY not in done.stderr + done.stdout
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["level"] in {"critical", "warning", "error"}


def test_a_stream_that_is_gone_ends_nothing() -> None:
    done = run("sys.stderr.close()\nlogging.getLogger('x').error('lost')\nprint('alive')")
    assert done.stdout == "alive\n"


def test_a_logger_of_the_library_writes_fields_to_the_stream() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSON)
    logger = logging.Logger("brooq")  # noqa: LOG001  one that nobody else has
    logger.addHandler(handler)
    logger.info("a", extra={"job": "7"})
    logger.info("b")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["a", "b"]


WRITER = """
import sys
from brooq.service import logging
from brooq.service.logging import Masker, configure, log
number = int(sys.argv[1])
logging._TURN = float(sys.argv[2])
configure(Masker(), form="json", process=number, shared=True)
print("ready", flush=True)
sys.stdin.read()
for each in range(80):
    log.info("%s", str(number) * 200_000)
"""

HOLDER = """
import fcntl, os, signal, sys
fcntl.lockf(sys.stderr, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_long_lines_of_several_processes_stay_whole_when_the_pipe_is_full() -> None:
    reading, writing = os.pipe()
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, str(number), "60"], stdin=pipe, stdout=pipe, stderr=writing
                )
            )
            for number in (1, 2, 3)
        ]
        os.close(writing)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
        with os.fdopen(reading, "rb", buffering=0) as file:
            # A pipe holds less than a line of this length: none is taken at once.
            received = b"".join(iter(lambda: file.read(65536), b""))
    lines = [json.loads(line) for line in received.splitlines()]
    assert len(lines) == 240
    assert all(line["message"] == str(line["process"]) * 200_000 for line in lines)


def test_who_was_stopped_while_it_wrote_does_not_silence_the_others() -> None:
    reading, writing = os.pipe()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stderr=writing, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        short = WRITER.replace("range(80)", "range(1)").replace("200_000", "3")
        subprocess.run(
            [sys.executable, "-c", short, "2", str(_TURN)],
            input=b"",
            stdout=subprocess.DEVNULL,
            stderr=writing,
            timeout=60,
            check=True,
        )
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            assert json.loads(file.readline())["message"] == "222"
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
