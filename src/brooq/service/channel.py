"""What a worker process and its supervisor say to each other: lines of JSON over a socket that only the two of them have.

When one of them is gone the other reads the end of the stream: nobody is left behind, however the other ended.
"""

from __future__ import annotations

import json
from typing import Any, Final

# The process says:
HELLO: Final = "hello"
"""It hears signals and this channel now."""
STARTED: Final = "started"
"""It works; with the seconds of its grace, and of its patience with outcomes after that."""
GAVE_UP: Final = "gave up"
"""It ends for a reason that another start would not change."""
NUMBERS: Final = "numbers"
"""What has changed in its metrics; comes every second, changed or not."""
BEAT: Final = "beat"
"""Whether it keeps its leases: comes with the numbers, once there are any to keep."""
# The supervisor says:
STOP: Final = "stop"
"""With how many signals it has heard."""
ROTATE: Final = "rotate"
"""Read the tokens anew."""
# Asked by the supervisor without a value, answered by the process with a report:
HEALTH: Final = "health"
"""With a look at the database."""
LIVENESS: Final = "liveness"
"""Without."""

PERIOD: Final = 1.0
"""How many seconds lie between two reports of a process."""
SILENCE: Final = 5.0
"""A process that has not reported for so many seconds is stopped, or does not get to anything."""


def pack(word: str, value: object = None) -> bytes:
    """One line."""
    return json.dumps([word, value], separators=(",", ":")).encode() + b"\n"


def unpack(line: bytes) -> tuple[str, Any]:
    """Its word and its value. Raises ValueError when it is none."""
    word, value = json.loads(line)
    return str(word), value
