"""The bearer tokens of the surface: what is one, two at a time, and changing them under way."""

from __future__ import annotations

import ast
import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from tests.service.brooq_process import Table, inside, worker, write

import brooq.service
from brooq.service.environment import open_to_others
from brooq.service.secret import Secret
from brooq.service.token import MIN_BYTES, Tokens, parse
from brooq.vocabulary.error import ConfigError

NEW, OLD, WRONG = (f"{name}-{name}-cf2Xr0pOqkV7mWJ1uYb9cf2Xr0pOqkV7" for name in ("new", "old", "wrong"))

APP = """
    from pathlib import Path

    @queue.kind("quote", max_attempts=1)
    async def quote(claim: Claim) -> None:
        raise ValueError(Path(".env").read_text())
"""


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]


@pytest.mark.security("S2")
@pytest.mark.parametrize("value", ["short7", "x" * (MIN_BYTES - 1), f"{NEW} short7", f"{NEW} {OLD} {WRONG}", "я" * 15])
def test_a_token_that_could_be_guessed_is_refused_without_being_shown(value: str, tmp_path: Path) -> None:
    done = inside("check", cwd=tmp_path, HTTP_TOKEN=value, DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert done.returncode == 2
    assert "HTTP_TOKEN" in done.stderr
    assert not [part for part in value.split() if part in done.stderr]


@pytest.mark.security("S2")
def test_a_token_may_be_of_any_characters_and_ends_at_blanks() -> None:
    assert parse(f"  {NEW}\n") == (Secret(NEW),)
    assert parse("ключ" * 8) == (Secret("ключ" * 8),)
    assert parse(f"{NEW}\n{OLD}\n") == (Secret(NEW), Secret(OLD))
    assert parse("") == ()


@pytest.mark.security("S2")
@pytest.mark.parametrize(
    ("mode", "refused"), [(0o400, False), (0o600, False), (0o440, True), (0o444, True), (0o604, True), (0o640, True)]
)
def test_a_credential_that_others_may_read_is_refused(
    mode: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brooq.service.settings import load

    for name in (*os.environ,):
        if name.startswith("QUEUE_") or name in {"DATABASE_URL", "HTTP_TOKEN"}:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    file = tmp_path / "http_token"
    file.write_text(NEW)
    file.chmod(mode)
    assert open_to_others(file) is refused
    if refused:
        with pytest.raises(ConfigError, match="http_token may be read by others"):
            load()
    else:
        assert load().http_token == (Secret(NEW),)


@pytest.mark.security("S3")
def test_two_tokens_count_while_one_takes_the_place_of_the_other() -> None:
    tokens = Tokens([Secret(NEW), Secret(OLD)])
    assert tokens.accept(bearer(NEW))
    assert tokens.accept(bearer(OLD))
    assert not tokens.accept(bearer(WRONG))
    tokens.replace([Secret(NEW)])
    assert not tokens.accept(bearer(OLD))
    assert not tokens.accept(bearer(NEW) * 2)
    assert not Tokens().accept(bearer(""))
    assert not Tokens()


@pytest.mark.security("S3")
@pytest.mark.parametrize("arguments", [("--loop", "asyncio"), ("--loop", "auto"), ("--processes", "2")])
def test_a_running_worker_reads_its_tokens_anew_and_never_tells_them(
    arguments: tuple[str, str], dsn: str, tmp_path: Path
) -> None:
    """SIGHUP: no gap, no restart; and an empty or wrong file does not open what was closed."""
    file = tmp_path / ".env"
    file.write_text(f"HTTP_TOKEN={OLD}\n")
    with worker(*arguments, dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("has started", int(arguments[1]) if arguments[1].isdigit() else 1)
        url = f"http://127.0.0.1:{process.port()}/metrics"

        def code(token: str) -> int:
            return httpx.get(url, headers={"authorization": f"Bearer {token}"}, trust_env=False).status_code

        assert (code(OLD), code(NEW), code("none")) == (200, 401, 401)
        file.write_text(f"HTTP_TOKEN='{NEW} {OLD}'\n")
        process.send(signal.SIGHUP)
        process.wait_for("2 tokens count")
        assert (code(OLD), code(NEW)) == (200, 200)
        file.write_text(f"HTTP_TOKEN={NEW}\n")
        process.send(signal.SIGHUP)
        process.wait_for("1 tokens count")
        assert (code(OLD), code(NEW)) == (401, 200)
        for number, content in enumerate(["", "HTTP_TOKEN=short\n", "HTTP_TOKEN=\n"], 1):
            file.write_text(content)
            process.send(signal.SIGHUP)
            process.wait_for("stay as they are", number)
            assert (code("none"), code(NEW)) == (401, 200)
        assert process.log.count("tokens count") == 2
        process.send()
        assert process.exit_code() == 0
        assert not [token for token in (NEW, OLD) if token in process.log]


@pytest.mark.security("S3")
def test_processes_without_a_surface_hide_the_new_token_too(dsn: str, table: Table, tmp_path: Path) -> None:
    """The supervisor holds the surface and hears the signal; what the processes log and store is theirs to mask."""
    write(tmp_path, APP)
    file = tmp_path / ".env"
    file.write_text(f"HTTP_TOKEN={OLD}\n")

    def quoted() -> str:
        return str(table.wait(table.insert("quote"), "dead")[2])

    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("has started", 2)
        assert OLD not in quoted()
        file.write_text(f"HTTP_TOKEN='{NEW} {OLD}'\n")
        assert NEW in quoted()
        process.send(signal.SIGHUP)
        process.wait_for("2 tokens count")
        deadline = time.monotonic() + 60
        while NEW in quoted():
            assert time.monotonic() < deadline, "no process hides it"
        process.send()
        assert process.exit_code() == 0


@pytest.mark.security("S2")
def test_no_token_is_compared_with_an_operator() -> None:
    """`==` ends at the first byte that differs: it may stand between no secrets of the service."""
    service = Path(brooq.service.__path__[0])
    found = []
    # The checker's tokens are those of claims: numbers that everybody may know.
    for file in set(service.rglob("*.py")) - set((service / "verify").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In):
                named = {
                    part.id if isinstance(part, ast.Name) else getattr(part, "attr", "") for part in ast.walk(node)
                }
                if named & {"token", "tokens", "secret", "credentials", "digest", "reveal", "_digests"}:
                    found.append(f"{file.name}:{node.lineno}")
    assert found == []
