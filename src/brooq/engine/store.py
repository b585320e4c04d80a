"""The store port: everything the engine asks of the place where jobs live.

Each verb is one word in four places: here, in the adapter, in `postgres/queries/<verb>.sql`, and in the contract suite.
An adapter raises StoreUnavailable, OutcomeUnknown or StoreRefused, never an error of its driver, save for what a
caller's own transaction raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Protocol, Self
from uuid import UUID

from brooq.engine.outcome import Outcome
from brooq.vocabulary.job import Cancellation, Enqueued, Job, JobRecord, State
from brooq.vocabulary.schedule import Schedule, ScheduleRecord
from brooq.vocabulary.steering import Limits, TopicRecord
from brooq.vocabulary.tx import Tx


class Hold(NamedTuple):
    """One claim of one job: what fences every renewal and outcome (requirement G5)."""

    id: UUID
    token: int


class Taken(NamedTuple):
    """A job that a claim took. `payload` is JSON text; `waited` is seconds from readiness to the claim,
    `expired_leases` how many claims before it ended without a word, `metadata` JSON text."""

    id: UUID
    topic: str
    payload: str
    attempt: int
    token: int
    until: datetime
    max_attempts: int | None
    waited: float
    expired_leases: int = 0
    metadata: str | None = None

    @property
    def hold(self) -> Hold:
        """The claim's fence."""
        return Hold(self.id, self.token)


class Exchange(NamedTuple):
    """What one exchange brought: the claims whose outcome is now recorded, and the jobs taken, in order of readiness."""

    settled: list[Hold]
    taken: list[Taken]
    limited: list[str] = []  # noqa: RUF012  never changed
    """The topics asked for that have limits and waiting jobs: this claim has left them to `claim_limited`."""


class LimitedClaim(NamedTuple):
    """What a claim within limits brought. `more`: it has not looked at everything, so another one may bring more at once;
    `wait`: after how many seconds the next token of the topic's rate comes, None when tokens are not what is missing."""

    taken: list[Taken]
    more: bool
    wait: float | None


class Fate(NamedTuple):
    """What a row says of a claim: its state, its fence and its owner now. A row that is gone has no fate."""

    state: State
    token: int
    owner: str | None


class Renewal(NamedTuple):
    """Which leases were renewed, and which are lost for good.

    A hold in neither was locked by somebody at that moment: nothing is known of it, its old deadline stands.
    """

    renewed: list[Hold]
    lost: list[Hold]


class Requeued(NamedTuple):
    """A job that the reaper put back into circulation."""

    id: UUID
    topic: str


class Depth(NamedTuple):
    """How many jobs of a topic are in a state. Beyond the store's bound `jobs` is an estimate (`exact` False)."""

    topic: str
    state: State
    jobs: int
    exact: bool


SUSPECT = 3
"""After how many leases that ran out without a word a job is suspected of killing its workers."""


@dataclass(frozen=True, slots=True)
class Census:
    """The table at a glance: depths by topic and state, the age of the oldest ready job by topic, in seconds, and how many
    jobs are held of which earlier leases ran out three times or more without a word (requirement I7)."""

    depths: list[Depth]
    oldest: dict[str, float]
    suspects: dict[str, int] = field(default_factory=dict)


class Running(NamedTuple):
    """What a slot does: which job, for how many seconds by now, and whether its handler is hung."""

    id: UUID
    topic: str
    attempt: int
    seconds: float
    hung: bool


@dataclass(frozen=True, slots=True)
class Presence:
    """What a running engine says of itself. `name` is the owner of its leases; `uptime` is in seconds."""

    name: str
    host: str
    pid: int
    version: str
    uptime: float
    stopping: bool
    slots: int
    topics: tuple[str, ...]
    busy: Mapping[str, int]
    """How many slots each topic occupies; topics that occupy none are left out."""
    running: tuple[Running, ...]
    """Those that have run longest, when there are very many."""


class Sample(NamedTuple):
    """What was counted for a topic since the last sample, and how deep it is now; seconds are floats."""

    topic: str
    done: int = 0
    failed: int = 0
    """Attempts that failed and are to be repeated."""
    dead: int = 0
    canceled: int = 0
    attempts: int = 0
    ran: float = 0.0
    """How long those attempts took together."""
    claimed: int = 0
    waited: float = 0.0
    """How long the claimed jobs had been ready together."""
    waited_p95: float = 0.0
    waiting: int = 0
    processing: int = 0
    oldest: float = 0.0


