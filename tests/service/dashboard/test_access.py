"""Sessions: only who shows a token gets one, it allows what its token allows, and ends when that is taken away."""

from __future__ import annotations

import pytest

from brooq.service.dashboard.access import LIFETIME, Access
from brooq.service.secret import Secret
from brooq.service.token import Tokens

WRITING, READING, OTHER = "w" * 43, "r" * 43, "o" * 43


class Clock:
    """Moves when it is told to."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens() -> Tokens:
    return Tokens([Secret(WRITING)], [Secret(READING)])


@pytest.fixture
def access(tokens: Tokens, clock: Clock) -> Access:
    return Access(tokens, clock)


@pytest.mark.parametrize(("token", "writes"), [(WRITING, True), (READING, False), (f" {WRITING}\n", True)])
def test_a_token_opens_a_session_that_may_what_the_token_may(access: Access, token: str, writes: bool) -> None:
    session = access.session(access.log_in(token, "  Anna\n\u202eB. "))
    assert session is not None
    assert (session.writes, session.name) == (writes, "Anna B.")


@pytest.mark.parametrize("token", ["", OTHER, WRITING[:-1], WRITING + "w", "\udcff" * 43, "w" * 100_000])
def test_nothing_else_does(access: Access, token: str) -> None:
    assert access.log_in(token, "") is None


def test_without_tokens_nobody_gets_in() -> None:
    access = Access(Tokens())
    assert not access
    assert access.log_in("", "") is None
    assert access.session("") is None


@pytest.mark.security("S26")
def test_a_cookie_that_was_touched_is_nobodys(access: Access) -> None:
    cookie = access.log_in(READING, "Anna")
    assert cookie is not None
    for at in range(0, len(cookie), 7):
        other = "A" if cookie[at] != "A" else "B"
        assert access.session(cookie[:at] + other + cookie[at + 1 :]) is None
    for wrong in (None, "", ".", "a.b", cookie + "A", cookie[:-1], cookie * 20, "\udcff.\udcff"):
        assert access.session(wrong) is None


@pytest.mark.security("S3")
def test_a_session_ends_with_its_token_and_with_time(access: Access, tokens: Tokens, clock: Clock) -> None:
    cookie, other = access.log_in(WRITING, ""), access.log_in(READING, "")
    tokens.replace([Secret(OTHER), Secret(WRITING)])
    assert access.session(cookie) is not None
    assert access.session(other) is None
    tokens.replace([Secret(OTHER)])
    assert access.session(cookie) is None
    tokens.replace([Secret(WRITING)])
    clock.now += LIFETIME
    assert access.session(cookie) is not None
    clock.now += 1
    assert access.session(cookie) is None


@pytest.mark.security("S3")
def test_a_token_that_may_only_read_from_now_on_makes_its_sessions_readers(access: Access, tokens: Tokens) -> None:
    cookie = access.log_in(WRITING, "")
    tokens.replace([], [Secret(WRITING)])
    session = access.session(cookie)
    assert session is not None
    assert not session.writes


def test_seals_are_of_one_session_and_never_twice_the_same(access: Access) -> None:
    first, second = access.session(access.log_in(WRITING, "")), access.session(access.log_in(WRITING, ""))
    assert first is not None
    assert second is not None
    seals = {first.seal() for _ in range(20)}
    assert len(seals) == 20
    for seal in seals:
        assert first.accepts(seal)
        assert not second.accepts(seal)
    for wrong in ("", ".", "a.b", "\udcff.\udcff", next(iter(seals))[:-1]):
        assert not first.accepts(wrong)
