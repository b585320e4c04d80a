"""What only the whole history of a job tells."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from brooq.postgres.audit.history import Change, after, moment
from brooq.service.verify.ledger import Ledger
from brooq.service.verify.life import HELD, TERMINAL, Life, told
from brooq.service.verify.logs import Run


def check_whole(life: Life, lines: list[Change], ledger: Ledger) -> None:
    """What only the whole history tells."""
    checked, job, row = ledger.checked, life.job, life.row
    checked["C6"] += 1
    if life.endings > 1:
        ledger.violate("C6", job, "verify.endings", lines[-1].at, count=life.endings)
    checked["C8"] += 1
    if row is None:
        if life.version is not None:
            ledger.violate("C8", job, "verify.gone", version=told(life.version))
    elif life.version is None:
        if life.gone:
            ledger.violate("C8", job, "verify.there_again")
    elif life.version != after(row):
        ledger.violate("C8", job, "verify.round_the_audit", old=told(life.version), new=told(after(row)))
    if row is not None:
        checked["C16"] += 1
        if row.state == HELD and row.locked_until is not None and row.locked_until < row.at:
            over = (moment(row.at) - moment(row.locked_until)).total_seconds()
            if over > life.rules.slack:
                ledger.violate("C16", job, "verify.not_reaped", seconds=over)
        if life.rules.drained and row.state not in TERMINAL:
            ledger.violate("C16", job, "verify.not_ended", state=row.state)
    _effects(life, ledger)
    if life.runs is not None:
        _answers(life, life.runs, ledger)


def _effects(life: Life, ledger: Ledger) -> None:
    """What committed with the outcome: once, by the claim that closed the job."""
    run = None if life.runs is None or life.done_by is None else life.runs.get(life.done_by)
    if not life.effects and not (run and run.effects):
        return
    ledger.checked["C11"] += 1
    count = 1 if run is None else run.effects
    expected = [] if life.done_by is None else [life.done_by] * count
    if life.effects != expected:
        ledger.violate("C11", life.job, "verify.effects", found=life.effects, expected=expected)


def _answers(life: Life, runs: Mapping[int, Run], ledger: Ledger) -> None:
    """What the engine was told is what was written."""
    job = life.job
    left = {(token, state) for token, state, _ in life.left}
    lost = dict(life.lost)
    owners: list[tuple[float, float]] = []
    for token, run in runs.items():
        ledger.checked["C4"] += len(run.told) + run.claimed
        if run.claimed and token not in life.entered and life.made:
            ledger.violate("C4", job, "verify.claim_not_written", token=token)
        for state in run.told:
            if (token, state) not in left and life.made:
                ledger.violate("C4", job, "verify.outcome_not_written", token=token, state=state)
        ledger.checked["C3"] += bool(run.starts)
        if len(run.starts) > 1:
            ledger.violate("C3", job, "verify.run_twice", token=token, count=len(run.starts))
        if run.starts and run.ended is not None:
            owners.append((run.starts[0], run.ended))
            if token in lost and run.ended > moment(lost[token]).timestamp():
                ledger.counted["zombies"] += 1
    owners.sort()
    for (_, end), (start, _) in pairwise(owners):
        ledger.counted["overlapping_runs"] += start < end
