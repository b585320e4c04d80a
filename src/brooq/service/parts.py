"""What is put on the surface beside health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from brooq.engine.store import Store
from brooq.postgres.store import PostgresStore
from brooq.service.http import Part
from brooq.service.secret import Secret
from brooq.service.settings import Settings
from brooq.service.token import Tokens

CONNECTIONS = 4
"""How many connections the supervisor of several processes opens at most, for what its surface shows."""


class Parts:
    """Every part of the surface beside health and metrics: made when somebody first asks for one of them, since a
    worker that nobody looks at can do without what they import. They show nothing before they watch a store, and nothing
    to whoever has no token."""

    def __init__(self, tokens: Tokens, *, visitor: Secret | None = None, payloads: bool = False) -> None:
        """Where no token is set, `visitor` opens them, a token of this run alone; metrics stay as they are without.
        `payloads`: are shown."""
        self._tokens = Tokens([visitor]) if not tokens and visitor is not None else tokens
        self._payloads = payloads
        self._store: Store | None = None
        self._made: Sequence[Part] | None = None

    async def made(self) -> Sequence[Part]:
        """All of them; imported in a thread, so that jobs go on meanwhile."""
        made = await asyncio.to_thread(_make, self._tokens, payloads=self._payloads)
        if self._made is None:
            self._made = made
            if self._store is not None:
                self.watch(self._store)
        return self._made

    def watch(self, store: Store) -> None:
        """Show this store from now on."""
        self._store = store
        for part in self._made or ():
            part.watch(store)

    def end_streams(self) -> None:
        """Let answers that have no end of their own come to one: the surface waits for all of them when it stops."""
        for part in self._made or ():
            part.end_streams()

    async def close(self, seconds: float) -> None:
        """Close them, within so many seconds."""
        closing = [asyncio.ensure_future(part.close()) for part in self._made or ()]
        if closing:
            await asyncio.wait(closing, timeout=seconds)


def _make(tokens: Tokens, *, payloads: bool) -> Sequence[Part]:
    from brooq.service.api.site import Api  # noqa: PLC0415  megabytes, for who looks
    from brooq.service.dashboard.site import Dashboard  # noqa: PLC0415

    return [Api(tokens), Dashboard(tokens, payloads=payloads)]


def make_store(settings: Settings) -> PostgresStore | None:
    """The store that the settings name, over a pool that is not open yet; None when they name no database."""
    if settings.database_url is None:
        return None
    return PostgresStore(settings.make_pool(CONNECTIONS), settings.schema, wakeups=settings.wakeups)
