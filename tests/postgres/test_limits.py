"""Limits of size and depth: in the library with words, and in the schema for everybody else who inserts (S14)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest
from tests.postgres.observer import Observer, Opened

from brooq import Claim, Config, IdempotencyKeyError, Job, JobError, PayloadError, Queue, TopicError
from brooq.engine.reason import MAX_BYTES as MAX_ERROR
from brooq.postgres.enqueue import prepare
from brooq.vocabulary.job import MAX_KEY_BYTES, MAX_TAG, MAX_TAGS, MAX_TOPIC
from brooq.vocabulary.payload import MAX_BYTES, MAX_DEPTH, encode

pytestmark = pytest.mark.security("S14")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ({"payload": "x" * (MAX_BYTES - 1)}, PayloadError),
        ({"payload": b" " * (MAX_BYTES + 1)}, PayloadError),
        ({"payload": nested(MAX_DEPTH + 1)}, PayloadError),
        ({"payload": json.dumps(nested(900)).encode()}, PayloadError),
        ({"payload": b"[" * 100_000}, PayloadError),
        ({"metadata": {"a": "x" * MAX_BYTES}}, JobError),
        ({"metadata": {"a": nested(MAX_DEPTH)}}, JobError),
        ({"idempotency_key": "x" * (MAX_KEY_BYTES + 1)}, IdempotencyKeyError),
        ({"idempotency_key": "я" * (MAX_KEY_BYTES // 2 + 1)}, IdempotencyKeyError),
        ({"topic": "x" * (MAX_TOPIC + 1)}, TopicError),
        ({"tags": ("x",) * (MAX_TAGS + 1)}, JobError),
        ({"tags": ("x" * (MAX_TAG + 1),)}, JobError),
    ],
)
def test_the_library_refuses_it_before_any_sql(job: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        prepare([Job(**{"topic": "t", **job})], MAX_BYTES)


async def test_the_largest_that_the_library_lets_pass_is_not_refused_by_the_schema(
    dsn: str, observer: Observer
) -> None:
    """Each at its limit, in the shape that takes most room as jsonb, and through a whole life."""
    largest = [1] * ((MAX_BYTES - 1) // 2)
    assert len(encode(largest)) in {MAX_BYTES, MAX_BYTES - 1}
    async with Opened(dsn) as store:
        job = Job(
            "x" * MAX_TOPIC, largest, "я" * (MAX_KEY_BYTES // 2), tags=("я" * MAX_TAG,) * MAX_TAGS, max_attempts=1,
            metadata={"a": [1] * (MAX_BYTES // 2 - 10)},
        )  # fmt: skip
        queue = Queue(store, Config(poll_interval=0.05), name="n" * 500)

        async def fail(claim: Claim) -> None:
            raise ValueError("я" * MAX_ERROR)

        queue.register_kind("x" * MAX_TOPIC, fail)
        await queue.enqueue(job)
        async with queue:
            await observer.until(lambda: observer.value("select state from job") == "dead")
    assert MAX_ERROR - 3 <= observer.value("select octet_length(last_error) from job") <= MAX_ERROR


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ("payload) values ('t', to_jsonb(repeat(md5('a'), 600000)))", "job_payload_size_check"),
        ("metadata) values ('t', to_jsonb(repeat('x', 17000000)))", "job_metadata_size_check"),
        ("tags) values ('t', array_fill('x'::text, array[21]))", "job_tags_size_check"),
        ("tags) values ('t', array[repeat(md5('a'), 600)])", "job_tags_size_check"),
        ("last_error) values ('t', repeat('x', 4097))", "job_last_error_size_check"),
        (
            "state, locked_by, locked_until) values ('t', 'processing', repeat('x', 513), now())",
            "job_locked_by_size_check",
        ),
        ("idempotency_key) values ('t', repeat('x', 1025))", "job_key_check"),
        ("idempotency_key) values ('t', '')", "job_key_check"),
    ],
)
def test_the_schema_refuses_it_from_everybody(columns: str, constraint: str, observer: Observer) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught, psycopg.connect(observer.dsn) as connection:
        connection.execute(f"insert into job (topic, {columns}".encode())
    assert caught.value.diag.constraint_name == constraint


def test_the_limits_of_both_are_the_same_where_they_can_be(observer: Observer) -> None:
    rows = observer.run("select conname, pg_get_constraintdef(oid) from pg_constraint where conname like 'job%'")
    definitions = {str(name): str(text) for name, text in rows}
    for name, limit in (
        ("job_topic_check", MAX_TOPIC), ("job_key_check", MAX_KEY_BYTES), ("job_last_error_size_check", MAX_ERROR),
        ("job_tags_size_check", MAX_TAGS),
    ):  # fmt: skip
        assert str(limit) in definitions[name], definitions[name]


def test_the_size_of_a_large_payload_is_not_computed_at_every_update(observer: Observer) -> None:
    """What is asked of a stored value is its stored size: smaller than the value by far, so it was not unpacked."""
    observer.run("insert into job (topic, payload) values ('t', to_jsonb(repeat('x', 15000000)))")
    assert observer.value("select pg_column_size(payload) < 1000000 from job")
    observer.run("update job set updated_at = now()")


async def test_a_payload_too_deep_for_python_costs_its_own_job_alone(dsn: str, observer: Observer) -> None:
    """The schema cannot ask for depth. The handler's side can, and it is a failure of that job."""
    deep = "[" * 3000 + "]" * 3000
    observer.run("insert into job (topic, payload, max_attempts) values ('t', %s::jsonb, 1), ('t', '1', 1)", deep)
    async with Opened(dsn) as store:
        queue = Queue(store, Config(poll_interval=0.05))

        async def handle(claim: Claim) -> None:
            assert claim.payload == 1

        queue.register_kind("t", handle)
        async with queue, asyncio.timeout(30):
            await observer.until(
                lambda: observer.value("select count(*) from job where state in ('done', 'dead')") == 2
            )
    rows = observer.run("select state, last_error is not null from job order by state")
    assert rows == [("dead", True), ("done", False)]
