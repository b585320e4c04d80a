"""What is put on the surface beside health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from brooq.postgres.store import PostgresStore
from brooq.service.api.site import Api
from brooq.service.http import Part
from brooq.service.settings import Settings
from brooq.service.token import Tokens

CONNECTIONS = 4
"""How many connections the supervisor of several processes opens at most, for what its surface shows."""


def make_parts(tokens: Tokens) -> list[Part]:
    """Every part. They show nothing before they watch a store, and nothing to whoever has no token."""
    return [Api(tokens)]


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
