"""The bearer tokens of the surface, those that may write and those that may only read: two of each at a time, so that they
can be changed without a gap (rules S2, S3)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from enum import IntEnum

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


class Right(IntEnum):
    """What somebody may do, each including the one before."""

    NONE = 0
    READ = 1
    WRITE = 2


class Tokens:
    """Whoever shows one of these may read; with one of the first kind, change things too."""

    def __init__(self, tokens: Iterable[Secret] = (), reading: Iterable[Secret] = ()) -> None:
        """Without any nothing is asked for, and whatever can change something or shows jobs is off."""
        self._digests: list[tuple[bytes, Right]] = []
        self.replace(tokens, reading)

    def replace(self, tokens: Iterable[Secret], reading: Iterable[Secret] = ()) -> None:
        """From now on these count."""
        rights = [(token, Right.WRITE) for token in tokens] + [(token, Right.READ) for token in reading]
        self._digests = [(_digest(_bytes(token.reveal())), right) for token, right in rights]

    def __bool__(self) -> bool:
        """Whether a token is asked for."""
        return bool(self._digests)

    @property
    def known(self) -> list[tuple[bytes, Right]]:
        """The digests that count, with what each allows: sessions are made of them, and end with them."""
        return list(self._digests)

    def accept(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a right token is there."""
        return self.right(headers) >= Right.READ

    def right(self, headers: Iterable[tuple[bytes, bytes]]) -> Right:
        """What `Authorization: Bearer <token>` allows, when it is there exactly once. Compared as digests in constant time,
        with every token, so that the time tells neither how much of it was right nor which one matched; odd bytes are a
        wrong token, never an error (fault 54)."""
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1:
            return Right.NONE
        scheme, _, credentials = given[0].partition(b" ")
        digest = _digest(credentials)
        matches = [right if hmac.compare_digest(digest, each) else Right.NONE for each, right in self._digests]
        return max(matches, default=Right.NONE) if hmac.compare_digest(scheme, _SCHEME) else Right.NONE


def digest_of(token: str) -> bytes:
    """What is kept of a token, and compared."""
    return _digest(_bytes(token))


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
