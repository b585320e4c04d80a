"""Handlers that run in child processes: found by their import path, as in any application."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brooq import Claim, Job, MustCancel, MustDelay, MustGiveUp, current_claim

log = logging.getLogger("tests.process")


@dataclass
class Letter:
    """A typed payload."""

    to: str
    copies: int = 1


def tells(claim: Claim) -> Any:
    """Where it ran, and what it was given."""
    current = current_claim()
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "payload": claim.payload,
        "attempt": claim.attempt,
        "current": current is claim,
        "files": [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.exists()],
    }


async def tells_async(claim: Claim) -> Any:
    """The same from a coroutine."""
    await asyncio.sleep(0)
    return tells(claim)


def typed(claim: Claim[Letter]) -> str:
    """Reads a dataclass."""
    return f"{claim.payload.copies} to {claim.payload.to}"


def fails(claim: Claim) -> None:
    """Raises what its payload names."""
    raise {"ValueError": ValueError("no"), "SystemExit": SystemExit(3), "cancel": MustCancel("pointless")}[
        claim.payload
    ]


def wraps(claim: Claim) -> None:
    """A signal inside of another error."""
    if claim.payload == "give up":
        raise RuntimeError("wrapped") from MustGiveUp("never")
    raise MustDelay(7)


def leaves(claim: Claim) -> None:
    """Ends its process."""
    os._exit(7)


def crashes(claim: Claim) -> None:
    """Reads where nothing is."""
    ctypes.string_at(0)


def kills_itself(claim: Claim) -> None:
    """As the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def deaf(claim: Claim) -> None:
    """C code that never returns and keeps the interpreter's lock, with every signal blocked that can be."""
    Path(claim.payload).touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    re.match(r"(a+)+$", "a" * 64 + "b")


def pauses(claim: Claim) -> None:
    """C code that waits for ever, and lets the interpreter go."""
    Path(claim.payload).touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        ctypes.CDLL(None).pause()


def sleeps(claim: Claim) -> str:
    """Hears of nothing but SIGTERM."""
    Path(claim.payload).touch()
    time.sleep(600)
    return "slept"


def looks(claim: Claim) -> None:
    """Looks whether it should end."""
    Path(claim.payload).touch()
    if claim.wait_canceled(600):
        Path(claim.payload).write_text(type(claim.interruption).__name__)
        raise RuntimeError("told")


async def waits(claim: Claim) -> None:
    """A coroutine that is canceled."""
    Path(claim.payload).touch()  # noqa: ASYNC240  a test reads it
    try:
        await asyncio.sleep(600)
    finally:
        Path(claim.payload).write_text(type(claim.interruption).__name__)  # noqa: ASYNC240


def eats(claim: Claim) -> None:
    """More and more memory."""
    held = []
    while True:
        held.append(bytearray(os.urandom(1)) * 4_000_000)
        time.sleep(0.01)


def breeds(claim: Claim) -> None:
    """Starts a process that would outlive it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(claim.payload).write_text(str(child.pid))
    time.sleep(600)


def logs(claim: Claim) -> None:
    """Says something, and something else with an error."""
    log.warning("dear %s", claim.payload, extra={"letters": 3})
    try:
        raise ValueError("as an example")  # noqa: TRY301
    except ValueError:
        log.exception("with its traceback")


def advances(claim: Claim) -> None:
    """Tells how far it is."""
    claim.progress(0.5, "half")


def chains(claim: Claim) -> None:
    """Leaves a child job."""
    claim.chain(Job("next", {"big": 2**100, "float": 1e16}, idempotency_key="one", tags=("a",), metadata={"b": 1}))


def calls_back(claim: Claim) -> None:
    """Wants a transaction."""
    claim.on_succeeded(print)


def returns_nonsense(claim: Claim) -> Any:
    """What JSON cannot hold."""
    return {"when": object()}


def returns_awaitable(claim: Claim) -> Any:
    """Has forgotten something."""
    return tells_async(claim)


def hides(claim: Claim) -> Any:
    """Whether others may read this process's memory: PR_GET_DUMPABLE."""
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)


def quick(claim: Claim) -> None:
    """Nothing."""
