"""The built program at work."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from tests.service.brooq_process import HEAD, Worker

APP = dedent(HEAD) + dedent("""
    @queue.kind("mail")
    async def mail(claim: Claim) -> None:
        print("mail for", claim.payload["to"], flush=True)
""")


class Program(Worker):
    """A worker of a program that was built."""

    def __init__(self, start: Sequence[str], arguments: list[str], env: Mapping[str, str], cwd: Path) -> None:
        """Start it: `start` is the program, with whatever is to be before it."""
        self.start = start
        super().__init__(arguments, env, cwd)

    def command(self, arguments: list[str]) -> list[str]:
        """How it is started."""
        return [*self.start, "worker", *arguments]


@contextmanager
def working(
    program: Path, *arguments: str, env: Mapping[str, str], cwd: Path, before: Sequence[str] = ()
) -> Iterator[Program]:
    """A worker for the length of a block; `before` is put before its command."""
    started = Program([*before, str(program)], list(arguments), env, cwd)
    try:
        yield started
    finally:
        started.process.kill()
        started.exit_code()
        if started.process.stdout is not None:
            started.process.stdout.close()


def run(program: Path, *arguments: str, env: Mapping[str, str], cwd: Path) -> str:
    """Run a command of it to its end; answers what it said."""
    done = subprocess.run(
        [program, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
