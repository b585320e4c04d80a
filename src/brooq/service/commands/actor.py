"""Who acts, and acting on jobs one after the other."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from brooq.engine.reason import sanitize
from brooq.postgres.operator import Operator
from brooq.service.commands.session import Session, session


def who() -> str:
    """The person, as far as the system knows: behind sudo the one who called it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    behind = os.environ.get("SUDO_USER")
    named = f"{behind} as {user}" if behind and behind != user else user
    return sanitize(f"{named}@{socket.gethostname()}", 128)


@dataclass(frozen=True, slots=True)
class Acting:
    """A session whose deeds are written down under a name."""

    session: Session
    operator: Operator


@asynccontextmanager
async def acting() -> AsyncIterator[Acting]:
    """Connect, check the schema, and close at the end. Raises as `session`."""
    async with session() as opened:
        operator = Operator(opened.store, who())
        try:
            yield Acting(opened, operator)
        finally:
            await operator.close()
