"""Judges what becomes of dead rows: who holds them back, whether anybody cleans, and what indexes have grown to."""

from __future__ import annotations

from collections.abc import Iterator

from brooq.postgres.examination import Examination, Index, Pin
from brooq.service.doctor.finding import Finding, Rules, note, ok, wrong
from brooq.service.doctor.outline import outline
from brooq.service.output import size, span

INDEXES = frozenset({"job_pkey", "job_ready", "job_held", "job_key", "job_terminal", "job_unsuccessful", "job_line"})
"""What the migrations make; a statement whose index is gone walks the table."""

AGE_NOTED, AGE_WRONG = 100_000, 10_000_000
"""In transactions, for pins of which nobody says since when."""
_DEAD_LEAST, _DEAD_TIMES = 10_000, 5
_BLOAT_LEAST, _BLOAT_TIMES = 8 * 1024 * 1024, 4
# Of a B-tree: what an entry has beside its values, what a page has room for, and how full a page is made.
_ENTRY, _PAGE, _FILL, _ALIGNMENT = 12, 8192 - 40, 0.9, 8


def horizon(found: Examination, rules: Rules) -> Iterator[Finding]:
    """Who keeps dead rows from being cleaned away."""
    for pin in found.pins or ():
        yield from _PINS[pin.kind](pin, rules)
    if not found.host.sees_all:
        yield note("horizon", "horizon_blind", role=found.host.role)
    if found.pins is not None:
        yield ok("horizon", span=span(rules.patience.total_seconds()))


def _session(pin: Pin, rules: Rules) -> Iterator[Finding]:
    seconds, patience = pin.seconds or 0.0, rules.patience.total_seconds()
    if seconds < patience:
        return
    severe = seconds >= 10 * patience or (pin.age or 0) >= AGE_WRONG
    yield (wrong if severe else note)(
        "horizon", "horizon_session", pid=pin.pid, name=pin.name or "-", owner=pin.owner or "-", state=pin.state or "-",
        address=pin.address or "-", span=span(seconds), age=pin.age, statement=outline(pin.statement or "") or "-",
    )  # fmt: skip


def _prepared(pin: Pin, rules: Rules) -> Iterator[Finding]:
    # Nobody has it open: it outlives its session and the server, so nothing but a person ends it.
    if (pin.seconds or 0.0) >= rules.patience.total_seconds():
        values = {"name": pin.name, "owner": pin.owner or "-", "span": span(pin.seconds or 0.0), "age": pin.age}
        yield wrong("horizon", "horizon_prepared", **values)


def _slot(pin: Pin, _: Rules) -> Iterator[Finding]:
    retained = size(pin.retained or 0)
    if not pin.active:
        yield wrong("horizon", "horizon_slot_idle", name=pin.name, age=pin.age or 0, retained=retained)
    elif (pin.age or 0) >= AGE_NOTED:
        severe = (pin.age or 0) >= AGE_WRONG
        yield (wrong if severe else note)("horizon", "horizon_slot", name=pin.name, age=pin.age, retained=retained)


def _standby(pin: Pin, _: Rules) -> Iterator[Finding]:
    if (pin.age or 0) >= AGE_NOTED:
        severe = (pin.age or 0) >= AGE_WRONG
        yield (wrong if severe else note)(
            "horizon", "horizon_standby", name=pin.name or "-", address=pin.address or "-", pid=pin.pid, age=pin.age
        )


_PINS = {"session": _session, "prepared": _prepared, "slot": _slot, "standby": _standby}


def vacuum(found: Examination, _: Rules) -> Iterator[Finding]:
    """Whether dead rows are cleaned away."""
    table = found.table
    if found.host.autovacuum == "off":
        yield wrong("vacuum", "autovacuum_off")
    if found.host.track_counts == "off":
        yield wrong("vacuum", "track_counts_off")
    if table is None:
        return
    if not table.enabled:
        yield wrong("vacuum", "autovacuum_table_off")
    if table.dead > max(_DEAD_LEAST, _DEAD_TIMES * table.cleaned_from):
        values = {"dead": table.dead, "live": table.live, "cleaned_from": round(table.cleaned_from)}
        yield (
            note("vacuum", "dead_rows_cleaning", **values)
            if table.being_cleaned
            else wrong("vacuum", "dead_rows", **values)
        )
    yield ok("vacuum", dead=table.dead, live=table.live, size=size(table.bytes))


def indexes(found: Examination, _: Rules) -> Iterator[Finding]:
    """Whether the indexes are there, can be used, and have a sensible size."""
    if found.indexes is None:
        return
    for name in sorted(INDEXES - {each.name for each in found.indexes}):
        yield wrong("indexes", "index_missing", name=name)
    for each in found.indexes:
        if not each.valid:
            yield wrong("indexes", "index_invalid" if each.name in INDEXES else "index_foreign_invalid", name=each.name)
            continue
        usual = usual_size(each)
        if usual is not None and each.bytes > max(_BLOAT_LEAST, _BLOAT_TIMES * usual):
            values = {"name": each.name, "size": size(each.bytes), "usual": size(usual)}
            yield note("indexes", "index_bloat", **values, bytes=each.bytes, usual_bytes=usual)
    yield ok("indexes", size=size(sum(each.bytes for each in found.indexes)))


def usual_size(index: Index) -> int | None:
    """About how large an index of so many entries would be if it were made anew; None: there are no statistics yet.

    Rough, since widths are averages: a factor, not a percentage, can be told by it.
    """
    if index.rows < 0:
        return None
    width = -(-(index.width + _ENTRY) // _ALIGNMENT) * _ALIGNMENT
    pages = 2 + index.rows * width / (_PAGE * _FILL)
    return int(pages * 8192)
