"""One of several worker processes, as their supervisor sees it: starts it, hears it, ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from brooq.service import channel
from brooq.service.channel import SILENCE, pack, unpack
from brooq.service.health import GONE, NO_ANSWER, PATIENCE, STARTING, Report
from brooq.service.tally import Tally
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

_LINE: Final = 64 * 1024 * 1024
_LAST_WORDS: Final = 2.0
"""For how many seconds after its end the last that a process said is waited for."""
_SPARE: Final = 3.0
"""How many seconds longer than the process itself its supervisor waits for its end."""
_AT_ONCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended. `code` is negative when a signal ended it; `seconds` is how long it had run."""

    pid: int
    code: int
    seconds: float
    greeted: bool
    gave_up: bool


class Child:
    """One place for a process; whoever lives in it now. `limits` are the seconds that a stop may take until it says
    others: for handlers, and after that for outcomes."""

    def __init__(
        self,
        number: int,
        command: Callable[[int, int], Sequence[str]],
        tally: Tally,
        limits: tuple[float, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`command(number, descriptor)` is what to start."""
        self.number = number
        self.started = asyncio.Event()
        self.restarts = 0
        self._command = command
        self._tally = tally
        self._grace, self._patience = limits
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[str, asyncio.Future[Report]] = {}
        self._beats = True
        self._heard = clock()
        self._greeted = self._gave_up = self._killed = self._rotates = False
        self._signals = 0

    async def live(self) -> Ending:
        """Start the process and stay with it to its end. Raises OSError when it cannot be started."""
        self._greeted = self._gave_up = self._killed = self._rotates = False
        self.started.clear()
        began = self._heard = self._clock()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # In a group of its own: Ctrl-C in a terminal is for the supervisor, which passes it on.
                process = await asyncio.create_subprocess_exec(
                    *self._command(self.number, theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL, pass_fds=[theirs.fileno()], process_group=0,
                )  # fmt: skip
            except BaseException:
                ours.close()
                raise
        self._process = process
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_LINE)
        hearing = asyncio.ensure_future(self._hear(reader))
        code = await process.wait()
        await asyncio.wait([hearing], timeout=_LAST_WORDS)
        hearing.cancel()
        self._writer.close()
        self._process = self._writer = None
        self.started.clear()
        self._tally.forget(self.number)
        for answer in self._answers.values():
            answer.cancel()
        self._answers.clear()
        self._beats = True
        return Ending(process.pid, code, self._clock() - began, self._greeted, self._gave_up)

    @property
    def limit(self) -> float:
        """Within how many seconds of a signal it has ended, or is ended."""
        return self._grace + self._patience + _SPARE

    @property
    def silence(self) -> float:
        """For how many seconds it has said nothing."""
        return self._clock() - self._heard

    @property
    def up(self) -> bool:
        """Whether it works and says so."""
        return self.started.is_set() and self.silence < SILENCE

    @property
    def beats(self) -> bool:
        """Whether its leases are kept, as far as it can be known: one that is not there, or not up yet, has none."""
        return self._process is None or not self.started.is_set() or (self._beats and self.silence < SILENCE)

    async def health(self, word: str = channel.HEALTH) -> Report | str:
        """What it says of itself, or a word for why it says nothing; within the patience of health."""
        if self._process is None:
            return GONE
        if not self._greeted:
            return STARTING
        if word not in self._answers or self._answers[word].done():
            self._answers[word] = asyncio.get_running_loop().create_future()
            self._say(word)
        answer = self._answers[word]
        # A little longer than the process itself waits for its database.
        await asyncio.wait([answer], timeout=PATIENCE + 0.5)
        return answer.result() if answer.done() and not answer.cancelled() else NO_ANSWER

    def stop(self, signals: int) -> None:
        """Tell it how many signals have come. One that cannot hear yet has begun nothing, and is ended."""
        self._signals = signals
        if self._greeted:
            self._say(channel.STOP, signals)
        elif self._process is not None:
            self._send(signal.SIGTERM)

    def rotate(self) -> None:
        """Tell it to read the tokens anew. One that cannot hear yet may have read the old ones, and is told later."""
        if self._greeted:
            self._say(channel.ROTATE)
        else:
            self._rotates = True

    def end_if_overdue(self, heard: Sequence[float]) -> None:
        """Kill it when it should have ended by itself long ago. `heard` are the moments of the signals."""
        if self._process is None or self._killed:
            return
        now = self._clock()
        limit = heard[0] + self._grace
        if len(heard) > 1:
            limit = min(limit, heard[1])
        late = now > limit + self._patience + _SPARE
        late = late or (self.silence > SILENCE and now > limit + SILENCE + _SPARE)
        if late or (len(heard) > 2 and now > heard[2] + _AT_ONCE):
            log.error(text("process.overdue", number=self.number, pid=self._process.pid))
            self._send(signal.SIGKILL)
            self._killed = True

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            pass  # it has ended

    def _say(self, word: str, value: object = None) -> None:
        if self._writer is not None:
            self._writer.write(pack(word, value))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                self._heard = self._clock()
                self._understand(*unpack(line))
        except OSError:
            pass  # it ended while we were speaking

    def _understand(self, word: str, value: Any) -> None:
        match word:
            case channel.HELLO:
                self._greeted = True
                if self._rotates:
                    self._say(channel.ROTATE)
                if self._signals:
                    self._say(channel.STOP, self._signals)
            case channel.STARTED:
                self._grace, self._patience = value
                self.started.set()
            case channel.GAVE_UP:
                self._gave_up = True
            case channel.NUMBERS:
                self._tally.add(self.number, value)
            case channel.BEAT:
                self._beats = value
            case channel.HEALTH | channel.LIVENESS if word in self._answers and not self._answers[word].done():
                self._answers[word].set_result(Report.from_json(value))
