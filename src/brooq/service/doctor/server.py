"""Judges the server: what answers, what it keeps, and how one gets there."""

from __future__ import annotations

from collections.abc import Iterator

from brooq.postgres.examination import Connections, Examination
from brooq.postgres.pooler import Pooling
from brooq.service.doctor.finding import Finding, Rules, note, ok, wrong
from brooq.service.output import span

_OLDEST = 140000
_SKEW_NOTED, _SKEW_WRONG = 2.0, 30.0
_SHORT_STATEMENT = 5.0
"""An exchange may wait a second for a locked row, and a big migration takes its time."""
_CROWDED, _FULL = 0.8, 0.95
_WRAP_WRONG = 1_500_000_000
"""PostgreSQL stops writing at about 2,100,000,000."""


def server(found: Examination, _: Rules) -> Iterator[Finding]:
    """What answers, and whether it writes."""
    host = found.host
    if host.number < _OLDEST:
        yield wrong("server", "server_old", version=host.version)
    if host.standby:
        yield wrong("server", "server_standby")
    elif host.read_only == "on":
        yield wrong("server", "server_read_only", role=host.role, database=host.database)
    yield ok("server", version=host.version, database=host.database, role=host.role)


def durability(found: Examination, _: Rules) -> Iterator[Finding]:
    """What a crash leaves of what was acknowledged."""
    host = found.host
    if host.fsync == "off":
        yield wrong("durability", "fsync")
    if host.full_page_writes == "off":
        yield wrong("durability", "full_page_writes")
    if host.synchronous_commit in {"off", "local", "remote_write"}:
        yield note("durability", "synchronous_commit", value=host.synchronous_commit, role=host.role)
    yield ok("durability", commit=host.synchronous_commit)


def session(found: Examination, _: Rules) -> Iterator[Finding]:
    """What a session of this role begins with."""
    host = found.host
    if host.isolation != "read committed":
        yield note("session", "isolation", value=host.isolation, role=host.role)
    for name in ("statement_timeout", "transaction_timeout"):
        seconds = host.timeouts.get(name)
        if seconds is not None and seconds < _SHORT_STATEMENT:
            yield note("session", "timeout_short", setting=name, span=span(seconds), role=host.role)
    idle = host.timeouts.get("idle_session_timeout")
    if idle is not None:
        yield note("session", "timeout_idle", span=span(idle), role=host.role)
    yield ok("session")


def clock(found: Examination, _: Rules) -> Iterator[Finding]:
    """The two clocks; what cannot be told apart from a slow answer is no finding."""
    ahead = found.clock.ahead
    apart = max(abs(ahead) - found.clock.doubt, 0.0)
    name = "clock_ahead" if ahead > 0 else "clock_behind"
    if apart >= _SKEW_WRONG:
        yield wrong("clock", name, span=span(apart), seconds=round(ahead, 3))
    elif apart >= _SKEW_NOTED:
        yield note("clock", name, span=span(apart), seconds=round(ahead, 3))
    yield ok("clock", seconds=round(ahead, 3))


def pooler(found: Examination, rules: Rules) -> Iterator[Finding]:
    """How statements get to the server."""
    if found.pooling is Pooling.TRANSACTION and rules.prepared:
        yield wrong("pooler", "pooler_prepared")
    elif found.pooling in {Pooling.TRANSACTION, Pooling.TRANSACTION_PREPARED}:
        yield note("pooler", "pooler_transaction")
    elif found.pooling is Pooling.SESSION:
        yield note("pooler", "pooler_session")
    yield ok("pooler")


def connections(found: Examination, _: Rules) -> Iterator[Finding]:
    """How near the limits are."""
    if found.connections is None:
        return
    for name, used, limit in _limits(found.connections):
        if used >= limit * _FULL:
            yield wrong("connections", f"connections_{name}", used=used, limit=limit, of=_whose(found, name))
        elif used >= limit * _CROWDED:
            yield note("connections", f"connections_{name}", used=used, limit=limit, of=_whose(found, name))
    yield ok("connections", used=found.connections.server, limit=found.connections.server_limit)


def _limits(known: Connections) -> Iterator[tuple[str, int, int]]:
    yield "server", known.server, known.server_limit
    if known.database_limit is not None:
        yield "database", known.database, known.database_limit
    if known.role_limit is not None:
        yield "role", known.role, known.role_limit


def _whose(found: Examination, name: str) -> str:
    return {"database": found.host.database, "role": found.host.role}.get(name, "")


def wraparound(found: Examination, _: Rules) -> Iterator[Finding]:
    """How long ago the oldest row was frozen."""
    ages = [(found.host.database, found.host.oldest_transaction, found.host.freeze_at)]
    if found.table is not None:
        ages.append(("job", found.table.age, found.table.freeze_at))
    for name, age, freeze_at in ages:
        if age >= _WRAP_WRONG:
            yield wrong("wraparound", "wraparound", name=name, age=age, freeze_at=freeze_at)
        elif age > freeze_at * 1.5:
            yield note("wraparound", "wraparound", name=name, age=age, freeze_at=freeze_at)
    yield ok("wraparound", age=found.host.oldest_transaction)
