"""Who may look and who may act: sessions without a store, made from the tokens of the surface (rules S2, S3).

A session is a cookie that only the holder of a token can have got: signed with a key that is derived from that token. So it
ends when its token is taken away, and outlives a restart; nothing is kept here.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from brooq.service.token import Right, Tokens, digest_of

COOKIE = "brooq_session"
LIFETIME = 12 * 3600
"""After how many seconds somebody has to log in anew."""
MAX_NAME = 80
_MAX_COOKIE = 1024


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has shown a token. `writes`: that token may change things."""

    name: str
    writes: bool
    number: str
    """Of this session; forms prove by it that they came from one of its pages."""
    key: bytes

    def seal(self) -> str:
        """What a form of this session carries, different every time: a compressed page tells nothing of it by its size."""
        salt = secrets.token_urlsafe(9)
        return f"{salt}.{_sign(self.key, f'form {self.number} {salt}')}"

    def accepts(self, seal: str) -> bool:
        """Whether a form came from a page of this session."""
        salt, _, signature = seal.partition(".")
        return hmac.compare_digest(_bytes(_sign(self.key, f"form {self.number} {salt}")), _bytes(signature))


class Access:
    """Who gets in: whoever shows one of the tokens of the surface."""

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        """Without any token nobody gets in. Tokens may be replaced under way: sessions of those that are gone end."""
        self._tokens = tokens
        self._clock = clock

    @property
    def _keys(self) -> list[tuple[bytes, bool]]:
        return [(_key(each), right is Right.WRITE) for each, right in self._tokens.known]

    def __bool__(self) -> bool:
        """Whether anybody can get in."""
        return bool(self._tokens)

    def log_in(self, token: str, name: str) -> str | None:
        """The cookie of a new session; None for a wrong token. Compared as digests, with every token, in constant time."""
        key = _key(digest_of(token.strip()))
        matches = [(each, hmac.compare_digest(each, key)) for each, _ in self._keys]
        found = next((each for each, equal in matches if equal), None)
        if found is None:
            return None
        said = {"n": _plain(name), "i": secrets.token_urlsafe(12), "e": int(self._clock()) + LIFETIME}
        body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
        return f"{body}.{_sign(found, f'session {body}')}"

    def session(self, cookie: str | None) -> Session | None:
        """Whose cookie this is; None when it is nobody's any more, or was never ours."""
        if not cookie or len(cookie) > _MAX_COOKIE:
            return None
        body, _, signature = cookie.partition(".")
        for key, writes in self._keys:
            if hmac.compare_digest(_bytes(_sign(key, f"session {body}")), _bytes(signature)):
                try:
                    said = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
                except (ValueError, binascii.Error):
                    return None
                if said["e"] < self._clock():
                    return None
                return Session(said["n"], writes, said["i"], key)
        return None


def _key(token: bytes) -> bytes:
    """From the digest of a token, which is kept nowhere but in this process."""
    return hmac.digest(token, b"brooq dashboard", "sha256")


def _sign(key: bytes, said: str) -> str:
    return base64.urlsafe_b64encode(hmac.digest(key, _bytes(said), "sha256")).decode().rstrip("=")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def _plain(name: str) -> str:
    """A name as the trail of operations takes it."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:MAX_NAME]
