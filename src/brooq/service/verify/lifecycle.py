"""The promises of one job, read off its own history, line by line. Pure: lines in, violations out."""

from __future__ import annotations

from collections.abc import Mapping

from brooq.postgres.audit.history import EFFECT, NOW, Change, Version, after, before, moment
from brooq.service.verify.ledger import Ledger
from brooq.service.verify.life import HELD, TERMINAL, WAITING, Life, Rules, told
from brooq.service.verify.logs import Run
from brooq.service.verify.outcome import check_leaving
from brooq.service.verify.whole import check_whole


def read(job: str, lines: list[Change], runs: Mapping[int, Run] | None, rules: Rules, ledger: Ledger) -> Life:
    """Go through a job's lines, and look at the whole at the end."""
    life = Life(job, runs, rules)
    for line in lines:
        op = line.op
        if op == "UPDATE":
            _update(life, line, ledger)
        elif op == "INSERT":
            _insert(life, line, ledger)
        elif op == "DELETE":
            _delete(life, line, ledger)
        elif op == EFFECT:
            life.effects.append(int(line.claim_seq or 0))
        elif op == NOW:
            life.row = line
    check_whole(life, lines, ledger)
    return life


def _insert(life: Life, line: Change, ledger: Ledger) -> None:
    ledger.checked["C7"] += 1
    if life.version is not None:
        ledger.violate("C8", life.job, "verify.inserted_twice", line.at)
    if (line.state, line.claim_seq, line.attempts, line.locked_by) != ("pending", "0", "0", None):
        ledger.violate("C7", life.job, "verify.made_as", line.at, state=line.state, attempts=line.attempts)
    life.made, life.gone, life.endings, life.version = True, False, 0, after(line)


def _delete(life: Life, line: Change, ledger: Ledger) -> None:
    _follow(life, before(line), line, ledger)
    ledger.checked["C5"] += 1
    if line.old_state not in TERMINAL:
        ledger.violate("C5", life.job, "verify.deleted_alive", line.at, state=line.old_state)
    elif life.rules.ttl and line.old_updated_at is not None:
        age = (moment(line.at) - moment(line.old_updated_at)).total_seconds()
        if age < life.rules.ttl:
            ledger.violate("C5", life.job, "verify.deleted_young", line.at, age=age, ttl=life.rules.ttl)
    life.gone, life.version = True, None


def _follow(life: Life, old: Version, line: Change, ledger: Ledger) -> None:
    """The version before is the one that the audit saw last; the first one may be older than the audit."""
    ledger.checked["C8"] += 1
    if life.version is None:
        if life.made or life.gone:
            ledger.violate("C8", life.job, "verify.changed_after_delete", line.at)
    elif life.version != old:
        ledger.violate("C8", life.job, "verify.round_the_audit", line.at, old=told(life.version), new=told(old))


def _update(life: Life, line: Change, ledger: Ledger) -> None:
    old, new = before(line), after(line)
    _follow(life, old, line, ledger)
    life.version = new
    checked = ledger.checked
    checked["C5"] += 1
    checked["C7"] += 1
    checked["C12"] += 1
    if (line.locked_by is None) != (line.locked_until is None) or (
        line.state not in TERMINAL and (line.state == HELD) != (line.locked_by is not None)
    ):
        ledger.violate(
            "C12",
            life.job,
            "verify.lease_shape",
            line.at,
            state=line.state,
            owner=line.locked_by,
            until=line.locked_until,
        )
    if line.old_state == HELD:
        if line.state == HELD:
            _renewed(life, line, ledger)
        else:
            check_leaving(life, line, ledger)
    elif line.old_state in WAITING:
        if line.state == HELD:
            _claimed(life, line, ledger)
        else:
            _moved(life, line, ledger)
    elif old != new:
        ledger.violate("C5", life.job, "verify.overwritten", line.at, old=line.old_state, new=line.state)
    if line.state in TERMINAL and line.old_state != line.state:
        life.endings += 1


def _claimed(life: Life, line: Change, ledger: Ledger) -> None:
    checked, job, at = ledger.checked, life.job, line.at
    checked["C3"] += 1
    checked["C4"] += 1
    checked["C9"] += 1
    checked["C15"] += 1
    token = int(line.claim_seq or 0)
    life.entered.add(token)
    if token != int(line.old_claim_seq or 0) + 1:
        ledger.violate("C4", job, "verify.fence_at_claim", at, old=line.old_claim_seq, new=token)
    if int(line.attempts or 0) != int(line.old_attempts or 0) + 1:
        ledger.violate("C9", job, "verify.attempts_at_claim", at, old=line.old_attempts, new=line.attempts)
    if line.old_available_at is not None and line.old_available_at > at:
        ledger.violate("C15", job, "verify.claimed_early", at, ready=line.old_available_at)


def _renewed(life: Life, line: Change, ledger: Ledger) -> None:
    job, at = life.job, line.at
    ledger.checked["C3"] += 1
    if (line.old_claim_seq, line.old_locked_by) != (line.claim_seq, line.locked_by):
        ledger.violate("C3", job, "verify.taken_twice", at, old=line.old_locked_by, new=line.locked_by)
        life.entered.add(int(line.claim_seq or 0))
        if line.old_claim_seq == line.claim_seq:
            ledger.violate("C4", job, "verify.same_fence", at, token=line.claim_seq)
        return
    if (line.locked_until or "") < (line.old_locked_until or ""):
        ledger.violate("C12", job, "verify.lease_shortened", at, old=line.old_locked_until, new=line.locked_until)
    if line.old_attempts != line.attempts:
        ledger.violate("C9", job, "verify.attempts_while_held", at, old=line.old_attempts, new=line.attempts)


def _moved(life: Life, line: Change, ledger: Ledger) -> None:
    """While it waits a job is canceled, or somebody changes when it is ready."""
    if line.state not in {"canceled", line.old_state}:
        ledger.violate("C7", life.job, "verify.became", line.at, old=line.old_state, new=line.state)
    ledger.checked["C9"] += 1
    if line.old_attempts != line.attempts:
        ledger.violate(
            "C9", life.job, "verify.attempts_while_waiting", line.at, old=line.old_attempts, new=line.attempts
        )
    if line.old_claim_seq != line.claim_seq:
        ledger.violate(
            "C4", life.job, "verify.fence_without_claim", line.at, old=line.old_claim_seq, new=line.claim_seq
        )
