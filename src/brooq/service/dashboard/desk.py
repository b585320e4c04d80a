"""What the dashboard works with: the board to read from, the operator to act by, of the store that the process has."""

from __future__ import annotations

from brooq.engine.store import Store
from brooq.postgres.board import Board
from brooq.postgres.operator import Operator
from brooq.postgres.store import PostgresStore


class Desk:
    """Empty until a store is there: a process shows its pages before its application has started."""

    def __init__(self) -> None:
        """Connects to nothing."""
        self._store: PostgresStore | None = None
        self.board: Board | None = None

    def watch(self, store: Store) -> None:
        """Show this store from now on. One that is not in PostgreSQL has nothing to show."""
        if isinstance(store, PostgresStore) and store is not self._store:
            self._store = store
            self.board = Board(store)

    def operator(self, actor: str) -> Operator:
        """Acts in the name of somebody; closed by whoever asked for it."""
        assert self._store is not None, "actions come from pages, and those are read from the board"
        return Operator(self._store, actor)

    async def close(self) -> None:
        """Close the connections."""
        board, self.board, self._store = self.board, None, None
        if board is not None:
            await board.close()
