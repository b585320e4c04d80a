"""The entry point of the `brooq` command: imports nothing that is not needed, and turns every error into an exit code.

0: done. 1: the thing asked for failed. 2: wrong usage or settings.
"""

from __future__ import annotations

import os
import sys

from brooq.vocabulary.message import text

_EXTRA = frozenset(
    {"click", "durationpy", "dotenv", "prometheus_client", "rich", "starlette",
     "structlog", "uvicorn"}
)  # fmt: skip
"""What the extra `worker` brings."""


def main() -> None:
    """Run the command line of this process, and leave the process."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has enough. The interpreter would flush once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; answers the exit code."""
    try:
        from brooq.service.commands import invoke  # noqa: PLC0415  the extra may be missing

        return invoke(arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(text("command.extra_missing", module=error.name) + "\n")
        return 1
