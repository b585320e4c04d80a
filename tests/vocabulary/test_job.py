"""Jobs: what the grammar refuses is refused before any SQL, by an error that names the field."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from brooq import AvailableAtError, IdempotencyKeyError, Job, JobError, State, Topic, TopicError


@pytest.mark.parametrize("name", ["a", "email", "email.send", "a-b.c-d", "v2.orders", "0", "a" * 128])
def test_topics_of_the_grammar_are_taken(name: str) -> None:
    assert Job(name).topic == name
    assert isinstance(Job(name).topic, Topic)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Email",
        "email_send",
        "email..send",
        ".email",
        "email.",
        "-a",
        "a-",
        "a b",
        "a\n",
        "\0",
        "почта",
        "a" * 129,
        "٣",
    ],
    ids=repr,
)
@pytest.mark.fault(21)
def test_other_topics_are_refused(name: str) -> None:
    """Fault 21: a topic too long for an index is refused here, not by the database."""
    with pytest.raises(TopicError, match="topic"):
        Job(name)


@pytest.mark.parametrize("name", [None, 1, b"email", ["a"]])
def test_a_topic_is_a_string(name: Any) -> None:
    with pytest.raises(TopicError, match="string"):
        Job(name)


@pytest.mark.parametrize("key", ["", " ", "order-42", "🔑" * 256, "k" * 1024])
def test_keys_of_up_to_1024_bytes_are_taken(key: str) -> None:
    assert Job("a", idempotency_key=key).idempotency_key == key


@pytest.mark.parametrize(
    "key", ["k" * 1025, "🔑" * 257, "k\0", "\0", "\ud800", "x" * 4000], ids=lambda key: repr(key)[:20]
)
@pytest.mark.fault(21)
def test_keys_that_the_index_could_not_hold_are_refused(key: str) -> None:
    """Fault 21: bytes count, not characters."""
    with pytest.raises(IdempotencyKeyError, match="idempotency_key"):
        Job("a", idempotency_key=key)


@pytest.mark.fault(46)
def test_naive_datetimes_are_refused() -> None:
    """Fault 46."""
    with pytest.raises(AvailableAtError, match="time zone"):
        Job("a", available_at=datetime(2027, 1, 1, 12))  # noqa: DTZ001  that is the point


@pytest.mark.parametrize(
    "moment",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
@pytest.mark.fault(46)
def test_datetimes_out_of_range_are_refused(moment: datetime) -> None:
    """Fault 46."""
    with pytest.raises(AvailableAtError, match="range"):
        Job("a", available_at=moment)


@pytest.mark.fault(46)
def test_aware_datetimes_are_taken_in_any_zone() -> None:
    """Fault 46: the repeated hour at the end of summer time included."""
    berlin = ZoneInfo("Europe/Berlin")
    first = Job("a", available_at=datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=0)).available_at
    second = Job("a", available_at=datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1)).available_at
    assert first is not None
    assert second is not None
    assert second.timestamp() - first.timestamp() == 3600


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": -1},
        {"priority": 10},
        {"max_attempts": 0},
        {"max_attempts": 2**31},
        {"tags": ("",)},
        {"tags": ("a\nb",)},
        {"tags": tuple(map(str, range(21)))},
        {"available_at": "tomorrow"},
        {"idempotency_key": 7},
    ],
    ids=repr,
)
def test_other_fields_are_checked_too(fields: dict[str, Any]) -> None:
    with pytest.raises(JobError):
        Job("a", **fields)


def test_jobs_have_an_id_from_the_start_and_ids_keep_the_order_of_making() -> None:
    ids = [Job("a").id for _ in range(1000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000


def test_three_states_are_terminal() -> None:
    assert {state for state in State if state.terminal} == {State.DONE, State.DEAD, State.CANCELED}
    assert [str(state) for state in State] == ["pending", "processing", "failed", "done", "dead", "canceled"]


FULL = Job(
    "email.send",
    {"a": [1]},
    "k",
    datetime(2027, 1, 1, tzinfo=UTC),
    3,
    7,
    ("x", "y"),
    {"tenant": 5},
    concurrency_key="c",
)


def test_a_job_is_a_frozen_dataclass_in_every_way() -> None:
    """Its constructor is written by hand; what a dataclass can do besides stays."""
    names = [each.name for each in dataclasses.fields(Job)]
    assert list(inspect.signature(Job).parameters) == names
    assert tuple(names) == Job.__match_args__
    assert dataclasses.asdict(FULL) == {name: getattr(FULL, name) for name in names}
    assert repr(FULL).startswith("Job(topic='email.send', payload={'a': [1]}, idempotency_key='k', available_at=")
    assert copy.copy(FULL) == copy.deepcopy(FULL) == pickle.loads(pickle.dumps(FULL)) == FULL  # noqa: S301  our own
    assert Job("a") != Job("a"), "ids differ"
    assert Job("a", id=FULL.id) == Job("a", id=FULL.id)
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.payload = None  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del FULL.id
    with pytest.raises((AttributeError, TypeError)):
        FULL.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Job("a", other=1)  # type: ignore[call-arg]


def test_a_changed_copy_of_a_job_is_checked_and_keeps_the_rest() -> None:
    changed = dataclasses.replace(FULL, topic="other", priority=4)
    assert (changed.topic, changed.priority, changed.id, changed.tags) == ("other", 4, FULL.id, FULL.tags)
    assert isinstance(changed.topic, Topic)
    with pytest.raises(TopicError):
        dataclasses.replace(FULL, topic="No")
    with pytest.raises(JobError):
        dataclasses.replace(FULL, priority=10)


def test_tags_are_a_tuple_whatever_they_were() -> None:
    tags: Any = ["x", "y"]
    assert Job("a", tags=tags).tags == ("x", "y")
    one: Any = "x"
    assert Job("a", tags=one).tags == ("x",)


def test_a_topic_of_a_subclass_of_str_is_checked_and_made_a_topic() -> None:
    class Name(str):
        __slots__ = ()

    assert type(Job(Name("a")).topic) is Topic
    with pytest.raises(TopicError):
        Job(Name("A"))
