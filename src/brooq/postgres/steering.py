"""What is set for topics: each change is written down, and valid for every claim once it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from brooq.postgres.record import utc
from brooq.postgres.session import Rows
from brooq.postgres.statement import Statements
from brooq.vocabulary.error import StoreBusy
from brooq.vocabulary.job import Topic
from brooq.vocabulary.message import text
from brooq.vocabulary.steering import Limits, TopicRecord

Ask: TypeAlias = "Callable[..., Awaitable[Rows]]"
"""Runs one statement as a transaction of its own: `ask(statement, *parameters)`."""

PATIENCE = 10.0
"""How many seconds a change waits for claims that began before it. A claim waits for a row a second at most."""

LOOK = 0.005
"""How many seconds lie between two looks at them, growing."""


async def pause(ask: Ask, statements: Statements, topic: str, by: str, reason: str | None) -> bool:
    """Pause a topic; whether this call did it. Once it is answered no claim takes from the topic.

    Raises StoreBusy when a claim from before did not end: the topic is paused all the same.
    """
    ((done,),) = await ask(statements.pause, Topic(topic), by, reason)
    await _until_seen(ask, statements, topic)
    return bool(done)


async def resume(ask: Ask, statements: Statements, topic: str, by: str, reason: str | None, *, wake: bool) -> bool:
    """End a pause; whether this call did it."""
    ((done,),) = await ask(statements.resume, Topic(topic), by, reason, wake)
    return bool(done)


async def limit(
    ask: Ask, statements: Statements, topic: str, limits: Limits | None, by: str, reason: str | None
) -> bool:
    """Set limits by hand, or hand them back; whether anything was set or handed back. Raises StoreBusy as `pause`."""
    if limits is None:
        rows = await ask(statements.unlimit, Topic(topic), by, reason)
    else:
        rows = await ask(statements.limit, Topic(topic), by, reason, json.dumps(limits.as_object()))
    await _until_seen(ask, statements, topic)
    return bool(rows[0][0])


async def declare(ask: Ask, statements: Statements, limits: Mapping[str, Limits | None]) -> None:
    """Write what code asks for. Claims that began before it are waited for when it has changed anything."""
    topics = sorted(limits)
    asked = [limits[topic] for topic in topics]
    objects = [None if each is None else json.dumps(each.as_object()) for each in asked]
    changed = await ask(statements.declare, topics, objects)
    if changed:
        await _until_seen(ask, statements, ", ".join(row[0] for row in changed))


async def topics(ask: Ask, statements: Statements) -> list[TopicRecord]:
    """What is set, by topic."""
    return [to_topic(row) for row in await ask(statements.topics)]


def to_topic(row: Sequence[Any]) -> TopicRecord:
    """A row of `topics.sql`."""
    topic, paused_at, paused_by, reason, max_running, max_running_per_key, ordered, rate, rate_period, limits_by = row
    limits = Limits(max_running, max_running_per_key, ordered, rate, rate_period)
    return TopicRecord(topic, None if paused_at is None else utc(paused_at), paused_by, reason, limits, limits_by)


async def _until_seen(ask: Ask, statements: Statements, topic: str) -> None:
    """Until every claim that may not have seen the last change has ended."""
    loop = asyncio.get_running_loop()
    deadline, wait = loop.time() + PATIENCE, LOOK
    left = {row[0] for row in await ask(statements.claims_under_way)}
    while left:
        if loop.time() >= deadline:
            raise StoreBusy(text("postgres.claims_under_way", topic=topic, seconds=PATIENCE))
        await asyncio.sleep(wait)
        wait = min(wait * 2, 0.1)
        left &= {row[0] for row in await ask(statements.claims_under_way)}
