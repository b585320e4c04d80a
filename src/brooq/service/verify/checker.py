"""Reads a whole audit once, job by job, and looks at what concerns several jobs at the end."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from brooq.postgres.audit.history import Change, moment, plain
from brooq.service.verify.ledger import Ledger
from brooq.service.verify.life import TERMINAL, WAITING, Life, Rules
from brooq.service.verify.lifecycle import read
from brooq.service.verify.logs import Chained, Journal, Producers

ORDER_MARGIN = 2.0
"""For how many seconds a job that has become ready may be overlooked: its commit comes after its line, and looks from
the beginning of a line of jobs may be a poll interval apart."""


@dataclass
class Checker:
    """One check. `journal` and `producers` are None where no such log is given."""

    rules: Rules = field(default_factory=Rules)
    journal: Journal | None = None
    producers: Producers | None = None
    ledger: Ledger = field(default_factory=Ledger)
    installed: str = ""
    """Since when the audit is there: a row that was made later has to be in it."""
    changes: int = 0
    jobs: int = 0
    older: int = 0
    """How many jobs are older than the audit: what was before is not known."""
    _seen: set[str] = field(default_factory=set)
    """Ids of the producers' and of chained jobs that the audit knows."""
    _wanted: set[str] = field(default_factory=set)
    """Ids that producers were answered with."""
    _ended: dict[str, Life] = field(default_factory=dict)
    """Jobs that are needed once more at the end: those with chained children."""
    _keys: dict[tuple[str, str], list[tuple[int, int | None, str]]] = field(default_factory=lambda: defaultdict(list))
    """By topic and key: from which to which number of the audit a row lived."""

    def check(self, jobs: Iterable[tuple[str | None, list[Change]]]) -> Ledger:
        """Look at every job, then at all of them."""
        runs = {} if self.journal is None else self.journal.runs
        topics = set() if self.journal is None else self.journal.topics
        parents = {each.parent for many in self._children.values() for each in many}
        if self.producers is not None:
            self._wanted = {id for sent in self.producers.sent.values() for id, _ in sent.answers}
        for job, lines in jobs:
            self.changes += sum(line.op not in {"NOW", "EFFECT"} for line in lines)
            if job is None:
                for line in lines:
                    self.ledger.violate("C5", None, "verify.truncated", line.at)
                continue
            self.jobs += 1
            of_job = runs.get(job)
            if of_job is None and topics and next((line.topic for line in lines if line.topic), None) in topics:
                of_job = {}
            life = read(job, lines, of_job, self.rules, self.ledger)
            self._remember(job, lines, life)
            if job in parents:
                self._ended[job] = life
        self._lost()
        self._one_row_a_key()
        self._chained()
        return self.ledger

    @property
    def _children(self) -> dict[str, list[Chained]]:
        return {} if self.journal is None else self.journal.children

    def _remember(self, job: str, lines: list[Change], life: Life) -> None:
        if not life.made:
            row = life.row
            if row is not None and len(lines) == 1 and (row.old_updated_at or "") > self.installed > "":
                self.ledger.violate("C8", job, "verify.made_round", row.old_updated_at)
            else:
                self.older += 1
        self._keyed(job, lines)
        if job in self._children or job in self._wanted:
            self._seen.add(job)
        if self.producers is not None:
            self._sent(self.producers, job, lines, life)

    def _keyed(self, job: str, lines: list[Change]) -> None:
        begun: tuple[str, str] | None = None
        for line in lines:
            if line.op == "INSERT" and line.idempotency_key is not None:
                begun = (str(line.topic), line.idempotency_key)
                self._keys[begun].append((int(line.seq), None, job))
            elif line.op == "DELETE" and begun is not None:
                number, _, _ = self._keys[begun].pop()
                self._keys[begun].append((number, int(line.seq), job))
                begun = None

    def _sent(self, producers: Producers, job: str, lines: list[Change], life: Life) -> None:
        sent, child = producers.sent.get(job), job in self._children
        if life.made and lines[0].topic in producers.topics:
            self.ledger.checked["C2"] += 1
            if sent is None and not child:
                self.ledger.violate("C2", job, "verify.nobody_sent", lines[0].at)
            elif sent is not None and sent.undone and not sent.answers:
                self.ledger.violate("C2", job, "verify.rolled_back", lines[0].at)
        if not self.rules.drained or sent is None or not any(new for _, new in sent.answers):
            return
        # A row that was deleted has had its end.
        if life.endings == 0 and (life.row is None or life.row.state not in TERMINAL):
            self.ledger.violate("C1", job, "verify.acknowledged_not_ended", lines[-1].at)

    def _lost(self) -> None:
        """Every acknowledged job is there; who asked for the same key was told of the same job."""
        if self.producers is None:
            return
        by_job = {job: key for key, spans in self._keys.items() for _, _, job in spans}
        for job, sent in self.producers.sent.items():
            for id, created in sent.answers:
                self.ledger.checked["C1"] += 1
                if id not in self._seen:
                    self.ledger.violate("C1", id, "verify.acknowledged_never_seen")
                self.ledger.checked["C13"] += 1
                if created != (id == job):
                    self.ledger.violate("C13", job, "verify.answered", id=id, created=created)
                elif not created and id in by_job and plain(by_job[id][1]) != sent.key:
                    self.ledger.violate("C13", job, "verify.answered_other_key", id=id)

    def _one_row_a_key(self) -> None:
        for (topic, key), spans in self._keys.items():
            self.ledger.checked["C13"] += 1
            spans.sort(key=lambda span: span[0])
            for (_, end, _), (start, _, job) in pairwise(spans):
                if end is None or end > start:
                    self.ledger.violate("C13", job, "verify.second_row", name=repr(plain(key)), topic=topic)

    def _chained(self) -> None:
        """A child is there exactly when the claim that chained it has closed the parent."""
        if self.journal is None:
            return
        for child, sources in self.journal.children.items():
            self.ledger.checked["C14"] += 1
            closed = [
                each
                for each in sources
                if each.parent in self._ended and self._ended[each.parent].done_by == each.token
            ]
            if child in self._seen and not closed:
                self.ledger.violate("C14", sources[0].parent, "verify.child_without_parent", child=child)
            elif closed and child not in self._seen and not closed[0].keyed:
                self.ledger.violate("C14", closed[0].parent, "verify.parent_without_child", child=child)


