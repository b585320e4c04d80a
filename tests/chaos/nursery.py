"""Makes worker processes by fork, so that a killed one is replaced within milliseconds.

`python -m tests.chaos.nursery FOLDER` reads one JSON object a line from its input (a `Setup`) and answers the new
process's number. When its input ends, whoever started it is gone or done: every child that it has made is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from tests.chaos.worker import Setup, run


def main(folder: Path) -> None:
    """Serve until the input ends."""
    children = []
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        setup = Setup(**json.loads(line))
        child = os.fork()
        if child == 0:
            work(setup, folder)
        children.append(child)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    for child in children:
        try:
            # A number that another program has by now is not ours to touch.
            if f"\nPPid:\t{os.getpid()}\n" in Path(f"/proc/{child}/status").read_text():
                os.kill(child, signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue


def work(setup: Setup, folder: Path) -> None:
    """What a child does; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(folder / "workers.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream, target in ((0, nothing), (1, log), (2, log)):
            os.dup2(target, stream)
        run(setup, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
