"""How a claim came to its end: by an outcome, by the reaper, handed back, or canceled."""

from __future__ import annotations

from brooq.postgres.audit.history import Change, moment
from brooq.service.verify.ledger import Ledger
from brooq.service.verify.life import Life
from brooq.service.verify.logs import RETURNED


def check_leaving(life: Life, line: Change, ledger: Ledger) -> None:
    """Out of `processing`: by an outcome, by the reaper, handed back, or canceled."""
    checked, job, at = ledger.checked, life.job, line.at
    checked["C4"] += 1
    checked["C9"] += 1
    if line.old_claim_seq != line.claim_seq:
        ledger.violate("C4", job, "verify.fence_without_claim", at, old=line.old_claim_seq, new=line.claim_seq)
    token, grown = int(line.old_claim_seq or 0), int(line.attempts or 0) - int(line.old_attempts or 0)
    if int(line.attempts or 0) < 0:
        ledger.violate("C9", job, "verify.attempts_below_zero", at, attempts=line.attempts)
    if line.state == "pending":
        if line.expired == "1":
            life.lost.append((token, at))
            _reaped(life, line, grown, ledger)
        elif grown != -min(1, int(line.old_attempts or 0)):
            ledger.violate("C9", job, "verify.handed_back_wrong", at, grown=grown)
        else:
            ledger.counted["handed_back"] += 1
        return
    if line.state not in {"done", "dead", "failed", "canceled"}:
        ledger.violate("C7", job, "verify.became", at, old=line.old_state, new=line.state)
        return
    life.left.append((token, str(line.state), at))
    if line.expired != "0":
        ledger.violate("C9", job, "verify.expired_by_outcome", at, expired=line.expired)
    if line.state == "done":
        life.done_by = token
    refund = line.state == "failed" and grown == -min(1, int(line.old_attempts or 0)) and grown != 0
    if grown and not refund:
        ledger.violate("C9", job, "verify.attempts_at_outcome", at, grown=grown, state=line.state)
    if line.state in {"dead", "failed"} and line.has_error != "t":
        ledger.violate("C9", job, "verify.no_reason", at, state=line.state)
    if life.runs is not None:
        _outcome(life, str(line.state), token, int(line.old_attempts or 0), refund, at, ledger)


def _reaped(life: Life, line: Change, grown: int, ledger: Ledger) -> None:
    ledger.checked["C12"] += 1
    ledger.checked["C16"] += 1
    if line.old_locked_until is None or line.old_locked_until >= line.at:
        ledger.violate("C12", life.job, "verify.reaped_early", line.at, until=line.old_locked_until)
    else:
        ledger.measure("recovery", (moment(line.at) - moment(line.old_locked_until)).total_seconds())
    if grown:
        ledger.violate("C9", life.job, "verify.attempts_at_reap", line.at, grown=grown)


def _outcome(life: Life, state: str, token: int, attempts: int, refund: bool, at: str, ledger: Ledger) -> None:
    """The outcome is what the run of this very claim came to."""
    assert life.runs is not None
    run, job = life.runs.get(token), life.job
    if state == "canceled":
        return  # by its handler or by anybody
    ledger.checked["C10"] += 1
    if run is None or not run.starts:
        ledger.violate("C10", job, "verify.never_ran", at, state=state, token=token)
        return
    if state == "done":
        if run.result != RETURNED or run.interruption:
            how = run.interruption or run.signal or run.result or "no end"
            ledger.violate("C10", job, "verify.done_without_success", at, token=token, how=how)
        elif run.ended is not None and (early := run.ended - moment(at).timestamp()) > life.rules.skew:
            ledger.violate("C10", job, "verify.done_before_the_end", at, token=token, seconds=early)
        return
    if run.result == RETURNED and not run.interruption:
        return  # its callback failed, or a job that it chained was refused
    if refund != (run.signal == "MustPreserveAttempt" and not run.interruption) and attempts:
        ledger.violate("C9", job, "verify.refund", at, state=state, signal=run.signal, grown=-refund)
    if refund or not run.max_attempts:
        return
    last = attempts >= run.max_attempts or (run.signal == "MustGiveUp" and not run.interruption)
    if (state == "dead") != last:
        ledger.violate(
            "C9",
            job,
            "verify.last_attempt",
            at,
            state=state,
            attempts=attempts,
            limit=run.max_attempts,
            signal=run.signal,
        )
