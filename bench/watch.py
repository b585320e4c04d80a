"""The CPU that client and server use between two moments."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.place import Place
from bench.process import Peer


class Watch:
    """Starts when it is made."""

    def __init__(self, place: Place, peers: Sequence[Peer]) -> None:
        """`peers` are the client."""
        self._place = place
        self._peers = peers
        self._wall = time.monotonic()
        self._client = sum(peer.cpu() for peer in peers)
        self._server = place.server_seconds()

    def stop(self) -> tuple[float, float | None]:
        """Percent of one core of the client's processes, and of the server's where they are here."""
        wall = time.monotonic() - self._wall
        client = sum(peer.cpu() for peer in self._peers) - self._client
        server = self._place.server_seconds()
        if server is None or self._server is None:
            return 100 * client / wall, None
        return 100 * client / wall, 100 * (server - self._server) / wall
