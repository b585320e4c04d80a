"""What is left when all is over: the table, the mailbox, the journals. Figures only; `checks` judges them."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

import psycopg

from brooq import State
from examples.webhooks.app import RECEIVED, SEND
from examples.webhooks.stage import Stage


@dataclass(frozen=True, slots=True)
class Row:
    """A job as the table has it."""

    id: str
    topic: str
    state: State
    attempts: int
    expired_leases: int
    key: str
    last_error: str | None
    to: str | None
    """To whom; None for a job that is no mail."""


@dataclass(slots=True)
class Course:
    """What the run noted about itself."""

    keys: list[str]
    """Of every delivery, in order."""
    created: int = 0
    """How many jobs the deliveries made, and how many more when all of them were sent a second time."""
    created_again: int = 0
    killed_at: int | None = None
    """How many mails were done when the worker was killed; None: everything was over before."""
    held: int = 0
    """How many jobs it had in its hands then."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the report is made of."""

    course: Course
    rows: list[Row]
    seconds: float
    """From the first job made to the last outcome written, by the database's clock."""
    mails: Counter[str] = field(default_factory=Counter)
    """How often each mail is in the mailbox, by the id of its job."""
    misdeeds: Counter[str] = field(default_factory=Counter)
    lost_answers: Counter[str] = field(default_factory=Counter)
    """How often the answer to a mail that was kept did not arrive, by the id of its job."""
    waits: list[float] = field(default_factory=list)
    """Of every claim: seconds from the job's readiness to the claim; sorted."""

    def of(self, topic: str) -> list[Row]:
        """The jobs of a topic."""
        return [row for row in self.rows if row.topic == topic]

    @property
    def received(self) -> list[Row]:
        """The jobs that receive a delivery."""
        return self.of(RECEIVED)

    @property
    def mail_jobs(self) -> list[Row]:
        """The jobs that send a mail."""
        return self.of(SEND)

    @property
    def duplicates(self) -> int:
        """How many mails came more than once, counting each further copy."""
        return self.mails.total() - len(self.mails)

    @property
    def recovered(self) -> int:
        """How many leases ran out and were recovered."""
        return sum(row.expired_leases for row in self.rows)

    def pickup(self, share: float) -> float:
        """The pickup delay that this share of the claims did not exceed, in seconds."""
        return self.waits[max(math.ceil(share * len(self.waits)) - 1, 0)] if self.waits else 0.0


def gather(stage: Stage, course: Course) -> Findings:
    """Read everything; the worker and the mail server have ended."""
    misdeeds = _lines(stage.misdeeds)
    with psycopg.connect(stage.dsn) as connection:
        rows = connection.execute(
            "select id::text, topic, state, attempts, expired_leases, coalesce(idempotency_key, ''), last_error,"
            " payload ->> 'to' from job order by id"
        ).fetchall()
        span = connection.execute("select extract(epoch from max(updated_at) - min(created_at))::float8 from job")
        (seconds,) = span.fetchone() or (0.0,)
    return Findings(
        course,
        [Row(id, topic, State(state), *rest) for id, topic, state, *rest in rows],
        seconds or 0.0,
        Counter(_job_of(path) for path in (stage.mailbox / "new").iterdir()),
        Counter(each["misdeed"] for each in misdeeds),
        Counter(_job_in(each["id"]) for each in misdeeds if each["misdeed"] == "lost_answer"),
        sorted(each["waited"] for each in _lines(stage.journal)),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    """A journal. Its last line may be cut off: whoever wrote it was killed."""
    if not path.exists():
        return []
    whole = [line for line in path.read_bytes().split(b"\n") if line.endswith(b"}")]
    return [json.loads(line) for line in whole]


def _job_of(mail: Path) -> str:
    with mail.open("rb") as file:
        return _job_in(str(BytesHeaderParser().parse(file)["Message-ID"]))


def _job_in(message_id: str) -> str:
    return message_id.strip().strip("<>").partition("@")[0]
