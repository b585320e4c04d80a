"""Completion in the shells themselves: what a person gets who presses Tab."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.service.brooq_process import environment
from tests.service.brooq_process import inside as brooq
from tests.tools import FOLDER, Tool, fish, zsh

PROGRAMS = Path(sys.executable).parent


def settings(dsn: str | None, tool: Tool | None = None) -> dict[str, str]:
    env = environment(dsn) | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}
    libraries = tool.environment.get("LD_LIBRARY_PATH") if tool else None
    return env | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def script(shell: str, folder: Path) -> Path:
    done = brooq("completion", shell, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    file = folder / f"brooq.{shell}"
    file.write_text(done.stdout)
    return file


LINES = [
    ("brooq expl", ["explain"]),
    ("brooq migrate ", ["up", "down", "status", "sql"]),
    ("brooq jobs --sta", ["--state"]),
    ("brooq jobs --state d", ["done", "dead"]),
    ("brooq pause mail.", ["mail.send", "mail.sort"]),
    ("brooq pause x", []),
]


@pytest.fixture
def topics(dsn: str, tmp_path: Path) -> str:
    """A database with topics in it."""
    for topic in ("mail.send", "mail.sort", "report"):
        assert brooq("enqueue", topic, dsn=dsn, cwd=tmp_path).returncode == 0
    return dsn


def test_bash(topics: str, tmp_path: Path) -> None:
    file = script("bash", tmp_path)
    program = f"""
        source {file}
        complete -p brooq >/dev/null || exit 1
        while IFS= read -r line; do
            COMP_WORDS=($line); [[ $line == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMPREPLY=()
            _brooq_completion brooq
            echo "${{COMPREPLY[*]}}"
        done
    """
    typed = "".join(f"{line}\n" for line, _ in LINES)
    done = subprocess.run(
        ["bash", "--norc", "-c", program], input=typed, env=settings(topics), cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert [line.split() for line in done.stdout.splitlines()] == [expected for _, expected in LINES]


def test_fish(topics: str, tmp_path: Path) -> None:
    tool = fish()
    file = script("fish", tmp_path)
    for line, expected in LINES:
        done = subprocess.run(
            [tool.program, "--no-config", "-c", f"source {file}; complete -C '{line}'"],
            env=settings(topics, tool) | {"HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip
        # fish sorts, and shows what each is for behind a tab.
        assert sorted(each.split("\t")[0] for each in done.stdout.splitlines()) == sorted(expected), line


@contextmanager
def typing(tool: Tool, env: dict[str, str], folder: Path) -> Iterator[int]:
    """An interactive zsh that reads what is typed."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [tool.program, "-f", "-i"], stdin=follower, stdout=follower, stderr=follower, env=env, cwd=folder,
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        yield leader
    finally:
        process.kill()
        process.wait(20)
        os.close(leader)


def seen(leader: int, pattern: str, seconds: float = 30.0) -> str:
    """What the shell shows, once the pattern is in it."""
    text, deadline = "", time.monotonic() + seconds
    while not re.search(pattern, text):
        assert time.monotonic() < deadline, text
        if select.select([leader], [], [], 0.2)[0]:
            text += os.read(leader, 65536).decode(errors="replace")
    return text


def test_zsh(topics: str, tmp_path: Path) -> None:
    tool = zsh()
    file = script("zsh", tmp_path)
    with typing(tool, settings(topics, tool) | {"HOME": str(tmp_path)}, tmp_path) as leader:
        if str(FOLDER) in tool.program:  # unpacked, not installed: it looks for its parts elsewhere
            modules, functions = next(FOLDER.glob("usr/lib/*/zsh/*")), FOLDER / "usr/share/zsh/functions"
            os.write(leader, f"module_path=({modules}); fpath=({functions} {functions}/**/*(/))\n".encode())
        os.write(
            leader, f"PS1='READY> '; autoload -Uz compinit; compinit -u -D; source {file}; echo loa''ded\n".encode()
        )
        seen(leader, "loaded")
        os.write(leader, b"brooq expl\t")
        seen(leader, "brooq explain ")
        os.write(leader, b"\x15brooq pause mail.se\t")
        seen(leader, "brooq pause mail.send ")
        os.write(leader, b"\x15brooq jobs --state de\t")
        seen(leader, "--state dead ")


@pytest.mark.parametrize("dsn", [None, "postgresql://user:canary@127.0.0.1:1/x", "nonsense"])
@pytest.mark.parametrize("words", ["brooq pause ma", "brooq nothing x", "brooq jobs --nothing"])
def test_without_a_database_a_key_completes_nothing_and_says_nothing(
    dsn: str | None, words: str, tmp_path: Path
) -> None:
    env = settings(dsn) | {"_BROOQ_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "brooq"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_key_imports_no_command_that_is_not_asked_for(tmp_path: Path) -> None:
    source = (
        "import sys; from brooq.service.cli import run\n"
        "try: run([])\n"
        "finally: print(sorted(m for m in sys.modules if m.startswith(('psycopg', 'rich', 'brooq.service.commands.'))))"
    )
    env = settings(None) | {"_BROOQ_COMPLETE": "bash_complete", "COMP_WORDS": "brooq e", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", source], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert "plain,explain" in done.stdout
    assert "['brooq.service.commands.click_text', 'brooq.service.commands.group']" in done.stdout
