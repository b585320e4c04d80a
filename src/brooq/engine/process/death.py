"""How a child process died, in words: by which signal or code, with how much memory, and where it was."""

from __future__ import annotations

import os
import re
import signal
import sys

from brooq.vocabulary.error import ProcessDied
from brooq.vocabulary.message import text

MAX_FRAMES = 12
_FRAME = re.compile(r'^\s+File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)$')
_OURS = os.path.join("brooq", "engine", "process") + os.sep  # noqa: PTH118  a part of a path, in a traceback's words


def died(status: int | None, *, seconds: float, peak: int, dump: str, why: str = "", ours: bool = False) -> ProcessDied:
    """The error of an attempt whose process has died. `status` is what waiting for it told, None when somebody else
    had waited; `peak` is bytes; `dump` is what faulthandler wrote; `why` and `ours`: whether and why we killed it."""
    if status is None:
        end = text("engine.died_unheard", seconds=seconds)
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        end = text("engine.died_signal", signal=signal_name(number), seconds=seconds)
        if number == signal.SIGKILL and not ours:
            end += text("engine.died_outside")
    else:
        end = text("engine.died_exit", code=os.waitstatus_to_exitcode(status), seconds=seconds)
    parts = [part for part in (why, end) if part]
    if peak:
        parts.append(text("engine.died_peak", peak=megabytes(peak)))
    stack = where(dump)
    if stack:
        parts.append(text("engine.died_stack", stack=stack))
    return ProcessDied("; ".join(parts))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1024 / 1024:.0f} MiB"


def peak_of(maxrss: int) -> int:
    """`ru_maxrss` in bytes: it counts kilobytes on Linux, bytes on macOS."""
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def where(dump: str) -> str:
    """The innermost frames of the thread that ran the handler, out of the last traceback that faulthandler wrote."""
    threads = re.split(r"^(?=(?:Current thread|Thread) 0x|Stack \(most recent call first\))", dump, flags=re.MULTILINE)
    # The main thread runs the handler, and is the last one of every dump; several dumps stand one behind the other.
    for thread in reversed(threads):
        frames = [match for match in map(_FRAME.match, thread.splitlines()) if match]
        if not any(match["name"] == "serve_jobs" for match in frames):
            continue
        theirs = [match for match in frames if _OURS not in match["file"] and "<frozen" not in match["file"]]
        return " < ".join(f"{match['name']} ({match['file']}:{match['line']})" for match in theirs[:MAX_FRAMES])
    return ""
