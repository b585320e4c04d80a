"""Judges the schema, what the role may do with it, and what has become of jobs and workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from brooq.postgres.examination import Examination, Granted
from brooq.service.doctor.finding import Finding, Rules, note, ok, wrong
from brooq.service.output import ago, span

_KEYS = {"producer": "insert", "worker": "update", "janitor": "delete"}
"""Whoever may do this to jobs is meant to be that part."""
_NAMED = 8


def schema(found: Examination, rules: Rules) -> Iterator[Finding]:
    """Whether the tables are there, and those that this brooq knows."""
    place, values = found.place, {"schema": rules.schema, "role": found.host.role}
    if not place.there or (place.open and not place.complete):
        yield wrong("schema", "schema_missing", **values)
    elif not place.open:
        yield wrong("schema", "schema_closed", **values)
    elif place.version is not None and place.version != rules.version:
        name = "schema_old" if place.version < rules.version else "schema_new"
        yield wrong("schema", name, **values, version=place.version, needed=rules.version)
    elif place.version is not None:
        yield ok("schema", **values, version=place.version)


def rights(found: Examination, rules: Rules) -> Iterator[Finding]:
    """Whether the role may do what it is there for: all of a part, or nothing of it."""
    if found.granted is None:
        return
    parts: defaultdict[str, list[Granted]] = defaultdict(list)
    for each in found.granted:
        parts[each.right.part].append(each)
    able = sorted(part for part, rights in parts.items() if all(each.granted for each in rights))
    for part, privilege in _KEYS.items():
        lacking = [each for each in parts[part] if not each.granted]
        if (
            lacking
            and any(each.granted and _is_key(each, privilege) for each in parts[part])
            and not _spared(part, able)
        ):
            yield wrong("rights", "rights_half", role=found.host.role, part=part, missing=_told(lacking))
    if not able:
        lacking = [each for each in parts["worker"] if not each.granted]
        yield wrong("rights", "rights_none", role=found.host.role, missing=_told(lacking))
    elif "worker" in able and "janitor" not in able and rules.retention:
        yield note("rights", "rights_retention", role=found.host.role)
    yield ok("rights", role=found.host.role, parts=", ".join(able))


def _is_key(each: Granted, privilege: str) -> bool:
    return each.right.table == "job" and each.right.privilege == privilege


def _spared(part: str, able: Sequence[str]) -> bool:
    # A janitor may update a column too, to lock what it deletes.
    return part == "worker" and "janitor" in able


def _told(lacking: Sequence[Granted]) -> str:
    grouped: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in lacking:
        grouped[each.right.privilege, each.right.table].append(each.right.column or "")
    told = []
    for (privilege, table), columns in grouped.items():
        named = f" ({', '.join(columns)})" if all(columns) else ""
        told.append(f"{privilege}{named} on {table}")
    return ", ".join(told[:_NAMED]) + (", …" if len(told) > _NAMED else "")


def jobs(found: Examination, rules: Rules) -> Iterator[Finding]:
    """Jobs that kill their workers, and leases that nobody takes back."""
    if found.suspects is None:
        return
    for each in found.suspects:
        if each.kind == "pill":
            yield wrong("jobs", "pill", id=each.id, topic=each.topic, attempts=each.attempts)
    patience = rules.patience.total_seconds()
    expired = [each for each in found.suspects if each.kind == "expired" and (each.seconds or 0.0) >= patience]
    if expired:
        oldest = max(each.seconds or 0.0 for each in expired)
        yield wrong("jobs", "expired_leases", count=len(expired), span=span(oldest), id=expired[0].id)
    yield ok("jobs")


def workers(found: Examination, rules: Rules) -> Iterator[Finding]:
    """Whether anybody works, and on every topic in which jobs wait."""
    if found.workers is None or found.topics is None:
        return
    there = [each for each in found.workers if each.there(found.at)]
    known = {topic for each in there for topic in each.topics}
    patience = rules.patience.total_seconds()
    for topic, seconds in found.topics:
        if topic not in known and seconds >= patience:
            yield wrong("workers", "topic_abandoned", topic=topic, span=span(seconds))
    for each in found.workers:
        if not each.there(found.at):
            values = {"name": each.name, "host": each.host, "pid": each.pid, "span": ago(found.at, each.seen_at)}
            yield note("workers", "worker_silent", **values)
    if not there and not found.workers:
        yield note("workers", "workers_none")
    yield ok("workers", count=len(there))
