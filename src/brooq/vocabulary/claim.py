"""A claim: a job in the hands of a worker, as its handler sees it."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

from brooq.vocabulary.error import TxError
from brooq.vocabulary.job import Job
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import decode, encode
from brooq.vocabulary.signal import Interruption
from brooq.vocabulary.tx import Tx

if TYPE_CHECKING:
    P = TypeVar("P", default=Any)  # a bare `Claim` is a `Claim[Any]`; Python before 3.13 knows no defaults at run time
else:
    P = TypeVar("P")

OnSucceeded: TypeAlias = Callable[[Tx], Awaitable[None] | None]
Handler: TypeAlias = Callable[["Claim[Any]"], Any]
"""What runs the jobs of a topic: `async def` or `def`, with a claim as its only argument."""

_UNREAD: Any = object()

CURRENT: ContextVar[Claim[Any] | None] = ContextVar("brooq_claim", default=None)


def current_claim() -> Claim[Any] | None:
    """The claim whose handler runs here: in its coroutine and the tasks it makes, its thread, its process. Else None."""
    return CURRENT.get()


class Lease(NamedTuple):
    """Who holds the job, and until when by the database's clock at the claim. Renewals move it on."""

    owner: str
    until: datetime


class Hands(Protocol):
    """What the engine does for a claim while its handler runs."""

    def progress(self, claim: Claim[Any], done: float, note: str) -> None:
        """Write it to the row soon. Called from any thread."""

    async def assert_held(self, claim: Claim[Any], tx: Tx) -> None:
        """Raise LeaseLost, or see to it that the claim is held until the transaction ends."""


class _Told:
    """What `await claim.progress(…)` awaits: nothing, since the telling is done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_TOLD = _Told()


class Claim(Generic[P]):
    """A job in a worker's hands. `attempt` counts from 1.

    `Claim[Email]` as the annotation of a handler's argument makes `payload` an `Email`: a dataclass, a TypedDict, a
    msgspec.Struct, a pydantic model, or a type with a codec of its own.

    `token` grows by one at every claim of the job and is never reset: `f"{claim.id}:{claim.token}"` is a key for
    effects outside that should happen once per run, `claim.id` one for effects that should happen once.
    """

    __slots__ = (
        "_callbacks",
        "_chained",
        "_hands",
        "_metadata",
        "_payload",
        "_result",
        "_source",
        "_waiting",
        "attempt",
        "id",
        "interruption",
        "lease",
        "max_attempts",
        "token",
        "topic",
    )

    def __init__(
        self,
        *,
        id: UUID,
        topic: str,
        payload: str,
        attempt: int,
        max_attempts: int,
        token: int,
        lease: Lease,
        hands: Hands | None = None,
        metadata: str | None = None,
    ) -> None:
        """Made by the engine; `payload` and `metadata` are the row's JSON text, decoded when the handler first looks."""
        self.id = id
        self.topic = topic
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.token = token
        self.lease = lease
        self.interruption: Interruption | None = None
        """Why the handler was interrupted; None while it was not. The engine sets it."""
        self._source = payload
        self._metadata = metadata
        self._payload = _UNREAD
        self._callbacks: list[OnSucceeded] | None = None
        self._chained: list[Job] | None = None
        self._hands = hands
        self._waiting: threading.Event | None = None
        self._result: str | None

    @property
    def payload(self) -> P:
        """The job's payload. Raises PayloadError when the row's JSON cannot be read."""
        if self._payload is _UNREAD:
            self._payload = decode(self._source)
        payload: P = self._payload
        return payload

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the producer wrote beside the payload; empty when it wrote nothing."""
        if self._metadata is None:
            return {}
        found: dict[str, Any] = json.loads(self._metadata)
        return found

    def canceled(self) -> bool:
        """Whether the engine wants the handler to end: `interruption` says why. For handlers in threads and processes,
        which nothing cancels by itself; whatever they make of it, the cause decides what becomes of the job (I1)."""
        return self.interruption is not None

    def wait_canceled(self, seconds: float | None = None) -> bool:
        """Wait until the engine wants the handler to end, for at most so many seconds; answers whether it does.

        Blocks its thread: a pause for handlers in threads and processes that ends early when it has to.
        """
        if self._waiting is None:
            self._waiting = threading.Event()
        # Looked at after the event is in its place: `_interrupted` sets the cause first, then looks for the event.
        return self.interruption is not None or self._waiting.wait(seconds)

    def _interrupted(self) -> None:
        """`interruption` has been set."""
        if self._waiting is not None:
            self._waiting.set()

    def progress(self, done: float, note: str = "") -> Awaitable[None]:
        """Tell how far the handler is, from 0 to 1, with a few words; with or without `await`, from any thread.

        It is a hint for people: written to the row at most once a second, the latest word only, and only while this
        claim holds the job; it is lost when the database does not answer. Raises ValueError for a number outside.
        """
        if not 0.0 <= done <= 1.0:
            raise ValueError(text("job.progress", value=repr(done)))
        if self._hands is not None:
            self._hands.progress(self, float(done), str(note))
        return _TOLD

    async def assert_held(self, tx: Tx) -> None:
        """Make a transaction of the consumer's own depend on this claim: it commits only while the job is held.

        Raises LeaseLost, and the transaction can only be rolled back, when the claim is over. Else nobody claims the
        job until the transaction ends, so that no second run sees half of what this one writes. `tx` is `wrap_tx(…)`
        of the transaction. In SQL, from any driver: `select brooq_assert_held(id, token)`.
        """
        if self._hands is None:
            raise TxError(text("job.no_hands"))
        await self._hands.assert_held(self, tx)

    @property
    def on_succeeded(self) -> Callable[[OnSucceeded], OnSucceeded]:
        """Register a callback `(tx)`, sync or async, to run in the very transaction that closes the job (requirement C9).

        Use it as a call, as a decorator, or assign to it. Callbacks run only on success, in order of registration,
        each time the closing transaction is tried; if one raises, the job is not closed and the attempt has failed.
        """
        return self._register

    @on_succeeded.setter
    def on_succeeded(self, callback: OnSucceeded) -> None:
        self._callbacks = [callback]

    def _register(self, callback: OnSucceeded) -> OnSucceeded:
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(callback)
        return callback

    def chain(self, job: Job) -> UUID:
        """Enqueue a job in the transaction that closes this one; only on success (requirement C9).

        Answers the new job's id; where its idempotency key exists already, no row is made and that id is not used.
        Raises PayloadError at once, so that a bad payload shows where it was made.
        """
        encode(job.payload)
        if self._chained is None:
            self._chained = []
        self._chained.append(job)
        return job.id

    def __repr__(self) -> str:
        """Without the payload: it may hold what logs must not."""
        return f"<Claim {self.topic} {self.id} attempt {self.attempt} token {self.token}>"
