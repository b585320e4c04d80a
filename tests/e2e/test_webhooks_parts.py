"""The parts of the demo that can be wrong on their own: its sample, its checks, its mail server."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from examples.webhooks.app import GONE, RECEIVED, SEND, compose, subject
from examples.webhooks.checks import CHECKS, judge
from examples.webhooks.deliveries import SAMPLE, read
from examples.webhooks.findings import Course, Findings, Row
from examples.webhooks.mail_server import SHARES, _choose
from examples.webhooks.sample import lines

from brooq import State


def test_the_shipped_sample_is_what_its_maker_makes() -> None:
    assert SAMPLE.read_text(encoding="utf-8") == "".join(lines())


def test_the_sample_is_varied() -> None:
    sizes = [len(line.encode()) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    events = {delivery.body["event"] for delivery in read(SAMPLE)}
    assert 300 <= len(sizes) <= 500
    assert min(sizes) >= 300
    assert 5_000 <= max(sizes) <= 10_000
    assert len(events) >= 8


def test_a_file_sent_again_has_the_same_keys_and_equal_lines_have_two() -> None:
    keys = [delivery.key for delivery in read(SAMPLE)]
    assert keys == [delivery.key for delivery in read(SAMPLE)]
    assert len(set(keys)) == len(keys)


def test_misdeeds_have_their_shares() -> None:
    chance = random.Random(1)
    counts = Counter(_choose(chance) for _ in range(20_000))
    for misdeed, share in SHARES.items():
        assert counts[misdeed] == pytest.approx(20_000 * share, rel=0.25)


@pytest.mark.parametrize("event", ["a\nBcc: all@example.org", "ы" * 500, "\x1b[31m", "", "   "])
def test_a_subject_is_one_line_whatever_the_sender_wrote(event: str) -> None:
    line = subject(7, {"event": event})
    mail = compose("id", {"to": "anna@example.org", "subject": line, "text": "x", "number": 7})
    assert mail["Subject"] == line
    assert mail["Bcc"] is None
    assert line.isprintable()
    assert len(line) < 110


def row(id: str, topic: str, state: State, **more: object) -> Row:
    """A job; its key is its number."""
    base = Row(id, topic, state, 1, 0, id[1:], None, "anna@example.org" if topic == SEND else None)
    return replace(base, **more)  # type: ignore[arg-type]


def sound() -> Findings:
    """Two deliveries, one of them refused; the worker died with one mail in its hands, which was sent twice."""
    rows = [
        row("r1", RECEIVED, State.DONE),
        row("r2", RECEIVED, State.DONE),
        row("m1", SEND, State.DONE, expired_leases=1),
        row("m2", SEND, State.DEAD, to=GONE, last_error="MustGiveUp: 550 5.1.1 no such mailbox"),
    ]
    course = Course(["1", "2"], created=2, killed_at=1, held=1)
    return Findings(course, rows, 1.0, mails=Counter({"m1": 2}))


def without(found: Findings, id: str) -> Findings:
    """One job less."""
    return replace(found, rows=[each for each in found.rows if each.id != id])


def changed(found: Findings, id: str, **more: object) -> Findings:
    """One job otherwise."""
    return replace(found, rows=[replace(each, **more) if each.id == id else each for each in found.rows])  # type: ignore[arg-type]


def created_again(found: Findings) -> Findings:
    """The second sending made a job."""
    return replace(found, course=replace(found.course, created_again=1))


BREAKS: dict[str, list[Callable[[Findings], Findings]]] = {
    "every delivery has exactly one row": [
        lambda found: replace(
            without(found, "r1"), rows=[each for each in without(found, "r1").rows if each.id != "m1"]
        ),
        lambda found: replace(found, rows=[*found.rows, row("r1", RECEIVED, State.DONE)]),
        lambda found: replace(found, rows=[*found.rows, row("r3", RECEIVED, State.DONE)]),
    ],
    "sending all of them a second time made no row": [created_again],
    "every delivery that is done has exactly one mail job": [
        lambda found: without(found, "m1"),
        lambda found: replace(found, rows=[*found.rows, row("m1", SEND, State.DONE)]),
        lambda found: changed(found, "r1", state=State.PENDING),
    ],
    "nothing is left in processing, pending or failed": [
        lambda found: changed(found, "m1", state=State.PROCESSING),
        lambda found: changed(found, "m1", state=State.FAILED),
        lambda found: changed(found, "m1", state=State.PENDING),
    ],
    "every job of the killed worker was taken up again": [
        lambda found: replace(found, course=replace(found.course, held=2)),
        lambda found: replace(found, course=replace(found.course, killed_at=None, keys=["1"] * 20)),
    ],
    "every mail that is done is in the mailbox": [lambda found: replace(found, mails=Counter())],
    "every duplicate has its cause: an answer lost, or a worker killed": [
        lambda found: replace(found, mails=Counter({"m1": 3})),
        lambda found: replace(found, mails=Counter({"m1": 1, "m9": 1})),
    ],
    "every mail refused for ever is dead, with the reason": [
        lambda found: changed(found, "m2", state=State.DONE),
        lambda found: changed(found, "m2", last_error="ConnectionError: lost"),
        lambda found: changed(found, "m2", last_error=None),
    ],
    "nothing else is dead or canceled": [
        lambda found: changed(found, "m1", state=State.DEAD),
        lambda found: changed(found, "m1", state=State.CANCELED),
    ],
}


def test_every_check_holds_when_all_is_well() -> None:
    assert [verdict for verdict in judge(sound()) if not verdict.ok] == []


@pytest.mark.parametrize("name", list(CHECKS))
def test_every_check_fails_when_what_it_guards_is_broken(name: str) -> None:
    for damage in BREAKS[name]:
        failed = [verdict.name for verdict in judge(damage(sound())) if not verdict.ok]
        assert name in failed


def test_a_lost_answer_explains_one_duplicate() -> None:
    found = replace(sound(), mails=Counter({"m1": 3}), lost_answers=Counter({"m1": 1}))
    assert [verdict for verdict in judge(found) if not verdict.ok] == []
