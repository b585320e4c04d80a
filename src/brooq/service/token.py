"""The bearer tokens of the surface: two at a time, so that they can be changed without a gap (rules S2, S3)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from brooq.service.secret import Secret
from brooq.vocabulary.message import text

MIN_BYTES = 32
"""A shorter token can be guessed, or was made by hand."""
MAX_TOKENS = 2
_SCHEME = b"Bearer"


def parse(value: str) -> tuple[Secret, ...]:
    """One token, or the new and the old one separated by blanks. Raises ValueError, without the value, for others."""
    tokens = value.split()
    if len(tokens) > MAX_TOKENS:
        raise ValueError(text("setting.tokens", limit=MAX_TOKENS))
    if any(len(_bytes(token)) < MIN_BYTES for token in tokens):
        raise ValueError(text("setting.token_short", limit=MIN_BYTES))
    return tuple(Secret(token) for token in tokens)


class Tokens:
    """Whoever shows one of these may read the metrics."""

    def __init__(self, tokens: Iterable[Secret] = ()) -> None:
        """Without any nothing is asked for."""
        self._digests: list[bytes] = []
        self.replace(tokens)

    def replace(self, tokens: Iterable[Secret]) -> None:
        """From now on these count."""
        self._digests = [_digest(_bytes(token.reveal())) for token in tokens]

    def __bool__(self) -> bool:
        """Whether a token is asked for."""
        return bool(self._digests)

    def accept(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether `Authorization: Bearer <token>` is there, exactly once. Compared as digests in constant time, with
        every token, so that the time tells neither how much of it was right nor which one matched; odd bytes are a wrong
        token, never an error (fault 54)."""
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, credentials = given[0].partition(b" ")
        digest = _digest(credentials)
        matches = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(matches) and hmac.compare_digest(scheme, _SCHEME)


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
