"""Adapters: what they tell, and that a run counts only when every job has run exactly once."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from bench.measure.drain import check
from bench.peers.protocol import Tally
from bench.process import Peer, PeerError


def adapter(code: str) -> Peer:
    """A process that runs this."""
    return Peer([sys.executable, "-c", code], {"do": "nothing"})


def test_other_lines_are_passed_over() -> None:
    with adapter("""print("hello"); print('{"event": "ready"}')""") as peer:
        assert peer.need("ready", 30) == {"event": "ready"}


def test_an_adapter_that_dies_is_an_error_with_its_last_words() -> None:
    with adapter("raise SystemExit('no such table')") as peer, pytest.raises(PeerError, match="no such table"):
        peer.need("ready", 30)


def test_what_does_not_come_in_time_is_told_apart() -> None:
    with adapter("input()") as peer:
        assert peer.expect("handled", 0.05) is None
        peer.say("go")


def test_an_adapter_gets_its_spec_and_the_words_of_the_bench() -> None:
    code = """import sys; print('{"event": "ready", "spec": ' + sys.argv[1] + ', "word": "' + input() + '"}')"""
    with adapter(code) as peer:
        peer.say("go")
        assert peer.need("ready", 30) == {"event": "ready", "spec": {"do": "nothing"}, "word": "go"}


def word(count: int, twice: int = 0, foreign: int = 0) -> dict[str, Any]:
    """The last word of a worker."""
    return {"count": count, "twice": twice, "foreign": foreign}


def test_a_complete_run_counts() -> None:
    check([word(60), word(40)], 100, 100, complete=True)


@pytest.mark.parametrize(
    ("words", "ended", "complete"),
    [
        ([word(99)], 99, True),  # one is missing
        ([word(101, twice=1)], 100, True),  # one ran twice
        ([word(60), word(41)], 100, True),  # one ran in both processes
        ([word(100, foreign=1)], 100, True),  # one is none of ours
        ([word(100)], 99, True),  # one ran, and its outcome was not written
        ([word(50)], 51, False),  # of a run that was broken off what ran and what is written must agree too
    ],
)
def test_anything_else_does_not(words: list[dict[str, Any]], ended: int, complete: bool) -> None:
    with pytest.raises(PeerError):
        check(words, 100, ended, complete=complete)


def test_a_tally_sees_what_runs_twice_and_what_is_foreign(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally({"jobs": 3})
    for number in (0, 1, 1, 7):
        tally.begin(number)
    assert (tally.count, tally.twice, tally.foreign) == (4, 1, 1)
    told = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in told] == ['{"event": "first"', '{"event": "handled"']
