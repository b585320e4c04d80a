"""Why a job does not run: the cause that the facts come to, row by row, and its words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from brooq import State
from brooq.postgres.facts import FRESH, Deed, Facts, Seen
from brooq.service.explanation import Cause, explain
from brooq.service.explanation_text import headline, remarks, sentence

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
SOONER = NOW - timedelta(hours=1)
OTHER = UUID(int=8)


def seen(**changes: Any) -> Seen:
    values: dict[str, Any] = {
        "name": "w1", "host": "h", "pid": 1, "version": "1", "started_at": SOONER, "seen_at": NOW, "stopping": False,
        "slots": 2, "topics": ("email",), "busy": {},
    }  # fmt: skip
    return Seen(**(values | changes))


def facts(**changes: Any) -> Facts:
    """A job that nothing stands in the way of, with these changes."""
    values: dict[str, Any] = {
        "id": UUID(int=7), "topic": "email", "state": State.PENDING, "priority": 0, "attempts": 0, "max_attempts": None,
        "expired_leases": 0, "concurrency_key": "", "available_at": SOONER, "locked_by": None, "locked_until": None,
        "last_error": None, "failures": (), "retry_of": None, "created_at": SOONER, "updated_at": SOONER, "now": NOW,
        "workers": (seen(),),
    }  # fmt: skip
    return Facts(**(values | changes))


HELD: dict[str, Any] = {"state": State.PROCESSING, "locked_by": "w1", "attempts": 1}
PAUSED: dict[str, Any] = {"paused_at": SOONER, "paused_by": "ada"}
FULL = seen(busy={"email": 1, "sms": 1})


@pytest.mark.parametrize(
    ("changes", "cause", "also"),
    [
        ({}, Cause.NEXT, ()),
        ({"available_at": LATER}, Cause.NOT_DUE, ()),
        ({"available_at": LATER, "state": State.FAILED}, Cause.RETRY, ()),
        ({"state": State.FAILED}, Cause.NEXT, ()),
        (PAUSED, Cause.PAUSED, ()),
        (PAUSED | {"available_at": LATER}, Cause.NOT_DUE, (Cause.PAUSED,)),
        (PAUSED | {"workers": ()}, Cause.PAUSED, (Cause.NO_WORKER,)),
        ({"workers": ()}, Cause.NO_WORKER, ()),
        ({"workers": (seen(topics=("sms",)),)}, Cause.NO_WORKER, ()),
        ({"workers": (seen(stopping=True),)}, Cause.NO_WORKER, ()),
        ({"workers": (seen(seen_at=NOW - FRESH),)}, Cause.NEXT, ()),
        ({"workers": (seen(seen_at=NOW - FRESH * 1.01),)}, Cause.NO_WORKER, ()),
        ({"workers": (FULL,)}, Cause.BUSY, ()),
        ({"workers": (FULL, seen(name="w2"))}, Cause.NEXT, ()),
        ({"workers": (FULL, seen(name="w2", topics=("sms",)))}, Cause.BUSY, ()),
        ({"max_running": 2, "held": 1}, Cause.NEXT, ()),
        ({"max_running": 2, "held": 2}, Cause.LIMITED, ()),
        ({"max_running": 2, "held": 2, "workers": (FULL,)}, Cause.LIMITED, (Cause.BUSY,)),
        ({"max_running_per_key": 1, "held_of_key": 1, "concurrency_key": "k"}, Cause.KEY_LIMITED, ()),
        ({"max_running_per_key": 1, "held_of_key": 1, "concurrency_key": ""}, Cause.NEXT, ()),
        ({"max_running_per_key": 1, "held_of_key": 0, "concurrency_key": "k"}, Cause.NEXT, ()),
        ({"behind": OTHER, "concurrency_key": "k"}, Cause.BEHIND, ()),
        ({"rate": 5, "rate_period": 60.0, "tokens": 0.5}, Cause.RATE_LIMITED, ()),
        ({"rate": 5, "rate_period": 60.0, "tokens": 1.0}, Cause.NEXT, ()),
        (HELD | {"locked_until": LATER}, Cause.RUNNING, ()),
        (HELD | {"locked_until": NOW}, Cause.RUNNING, ()),
        (HELD | {"locked_until": SOONER}, Cause.EXPIRED, ()),
        (HELD | PAUSED | {"locked_until": LATER, "workers": ()}, Cause.RUNNING, ()),
        ({"state": State.DONE, "workers": ()}, Cause.DONE, ()),
        (PAUSED | {"state": State.DEAD}, Cause.DEAD, ()),
        ({"state": State.CANCELED, "available_at": LATER}, Cause.CANCELED, ()),
    ],
)
def test_the_facts_come_to_one_cause(changes: dict[str, Any], cause: Cause, also: tuple[Cause, ...]) -> None:
    found = explain(facts(**changes))
    assert (found.cause, found.also) == (cause, also)


@pytest.mark.parametrize(
    ("changes", "starts_at"),
    [
        ({}, NOW),
        ({"before": 9}, None),
        ({"before": 9, "ended_per_second": 2.0}, NOW + timedelta(seconds=5)),
        ({"before": 9, "ended_per_second": 2.0, "workers": (FULL,)}, NOW + timedelta(seconds=5)),
        ({"before": 9, "ended_per_second": 2.0, "rate": 1, "rate_period": 10.0}, NOW + timedelta(seconds=100)),
        ({"before": 10_000, "ended_per_second": 1e-12}, None),
        ({"workers": (FULL,)}, None),
        ({"workers": (), "ended_per_second": 2.0}, None),
        (PAUSED | {"ended_per_second": 2.0}, None),
        ({"available_at": LATER, "before": 9, "ended_per_second": 2.0}, LATER),
        ({"available_at": LATER, "workers": ()}, None),
    ],
)  # fmt: skip
def test_the_start_is_estimated_where_something_says_so(changes: dict[str, Any], starts_at: datetime | None) -> None:
    assert explain(facts(**changes)).starts_at == starts_at


CANCEL = Deed(SOONER, "ada", "cancel", True, "asked for", None)
RETRY = Deed(NOW, "eve", "retry", True, None, OTHER)


def told(lease: float = 120, **changes: Any) -> str:
    """All that is said."""
    known = facts(**changes)
    found = explain(known)
    first = f"{headline(found)} {sentence(found.cause, known)}"
    return "\n".join([first, *remarks(known, found, timedelta(seconds=lease))])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (PAUSED | {"pause_reason": "moving house"}, ["by ada: moving house", "brooq resume email"]),
        ({"workers": (seen(topics=("emial",)),)}, ["w1, there: emial", "the topic emial: was that meant?"]),
        ({"workers": (seen(seen_at=SOONER),)}, ["w1, last heard of 1h ago: email"]),
        ({"workers": (seen(stopping=True),)}, ["w1, stopping: email"]),
        ({"workers": tuple(seen(name=f"w{n}", topics=()) for n in range(12))}, ["w9, there: -", "and 2 more"]),
        ({"workers": (FULL,), "before": 3}, ["all 2 slots", "ahead of it in its topic: 3", "cannot be told"]),
        ({"before": 10_000, "before_exact": False, "ended_per_second": 100.0}, ["more than 10000", "(in 1m40s)"]),
        (HELD | {"locked_until": NOW + timedelta(seconds=90)}, ["held by w1", "last renewal about", "(30s ago)"]),
        (HELD | {"locked_until": SOONER, "workers": ()}, ["ran out", "no worker is there whose reaper"]),
        ({"state": State.DEAD, "attempts": 5, "max_attempts": 5}, ["all 5 attempts", "brooq retry 0000"]),
        ({"state": State.DEAD, "attempts": 2}, ["after attempt 2: its handler gave it up, or"]),
        ({"state": State.DEAD, "attempts": 2, "last_error": "MustGiveUp: no"}, ["its handler gave it up at attempt 2"]),
        ({"state": State.DEAD, "deeds": (RETRY,)}, [f"done again as job {OTHER}, by eve"]),
        ({"state": State.CANCELED, "deeds": (CANCEL,)}, ["by ada: asked for"]),
        ({"state": State.CANCELED, "deeds": None}, ["canceled at"]),
        ({"expired_leases": 3, "retry_of": OTHER}, ["3 leases of it have run out", f"it repeats job {OTHER}"]),
    ],
)  # fmt: skip
def test_the_words_say_who_when_and_what_to_do(changes: dict[str, Any], parts: list[str]) -> None:
    for part in parts:
        assert part in told(**changes)


def test_a_lease_of_another_length_tells_of_no_renewal() -> None:
    held = HELD | {"locked_until": NOW + timedelta(seconds=90), "updated_at": NOW - timedelta(seconds=10)}
    assert "last renewal" in told(lease=95, **held)
    assert "last renewal" not in told(lease=60, **held)
    assert "last renewal" not in told(lease=3600, **held)


def test_hostile_names_stay_on_their_line() -> None:
    hostile = seen(name="w\x1b[31m\n", topics=())
    assert "\x1b" not in told(workers=(hostile,))
    assert "\x1b" not in told(paused_at=SOONER, paused_by="a\x1b]0;x", pause_reason="b\x1b")


def test_every_cause_has_its_sentence() -> None:
    for cause in Cause:
        said = sentence(cause, facts(locked_until=NOW, behind=OTHER, rate=1, max_running=1, max_running_per_key=1))
        assert said
        assert "None" not in said
