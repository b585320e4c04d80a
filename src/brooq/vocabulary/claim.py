"""A claim: a job in the hands of a worker, as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from brooq.vocabulary.job import Job
from brooq.vocabulary.payload import decode, encode
from brooq.vocabulary.signal import Interruption
from brooq.vocabulary.tx import Tx

OnSucceeded: TypeAlias = Callable[[Tx], Awaitable[None] | None]
Handler: TypeAlias = Callable[["Claim"], Awaitable[Any]]

_UNREAD: Any = object()


class Lease(NamedTuple):
    """Who holds the job, and until when by the database's clock at the claim. Renewals move it on."""

    owner: str
    until: datetime


class Claim:
    """A job in a worker's hands. `attempt` counts from 1.

    `token` grows by one at every claim of the job and is never reset: `f"{claim.id}:{claim.token}"` is a key for
    effects outside that should happen once per run, `claim.id` one for effects that should happen once.
    """

    __slots__ = (
        "_callbacks",
        "_chained",
        "_payload",
        "_source",
        "attempt",
        "id",
        "interruption",
        "lease",
        "max_attempts",
        "token",
        "topic",
    )

    def __init__(
        self, *, id: UUID, topic: str, payload: str, attempt: int, max_attempts: int, token: int, lease: Lease
    ) -> None:
        """Made by the engine; `payload` is the row's JSON text, decoded when the handler first looks."""
        self.id = id
        self.topic = topic
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.token = token
        self.lease = lease
        self.interruption: Interruption | None = None
        """Why the handler was interrupted; None while it was not. The engine sets it."""
        self._source = payload
        self._payload = _UNREAD
        self._callbacks: list[OnSucceeded] | None = None
        self._chained: list[Job] | None = None

    @property
    def payload(self) -> Any:
        """The job's payload. Raises PayloadError when the row's JSON cannot be read."""
        if self._payload is _UNREAD:
            self._payload = decode(self._source)
        return self._payload

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
