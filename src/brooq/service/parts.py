"""What is put on the surface beside health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from brooq.postgres.store import PostgresStore
from brooq.service.api.site import Api
from brooq.service.dashboard.site import Dashboard
from brooq.service.http import Part
from brooq.service.secret import Secret
from brooq.service.settings import Settings
from brooq.service.token import Tokens

CONNECTIONS = 4
"""How many connections the supervisor of several processes opens at most, for what its surface shows."""


def make_parts(tokens: Tokens, *, visitor: Secret | None = None, payloads: bool = False) -> list[Part]:
    """Every part. They show nothing before they watch a store, and nothing to whoever has no token. Where none is set,
    `visitor` opens them, a token of this run alone; metrics stay as they are without. `payloads`: are shown."""
    if not tokens and visitor is not None:
        tokens = Tokens([visitor])
    return [Api(tokens), Dashboard(tokens, payloads=payloads)]


def end_streams(parts: Sequence[Part]) -> None:
    """Let answers that have no end of their own come to one: the surface waits for all of them when it stops."""
    for part in parts:
        if isinstance(part, Dashboard):
            part.end_streams()


async def close_parts(parts: Sequence[Part], seconds: float) -> None:
    """Close them, within so many seconds."""
    closing = [asyncio.ensure_future(part.close()) for part in parts]
    if closing:
        await asyncio.wait(closing, timeout=seconds)


def make_store(settings: Settings) -> PostgresStore | None:
    """The store that the settings name, over a pool that is not open yet; None when they name no database."""
    if settings.database_url is None:
        return None
    return PostgresStore(settings.make_pool(CONNECTIONS), settings.schema, wakeups=settings.wakeups)