class Schedules(NamedTuple):
    """Periodic jobs at one moment of the store's clock, and when the next tick of any of them comes."""

    now: datetime
    next_at: datetime | None
    schedules: list[ScheduleRecord]

    def named(self, name: str) -> ScheduleRecord | None:
        """The one of that name; None when there is none."""
        return next((each for each in self.schedules if each.name == name), None)


class OwnTx(Tx, Protocol):
    """A transaction that the store opened. Its errors are the engine's, not the driver's."""

    @property
    def broken(self) -> bool:
        """Whether its connection is lost: whatever was done in it is undone, or unknown while a commit was on its way."""

    async def __aenter__(self) -> Self:
        """The transaction itself."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back when the block raised."""


class Renewer(Protocol):
    """Renews leases over a connection of its own, in the event loop that opened it (requirement L2)."""

    async def renew(self, worker: str, holds: Sequence[Hold], lease: timedelta) -> Renewal:
        """Move the end of the leases to `lease` from now by the store's clock, each only if this very claim holds it.

        Never waits for a row that somebody has locked. Raises StoreUnavailable: then nothing is known.
        """

    async def close(self) -> None:
        """Let go of the connection."""


class Bell(Protocol):
    """A hint that there may be jobs: whoever enqueues rings it while it hangs. It hears of running jobs that were
    canceled too, whether it hangs or not. Hints get lost: polling and renewals are the truth."""

    async def hang_up(self, rung: Callable[[str], None]) -> None:
        """Producers ring from now on: `rung` is called in this event loop, with the topic, as soon as a ring is heard.

        Raises StoreUnavailable; StoreRefused where there can be no wake-ups at all.
        """

    async def take_down(self) -> None:
        """Producers ring no more. Raises StoreUnavailable."""

    async def wait(self, seconds: float) -> int:
        """How often it has rung since the last time; waits until it rings or hears of a cancel, for at most so many seconds.

        Raises StoreUnavailable.
        """

    def canceled(self) -> list[UUID]:
        """The jobs that were canceled while they ran, as far as `wait` has heard; each is told once."""

    async def close(self) -> None:
        """Let go of it; `hang_up` would make it anew."""


