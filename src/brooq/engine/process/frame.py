"""What the worker and a child process say to each other: JSON with its length before it, over a pair of sockets.

JSON and not pickle: a handler that was taken over by what it reads must not take over the worker, which holds the
database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_LENGTH = 4
MAX_BYTES = 64 * 1024 * 1024
"""What is longer than this is no message."""


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(_LENGTH, "big") + body


class Unpacker:
    """Messages out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are complete with this. Raises ValueError for what is none."""
        self._buffer += received
        while len(self._buffer) >= _LENGTH:
            length = int.from_bytes(self._buffer[:_LENGTH], "big")
            if length > MAX_BYTES:
                raise ValueError(length)
            end = _LENGTH + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH:end])
            del self._buffer[:end]
            message = json.loads(body)
            if not isinstance(message, dict):
                raise ValueError(message)  # noqa: TRY004  it is bad data, not a wrong type of ours
            yield message
