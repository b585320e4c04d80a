"""Every state that a few jobs and workers can come to, breadth first: the first violation has the shortest trace.

Jobs meet where they do in the queue: a worker's death ends its handlers on all of them; a job can chain the next one,
in the very step that closes it, and a producer can enqueue that one by its key at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.models.life import CHAIN, CLAIM, Bounds, Life, Step, forget, steps, stuck
from tests.models.protocol import Protocol

from brooq import State

ABSENT = Life(row=None)
World = tuple[int, ...]
"""The lives of all jobs, each by its number in `Search.lives`."""


@dataclass(slots=True)
class Found:
    """What a search came to. Without a violation the search was exhaustive, and the trace is empty."""

    states: int
    transitions: int
    violation: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The trace, a step a line."""
        head = f"{self.states:,} states, {self.transitions:,} transitions: {self.violation or 'no violation'}"
        return "\n".join([head, *(f"  {number}. {step}" for number, step in enumerate(self.trace, 1))])


class Search:
    """One search; a job's next steps are worked out once for each of its states."""

    def __init__(self, rules: Protocol, bounds: Bounds) -> None:
        """Nothing is searched yet."""
        self._rules, self._bounds = rules, bounds
        self._lives: list[Life] = []
        self._numbers: dict[Life, int] = {}
        self._steps: list[list[tuple[str, int, str | None]] | None] = []
        self._deaths: dict[tuple[int, str], int] = {}

    def run(self) -> Found:
        """Until everything is seen, or something is wrong."""
        start = (self._number(Life()), *(self._number(ABSENT) for _ in range(self._bounds.jobs - 1)))
        came: dict[World, World | None] = {start: None}
        open_worlds = deque([start])
        transitions = 0
        while open_worlds:
            world = open_worlds.popleft()
            for job, label, after, violation in self._successors(world):
                transitions += 1
                if violation:
                    return Found(len(came), transitions, violation, [*self._trace(came, world), told(job, label)])
                if after not in came:
                    came[after] = world
                    open_worlds.append(after)
        return Found(len(came), transitions)

    def _successors(self, world: World) -> Iterator[tuple[int, str, World, str | None]]:
        for job, number in enumerate(world):
            for label, after, violation in self._steps_of(number):
                if label.startswith(CLAIM) and not self._admitted(world, label):
                    continue
                new = (*world[:job], after, *world[job + 1 :])
                violation = violation or self._crowd(new)  # noqa: PLW2901
                chains = label.startswith(CHAIN)
                if chains and job + 1 < len(world) and self._rules.chains(True):
                    new = self._enqueued(new, job + 1)
                yield job, label, new, violation or (self._orphan(new) if chains else None)
            if job and self._lives[number] == ABSENT:
                yield job, "enqueue", self._enqueued(world, job), None
        for owner in "AB"[: self._bounds.workers]:
            new = tuple(self._death(number, owner) for number in world)
            if new != world:
                yield -1, f"{owner} dies", new, None

    def _running(self, world: World, owner: str | None = None) -> int:
        rows = [self._lives[number].row for number in world]
        held = [row for row in rows if row is not None and row.state is State.PROCESSING]
        return sum(owner in (None, row.owner) for row in held)

    def _admitted(self, world: World, label: str) -> bool:
        """Whether a claim finds room in the limit."""
        limit = self._bounds.limit
        if limit is None:
            return True
        count = self._rules.counted(self._running(world), self._running(world, label.removeprefix(CLAIM)))
        return self._rules.room(count, limit, 1) > 0

    def _crowd(self, world: World) -> str | None:
        limit = self._bounds.limit
        return "more jobs run than the limit allows" if limit is not None and self._running(world) > limit else None

    def _enqueued(self, world: World, job: int) -> World:
        """By its key: a job that exists, or existed, is not made again."""
        if self._lives[world[job]] != ABSENT:
            return world
        return (*world[:job], self._number(Life()), *world[job + 1 :])

    def _orphan(self, world: World) -> str | None:
        for one, two in pairwise(world):
            if self._lives[one].chained and self._lives[two] == ABSENT:
                return "a job is done without the job it chained"
        return None

    def _steps_of(self, number: int) -> list[tuple[str, int, str | None]]:
        known = self._steps[number]
        if known is None:
            life = self._lives[number]
            known = [
                (step.label, self._number(step.after), step.violation)
                for step in (*steps(life, self._rules, self._bounds), *self._dead_end(life))
            ]
            self._steps[number] = known
        return known

    def _dead_end(self, life: Life) -> Iterator[Step]:
        if reason := stuck(life, self._rules):
            yield Step("nothing", life, reason)

    def _death(self, number: int, owner: str) -> int:
        key = (number, owner)
        if key not in self._deaths:
            self._deaths[key] = self._number(forget(self._lives[number], owner))
        return self._deaths[key]

    def _number(self, life: Life) -> int:
        number = self._numbers.get(life)
        if number is None:
            number = self._numbers[life] = len(self._lives)
            self._lives.append(life)
            self._steps.append(None)
        return number

    def _trace(self, came: dict[World, World | None], world: World) -> list[str]:
        """Which steps led here: told anew, since a label for every state would take more room than the states."""
        trace = []
        while (before := came[world]) is not None:
            trace.append(next(told(job, label) for job, label, new, _ in self._successors(before) if new == world))
            world = before
        return trace[::-1]


def told(job: int, label: str) -> str:
    """A step as the trace has it."""
    return label if job < 0 else f"job {job + 1}: {label}"


def search(rules: Protocol, bounds: Bounds) -> Found:
    """Search exhaustively within the bounds."""
    return Search(rules, bounds).run()
