"""The port for a transaction: structural, so that no driver is imported here (requirement T1)."""

from __future__ import annotations

from typing import Protocol


class Tx(Protocol):
    """An open transaction. Whoever opened it closes it (requirement T2)."""

    async def commit(self) -> None:
        """Make what was done in the transaction visible and durable."""

    async def rollback(self) -> None:
        """Undo what was done in the transaction; no error when it has ended already."""