class Store(Protocol):
    """Where jobs live."""

    async def open(self) -> None:
        """Make ready to work; may be called again after `close`.

        Raises SchemaError when the schema is missing, older or newer than needed; StoreUnavailable when there is no
        answer.
        """

    async def close(self) -> None:
        """Let go of what the store opened itself; never of the consumer's pool (requirement T6)."""

    async def begin(self) -> OwnTx:
        """Open a transaction of the queue's own. Whoever called closes it."""

    async def enqueue(self, tx: Tx | None, jobs: Iterable[Job]) -> list[Enqueued]:
        """Write the jobs, in the caller's transaction or, when None, durably before the answer; answers in order.

        A key that exists makes no row and answers the id of its job. Raises PayloadError and JobError, with nothing
        written; and what the iterable raises, likewise.
        """

    async def exchange(
        self, worker: str, outcomes: Sequence[Outcome], topics: Sequence[str], limit: int, lease: timedelta
    ) -> Exchange:
        """Write outcomes and claim up to `limit` ready jobs, in one atomic step (C1).

        Topics come first in the order given; within one: by priority, readiness, id. An outcome that is not in
        `settled` was refused by its guard: this claim no longer holds the job. Raises StoreBusy, with nothing done, when
        a row of the outcomes stayed locked by somebody for about a second; StoreRefused when data was refused.
        """

    async def claim_limited(self, worker: str, topic: str, limit: int, lease: timedelta) -> LimitedClaim:
        """Claim up to `limit` ready jobs of a topic that has limits, within them, however many others claim meanwhile.

        By priority, readiness, id; within an ordered topic the first job of each key. Raises StoreBusy, with nothing
        done, when another claim of the topic did not end in time.
        """

    async def settle(self, tx: Tx, worker: str, outcome: Outcome) -> bool:
        """Write one outcome inside a transaction, waiting for the row. False: this claim no longer holds the job."""

    async def progress(self, worker: str, told: Mapping[Hold, str]) -> None:
        """Write how far claims are, as JSON text `{"done": …, "note": …}` to which the store adds its time; each only if
        this very claim holds the job. Waits for no row: one that is locked is left out."""

    async def assert_held(self, tx: Tx, hold: Hold) -> bool:
        """Whether the claim is held; if so, nobody claims the job before the transaction ends, while renewals, outcomes
        and cancels go on. If not, the transaction can only be rolled back."""

    async def ended(self, ids: Sequence[UUID]) -> dict[UUID, JobRecord | None]:
        """The rows of those jobs that are at their end, None for those that are not; what is not there is left out."""

    async def fates(self, ids: Sequence[UUID]) -> dict[UUID, Fate]:
        """What the rows say now; ids without a row are left out."""

    async def renewer(self) -> Renewer:
        """A renewer for the running event loop. Connects at its first renewal."""

    def bell(self, topics: Sequence[str]) -> Bell | None:
        """What enqueues of these topics ring; None where there are no wake-ups."""

    async def cancel(self, id: UUID) -> Cancellation:
        """Cancel a job that is not terminal, waiting for its row; answers what was found (I4)."""

    async def pause(self, topic: str, by: str, reason: str | None = None) -> bool:
        """Let nobody claim from a topic, and write down by whose word; False: it is paused already. What runs goes on.

        Once it is answered no claim takes from the topic. Raises StoreBusy when a claim from before did not end in
        time: the topic is paused all the same.
        """

    async def resume(self, topic: str, by: str, reason: str | None = None) -> bool:
        """End a pause, and write down by whose word; False: there is none."""

    async def limit(self, topic: str, limits: Limits | None, by: str, reason: str | None = None) -> bool:
        """Set the limits of a topic by hand, and write down by whose word; None: those that code declares are valid again,
        False then when none were set by hand. Once it is answered every claim keeps them. Raises StoreBusy as `pause`."""

    async def declare(self, limits: Mapping[str, Limits | None]) -> None:
        """What the code of a worker asks for, by topic: valid where nobody has set limits by hand. None takes back what an
        earlier version of the code has declared."""

    async def topics(self) -> list[TopicRecord]:
        """What is set for topics, by name; those that nothing is set for are not in it."""

    async def schedules(self, *, due: bool = False) -> Schedules:
        """The periodic jobs by name; `due`: only those whose tick has come, or whose last one lies ahead of the clock."""

    async def schedule(
        self, schedule: Schedule, next_at: datetime | None, by: str | None, reason: str | None = None
    ) -> bool:
        """Set a periodic job, by hand with the name of who does it, or from code (None), which does not overwrite what was
        set by hand. One that stands and ticks as before keeps its next tick. False: nothing was to be written."""

    async def unschedule(self, name: str, by: str, reason: str | None = None) -> bool:
        """Take a periodic job away; False: there is none."""

    async def hold_schedule(
        self, name: str, by: str, reason: str | None = None, *, paused: bool, next_at: datetime | None
    ) -> bool:
        """Pause a periodic job, or let it go on with the tick given; False: there is none, or it is so already."""

    async def retire(self, topics: Sequence[str], names: Sequence[str]) -> list[str]:
        """Take away what code once declared for these topics, save for these names; answers what went."""

    async def fire(
        self, schedule: ScheduleRecord, next_at: datetime | None, last_at: datetime | None, jobs: Sequence[Job]
    ) -> bool:
        """Enqueue the jobs of ticks and move the schedule on, in one step; a job whose key exists makes none.

        False, with nothing done, when its next tick is another one by now: somebody else has made their jobs.
        """

    async def reap(self, limit: int) -> list[Requeued]:
        """Put up to `limit` jobs whose lease has expired back to `pending`, skipping rows that are locked (L4)."""

    async def prune(self, age: timedelta, limit: int) -> list[str]:
        """Delete up to `limit` terminal jobs older than `age`, oldest first; answers the topic of each (R1)."""

    async def census(self, topics: Sequence[str]) -> Census:
        """Depths and ages, at a cost that does not grow with the table; the topics given are always in it."""

    async def announce(self, presence: Presence, forget: timedelta) -> None:
        """Write down that this engine is there; take those who have not done so for `forget` off the list."""

    async def withdraw(self, worker: str) -> None:
        """Take an engine that has stopped off the list; nothing happens when it is not on it."""

    async def sample(self, samples: Sequence[Sample], elapsed: float) -> None:
        """Add to what is known of the present, for charts: `elapsed` seconds are what the counts belong to.

        A sample that was lost, or counted twice, does no harm.
        """

    async def find(self, id: UUID) -> JobRecord | None:
        """A job's row as it is now; None when there is none."""
