"""What the adapter needs of a driver: one protocol, so that every statement is written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Rows: TypeAlias = Sequence[Sequence[Any]]

BEGIN = "begin isolation level read committed"
"""How every transaction of ours begins, whatever the database's default is."""

ISOLATION = "select current_setting('default_transaction_isolation')"
"""How those begin that nobody begins aloud."""


class Shared(Protocol):
    """A transaction that the queue shares with its consumer, on whatever object the consumer has."""

    @property
    def raw(self) -> Any:
        """The consumer's own object."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    @property
    def begins(self) -> bool:
        """Whether a statement outside of a transaction begins one; else it would commit on its own."""

    async def fetch(self, statement: str, parameters: Sequence[Any] = (), *, prepare: bool | None = None) -> Rows:
        """Run one statement with `$1` placeholders and answer its rows. Raises the driver's errors.

        `prepare` False: planned with its values, every time.
        """

    async def commit(self) -> None:
        """Commit the open transaction."""

    async def rollback(self) -> None:
        """Roll the open transaction back."""


class Session(Shared, Protocol):
    """One connection, in the driver's autocommit: a statement is a transaction of its own unless `begin` was run."""

    @property
    def pid(self) -> int:
        """The process that the server named at login; behind a pooler another one answers."""

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or lost."""

    def packed(self, parameters: Sequence[Any]) -> Sequence[Any]:
        """The parameters as `fetch` would make them before it sends them, for whoever has time before it can."""

    async def execute(self, command: str) -> None:
        """Run a command without parameters."""

    async def listen(self, channel: str, hear: Callable[[str], None]) -> None:
        """Send what is notified on a channel to `hear`, where the driver hears by itself as soon as it comes, else while
        `heard` waits. The channel's name is a plain word."""

    async def heard(self, seconds: float) -> None:
        """Wait until something was notified since the last time, for at most so many seconds."""

    def sever(self) -> None:
        """Shut the socket down: whoever waits on it gets an error at once, even from a dead peer."""

    async def close(self) -> None:
        """Close a connection of the engine's own."""

    async def give_back(self, *, untouched: bool = False) -> None:
        """Give a borrowed connection back to the pool, as it was lent; an open transaction is rolled back before.

        `untouched`: nothing of the session was changed and no transaction is open, so that there is nothing to undo.
        """


class Driver(Protocol):
    """A consumer's pool, and how to make connections beside it."""

    errors: tuple[type[Exception], ...]
    """What the driver raises."""

    @property
    def prepares(self) -> bool:
        """Whether statements may be prepared: not behind a pooler in transaction mode, which has no sessions at all."""

    @property
    def opened(self) -> bool:
        """Whether somebody has opened the pool."""

    async def open(self) -> None:
        """Open a pool that nobody has opened yet, without waiting for connections that it does not need."""

    async def close(self, timeout: float) -> None:
        """Close the pool; connections that are not given back within so many seconds are cut off."""

    async def connect(self) -> Session:
        """A connection of the engine's own, with the pool's parameters. Raises the driver's errors."""

    async def borrow(self, *, checked: bool) -> Session:
        """A connection of the pool. Raises the driver's errors. `checked`: asked whether it is alive, which is a round trip;
        whoever can try again does without."""

    async def mend(self) -> None:
        """Replace what the pool has of dead connections: where one has died, all have, most likely."""
