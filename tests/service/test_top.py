"""`brooq top`: what is put together, how it fits a terminal, and the live view in a real one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.service.brooq_process import environment
from tests.service.brooq_process import inside as brooq

from brooq import State
from brooq.engine.store import Census, Depth
from brooq.postgres.facts import Pace, Seen
from brooq.service.layout import fit, laid_out, padded, width_of
from brooq.service.overview import Overview, overview
from brooq.service.screen import drawn
from brooq.vocabulary.steering import TopicRecord

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)


def seen(**changes: Any) -> Seen:
    values: dict[str, Any] = {
        "name": "w1", "host": "h", "pid": 1, "version": "1", "started_at": NOW, "seen_at": NOW, "stopping": False,
        "slots": 4, "topics": ("mail", "sms"), "busy": {"mail": 3},
    }  # fmt: skip
    return Seen(**(values | changes))


def look() -> Overview:
    depths = [
        Depth("mail", State.PENDING, 10, exact=True), Depth("mail", State.FAILED, 5, exact=True),
        Depth("mail", State.PROCESSING, 3, exact=True), Depth("mail", State.DEAD, 2, exact=True),
        Depth("sms", State.PENDING, 10_000, exact=False), Depth("lost", State.PENDING, 1, exact=True),
    ]  # fmt: skip
    pace = Pace(NOW, {"mail": 4.0}, {"mail": 3.5}, {"mail": 0.5})
    workers = [seen(), seen(name="w2", seen_at=NOW - timedelta(hours=1), topics=("lost",))]
    oldest = {"mail": 2.0, "sms": 100.0, "lost": 7.0}
    return overview(Census(depths, oldest), pace, workers, [TopicRecord("sms", NOW, "ada", None)])


def test_topics_that_wait_longest_come_first_with_all_that_is_known() -> None:
    found = look()
    assert [line.topic for line in found.lines] == ["sms", "lost", "mail"]
    sms, lost, mail = found.lines
    assert (sms.waiting, sms.exact, sms.paused, sms.workers) == (10_000, False, True, 1)
    assert (lost.waiting, lost.workers) == (1, 0), "a silent worker is none"
    assert (mail.waiting, mail.running, mail.dead, mail.made, mail.done, mail.died) == (15, 3, 2, 4.0, 3.5, 0.5)
    assert found.busy == (3, 4)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 12), (40, 10)])
def test_a_picture_fits_its_terminal(width: int, height: int) -> None:
    many = look()
    lines = [*many.lines] * 30
    workers = [seen(name=f"w{number}" * 5) for number in range(40)]
    picture = drawn(Overview(NOW, lines, workers), width, height).plain.split("\n")
    assert len(picture) <= height
    assert all(len(line) <= width for line in picture[1:])
    assert any("topics more" in line for line in picture)


def test_trouble_is_told_in_place_of_the_head() -> None:
    picture = drawn(look(), 80, 24, "away\x1b[31m\n").plain.split("\n")
    assert picture[0] == "away\\u001b[31m\\n"
    assert any("mail" in line for line in picture)


@pytest.mark.parametrize(
    ("widths", "width", "kept", "narrowed"),
    [
        ([36, 10, 60], 200, [0, 1, 2], [36, 10, 60]),
        ([36, 10, 60], 80, [0, 1, 2], [36, 10, 30]),
        ([36, 10, 60, 19], 80, [0, 1, 2], [36, 10, 30, 19]),
        ([36, 40, 60, 19], 90, [0, 1, 2], [36, 25, 25, 19]),
        ([36, 40, 60, 19], 120, [0, 1, 2, 3], [36, 29, 30, 19]),
        ([36, 40, 60, 19], 20, [0, 1, 2], [36, 12, 12, 19]),
    ],
)
def test_columns_share_the_width(widths: list[int], width: int, kept: list[int], narrowed: list[int]) -> None:
    found = list(widths)
    assert fit(found, width, [2, 1] if len(widths) < 4 or widths[1] == 40 else [2], [3]) == kept
    assert found == narrowed


@pytest.mark.parametrize("cell", ["short", "x" * 50, "日本語のとても長いエラーメッセージ", "ошибка " * 9, "é" * 30])
def test_a_cell_takes_its_places_whatever_its_letters(cell: str) -> None:
    for width in (8, 13, 20):
        assert width_of(padded(cell, width, right=False)) == width
        assert width_of(padded(cell, width, right=True)) == width
    assert laid_out(["a"], [[cell]], None)[2] == cell.rstrip()


def test_one_look_in_a_pipe_and_as_json(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into job (topic) select 'mail.send' from generate_series(1, 30)")
    for arguments in ([], ["--once"]):
        done = brooq("top", *arguments, dsn=dsn, cwd=tmp_path)
        assert done.returncode == 0
        assert [line.split()[:2] for line in done.stdout.splitlines()[2:]] == [["mail.send", "30"]]
    (line,) = brooq("top", "--once", "--json", dsn=dsn, cwd=tmp_path).stdout.splitlines()
    read = json.loads(line)
    assert [(each["topic"], each["waiting"], each["made_per_second"]) for each in read["topics"]] == [
        ("mail.send", 30, 1.0)
    ]


class Screen:
    """A terminal that a program of ours shows itself on."""

    def __init__(self, process: subprocess.Popen[bytes], leader: int) -> None:
        """What it has shown is kept."""
        self.process = process
        self.seen = ""
        self._leader = leader

    def wait_for(self, words: str, seconds: float = 60.0) -> None:
        """Until they are shown, from here on."""
        start, deadline = len(self.seen), time.monotonic() + seconds
        while words not in self.seen[start:]:
            assert time.monotonic() < deadline, self.seen[start:]
            self.read()

    def read(self) -> None:
        """What there is to read within a moment."""
        if select.select([self._leader], [], [], 0.1)[0]:
            try:
                self.seen += os.read(self._leader, 65536).decode(errors="replace")
            except OSError:
                pass  # it has ended


@contextmanager
def shown(*arguments: str, dsn: str, cwd: Path, **settings: str) -> Iterator[Screen]:
    leader, follower = pty.openpty()
    env = environment(dsn, **settings) | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-m", "brooq", *arguments], stdin=follower, stdout=follower, stderr=follower, env=env, cwd=cwd
    )
    os.close(follower)
    try:
        yield Screen(process, leader)
    finally:
        process.kill()
        process.wait(30)
        os.close(leader)


def test_the_live_view_moves_says_when_the_database_is_away_and_ends_cleanly(dsn: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        shown("top", "--every", "500ms", dsn=dsn, cwd=tmp_path) as screen,
    ):
        screen.wait_for("waiting 0")
        connection.execute("insert into job (topic) select 'mail.send' from generate_series(1, 1234)")
        screen.wait_for("waiting 1234")
        connection.execute("update pg_database set datallowconn = false where datname = current_database()")
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity"
                           " where datname = current_database() and pid <> pg_backend_pid()")  # fmt: skip
        screen.wait_for("as it was at")
        connection.execute("update pg_database set datallowconn = true where datname = current_database()")
        screen.wait_for("waiting 1234")
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(30) == 0
        screen.read()
    assert "\x1b[?1049l" in screen.seen, "the screen is given back as it was"
    assert "Traceback" not in screen.seen


def test_every_look_is_a_line_of_json_until_it_is_interrupted(dsn: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "brooq", "top", "--json", "--every", "500ms"], env=environment(dsn), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert first["at"] < second["at"]
    assert (process.returncode, complaints) == (0, "")


@pytest.mark.parametrize(("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_only_where_they_are_wanted(dsn: str, tmp_path: Path, settings: dict[str, str], coloured: bool) -> None:
    env_free = {"NO_COLOR": "", **settings}
    for arguments in (["check"], ["jobs"]):
        leader, follower = pty.openpty()
        env = environment(dsn) | {"TERM": "xterm"} | env_free
        done = subprocess.run(
            [sys.executable, "-m", "brooq", *arguments], stdin=follower, stdout=follower, stderr=follower, env=env,
            cwd=tmp_path, timeout=60, check=False,
        )  # fmt: skip
        os.close(follower)
        output = b""
        while select.select([leader], [], [], 0.2)[0]:
            try:
                output += os.read(leader, 65536)
            except OSError:
                break
        os.close(leader)
        assert done.returncode in (0, 1, 2)
        assert (b"\x1b[" in output) == coloured, (arguments, output)
