"""What must be true in the end, whatever happened on the way. Each check is pure: findings in, verdict out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brooq import State
from examples.webhooks.app import GONE
from examples.webhooks.findings import Findings, Row

FEW = 20
"""With fewer deliveries all may be over before anybody can be killed half-way."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check; `problem` is empty when it holds."""

    name: str
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether it holds."""
        return not self.problem


def judge(findings: Findings) -> list[Verdict]:
    """Every check, in the order of the story."""
    return [Verdict(name, check(findings)) for name, check in CHECKS.items()]


def _one_row_each(findings: Findings) -> str:
    found = Counter(row.key for row in findings.received)
    wrong = [key for key in findings.course.keys if found[key] != 1]
    surplus = len(findings.received) - len(set(findings.course.keys))
    return _named(wrong, "without exactly one row") or (f"{surplus} rows too many" if surplus else "")


def _repeated(findings: Findings) -> str:
    again = findings.course.created_again
    return f"{again} rows were made" if again else ""


def _chained_once(findings: Findings) -> str:
    mails = Counter(row.key for row in findings.mail_jobs)
    done = {row.key for row in findings.received if row.state is State.DONE}
    wrong = [key for key in done | set(mails) if mails[key] != (key in done)]
    return _named(wrong, "without exactly one mail job")


def _nothing_left(findings: Findings) -> str:
    left = Counter(str(row.state) for row in findings.rows if not row.state.terminal)
    return ", ".join(f"{count} {state}" for state, count in left.items())


def _done_is_delivered(findings: Findings) -> str:
    missing = [row.id for row in findings.mail_jobs if row.state is State.DONE and not findings.mails[row.id]]
    return _named(missing, "done and in no mailbox")


def _refused_are_dead(findings: Findings) -> str:
    refused = [row for row in findings.mail_jobs if row.to == GONE]
    wrong = [row for row in refused if row.state is not State.DEAD or "550" not in (row.last_error or "")]
    return _named(_ids(wrong), "refused, but not dead with the reason 550")


def _only_refused_are_dead(findings: Findings) -> str:
    others = [row for row in findings.rows if row.state in (State.DEAD, State.CANCELED) and row.to != GONE]
    return _named(_ids(others), "dead or canceled without having been refused")


def _duplicates_have_causes(findings: Findings) -> str:
    leases = {row.id: row.expired_leases for row in findings.mail_jobs}
    strangers = [id for id in findings.mails if id not in leases]
    unexplained = [
        id
        for id, count in findings.mails.items()
        if id in leases and count - 1 > findings.lost_answers[id] + leases[id]
    ]
    return _named(strangers, "of no job") or _named(unexplained, "sent again for no reason")


def _killed_and_recovered(findings: Findings) -> str:
    course = findings.course
    if course.killed_at is None:
        return "" if len(course.keys) < FEW else "the worker was never killed"
    return (
        ""
        if findings.recovered >= course.held
        else f"{course.held} jobs were in its hands, {findings.recovered} came back"
    )


def _ids(rows: Iterable[Row]) -> list[str]:
    return [row.id for row in rows]


def _named(wrong: Iterable[str], what: str) -> str:
    names = sorted(wrong)
    more = ", …" if len(names) > 3 else ""
    return f"{len(names)} {what}: {', '.join(names[:3])}{more}" if names else ""


CHECKS: dict[str, Callable[[Findings], str]] = {
    "every delivery has exactly one row": _one_row_each,
    "sending all of them a second time made no row": _repeated,
    "every delivery that is done has exactly one mail job": _chained_once,
    "nothing is left in processing, pending or failed": _nothing_left,
    "every job of the killed worker was taken up again": _killed_and_recovered,
    "every mail that is done is in the mailbox": _done_is_delivered,
    "every duplicate has its cause: an answer lost, or a worker killed": _duplicates_have_causes,
    "every mail refused for ever is dead, with the reason": _refused_are_dead,
    "nothing else is dead or canceled": _only_refused_are_dead,
}