def check_order(changes: Iterable[Change], ledger: Ledger, margin: float = ORDER_MARGIN) -> None:
    """Claims follow priority, readiness and id within a topic. Only for one worker with one slot, without faults."""
    lines: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    waiting: dict[str, tuple[tuple[int, str, str], str]] = {}
    for change in changes:
        job = change.job
        if job is None or change.topic is None:
            continue
        if change.state in WAITING:
            place = (int(change.priority or 0), str(change.available_at), job)
            waiting[job] = (place, change.at)
            heapq.heappush(lines[change.topic], place)
            continue
        known = waiting.pop(job, None)
        if change.old_state in WAITING and change.state == "processing" and known is not None:
            ledger.checked["C15"] += 1
            for place in _before(lines[change.topic], waiting, known[0]):
                since = waiting[place[2]][1]
                settled = (moment(change.at) - max(moment(since), moment(place[1]))).total_seconds()
                if settled > margin:
                    ledger.violate("C15", job, "verify.overtaken", change.at, first=place[2])
                    break


def _before(
    line: list[tuple[int, str, str]], waiting: dict[str, tuple[tuple[int, str, str], str]], place: tuple[int, str, str]
) -> Iterator[tuple[int, str, str]]:
    """Who waits before a place; what waits no longer is let go of on the way."""
    while line and (line[0][2] not in waiting or waiting[line[0][2]][0] != line[0]):
        heapq.heappop(line)
    if line and line[0] < place:
        yield line[0]
