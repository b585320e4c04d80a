"""Whether claims kept to what was set for their topics: pauses, limits, lines and rates. Pure: lines in, violations out.

Changes come in the order of their numbers. Between jobs that order means something here: a job that leaves `processing`
has its number before its commit, and a claim within limits counts after that commit, under the lock of its topic. So at
each claim there are no more jobs held by the numbers than there were in fact, and none is held that the claim has not seen.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from brooq.postgres.audit.history import Change, Setting, moment
from brooq.service.verify.ledger import Ledger
from brooq.service.verify.life import HELD, WAITING

RATE_SLACK = 0.5
"""By how many seconds the clock of a claim and that of its line in the audit may differ, for rates."""


@dataclass
class _Topic:
    """One topic as far as it has been read."""

    settings: list[tuple[float, Setting]] = field(default_factory=list)
    held: dict[str, str | None] = field(default_factory=dict)
    """The key of every job that is held."""
    of_key: Counter[str | None] = field(default_factory=Counter)
    waiting: dict[str, float] = field(default_factory=dict)
    """Since when each job has been waiting."""
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By key: every job that was enqueued, in order of its id."""
    tokens: float = 0.0
    filled: float = 0.0

    def valid(self, at: float, margin: float) -> list[Setting]:
        """Every setting that a claim at that moment may have kept to."""
        before = [each for since, each in self.settings if since <= at - margin][-1:]
        return before + [each for since, each in self.settings if since > at - margin]


def check_settings(settings: Sequence[Setting], changes: Iterable[Change], ledger: Ledger, margin: float) -> None:
    """Look at every claim of the topics that anything was set for.

    For `margin` seconds after a change of its settings a topic may be claimed by the older ones: who has changed them is
    answered when no such claim is left, and the audit knows the moment of the change alone. So much later than its line
    in the audit the commit of an enqueue may be.
    """
    topics = {each.topic: _Topic() for each in settings}
    left = sorted(settings, key=lambda each: each.seq)
    left.reverse()
    for change in changes:
        while left and left[-1].seq < int(change.seq):
            _set(topics, left.pop())
        topic = topics.get(str(change.topic))
        if topic is None or change.job is None:
            continue
        at = moment(change.at).timestamp()
        if change.state == HELD and change.old_state in WAITING:
            _judge(topic, change, at, ledger, margin)
        _follow(topic, change, at)


def _set(topics: dict[str, _Topic], setting: Setting) -> None:
    topic, at = topics[setting.topic], moment(setting.at).timestamp()
    last = topic.settings[-1][1] if topic.settings else None
    if setting.rate and (last is None or (last.rate, last.rate_period) != (setting.rate, setting.rate_period)):
        topic.tokens, topic.filled = float(setting.rate), at
    topic.settings.append((at, setting))


def _follow(topic: _Topic, change: Change, at: float) -> None:
    job, key = str(change.job), change.concurrency_key
    if change.state == HELD:
        if job not in topic.held:
            topic.held[job] = key
            topic.of_key[key] += 1
    elif job in topic.held:
        topic.of_key[topic.held.pop(job)] -= 1
    if change.state in WAITING:
        if change.op == "INSERT" and key is not None:
            heapq.heappush(topic.lines[key], job)
        topic.waiting.setdefault(job, at)
    else:
        topic.waiting.pop(job, None)


def _judge(topic: _Topic, change: Change, at: float, ledger: Ledger, margin: float) -> None:
    valid = topic.valid(at, margin)
    if not valid:
        return
    ledger.checked["C17"] += 1
    job, key = change.job, change.concurrency_key
    if all(each.paused for each in valid):
        ledger.violate("C17", job, "verify.claimed_in_pause", change.at)
    most = _least([each.max_running for each in valid])
    if most is not None and len(topic.held) >= most:
        ledger.violate("C17", job, "verify.over_the_limit", change.at, held=len(topic.held) + 1, limit=most)
    per_key = _least([1 if each.ordered else each.max_running_per_key for each in valid])
    if per_key is not None and key is not None and topic.of_key[key] >= per_key:
        held = topic.of_key[key] + 1
        ledger.violate("C17", job, "verify.over_the_key", change.at, held=held, limit=per_key, name=repr(key))
    if key is not None and all(each.ordered for each in valid):
        first = _first(topic, key)
        if first is not None and first < str(job) and topic.waiting[first] < at - margin:
            ledger.violate("C17", job, "verify.out_of_line", change.at, first=first, name=repr(key))
    _spend(topic, valid, change, at, ledger)


def _least(limits: list[int | None]) -> int | None:
    """The widest of what may have been valid; None where one of them was no limit."""
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _first(topic: _Topic, key: str) -> str | None:
    """The first job of a line that waits; those that are held now may come back, those at their end may not."""
    line = topic.lines[key]
    gone: list[str] = []
    while line and line[0] not in topic.waiting:
        job = heapq.heappop(line)
        if job in topic.held:
            gone.append(job)
    first = line[0] if line else None
    for job in gone:
        heapq.heappush(line, job)
    return first


def _spend(topic: _Topic, valid: list[Setting], change: Change, at: float, ledger: Ledger) -> None:
    setting = valid[-1]
    if setting.rate is None or setting.rate_period is None:
        return
    speed = setting.rate / setting.rate_period
    topic.tokens = min(float(setting.rate), topic.tokens + max(at - topic.filled, 0.0) * speed) - 1
    topic.filled = max(at, topic.filled)
    if len(valid) == 1 and topic.tokens < -1 - speed * RATE_SLACK:
        ledger.violate("C17", change.job, "verify.too_fast", change.at, rate=setting.rate, period=setting.rate_period)
        topic.tokens = 0.0  # told once, not at every claim after it
