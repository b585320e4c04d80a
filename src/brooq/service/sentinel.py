"""Hears the signals that end the process, and ends it when it cannot end itself (requirement U3, fault 39).

A thread of its own: a handler that blocks the event loop blocks neither the hearing nor the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType

from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MARGIN = 5.0
"""How many seconds after the grace a stop may take: interrupted handlers exit, last outcomes are written."""
SILENCE = 1.5
"""A loop that does not answer for so long is blocked."""
_BEAT = 0.2
_FROM_PYTHON, _TOLD = 0x80, 0xC0
"""Marks of the bytes that wake the thread: with the first comes a signal's number, with the second how many there were."""


class Sentinel:
    """`grace` and `patience` are seconds: the shutdown grace, and how much longer outcomes may take to be written."""

    def __init__(self, grace: float, patience: float, abandoned: Callable[[], Iterable[str]]) -> None:
        """`abandoned` names, as `topic id`, the jobs that are still running; it is called in the sentinel's thread."""
        self.grace = grace
        self.patience = patience
        self._abandoned = abandoned
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard_signal: Callable[[int], None] = lambda _: None
        self._reader, self._writer = socket.socketpair()
        self._raw = self._noted = self._told = self._signals = 0
        self._other: int | None = None
        self._first: float | None = None
        self._second: float | None = None
        self._deadline: float | None = None
        self._answered = 0.0

    def install(self, loop: asyncio.AbstractEventLoop, heard: Callable[[int], None]) -> None:
        """From now on `heard(number)` is called in the loop, with 1 at the first signal, 2 at the second and so on."""
        self._loop, self._heard_signal = loop, heard
        self._writer.setblocking(False)
        for each in SIGNALS:
            signal.signal(each, self._note)
        self.listen()
        threading.Thread(target=self._watch, name="brooq-sentinel", daemon=True).start()

    def listen(self) -> None:
        """Take the wake-up descriptor, in the main thread. uvloop takes it whenever it begins to run: so once more then."""
        # Written by the C part of the interpreter: heard even while the main thread is deep in somebody's C code.
        other = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        if other in {-1, self._writer.fileno()}:
            return
        # Whoever had it goes on hearing. By a descriptor of our own: theirs may be closed, and its number another file's.
        self._other = os.dup(other) if self._other is None else os.dup2(other, self._other, inheritable=False)

    def tell(self, count: int) -> None:
        """Another process has heard so many signals that mean this one too. Each counts once, whichever way it came."""
        try:
            self._writer.send(bytes([_TOLD | min(count, 0xFF - _TOLD)]))
        except OSError:
            pass

    def hurry(self, seconds: float) -> None:
        """Whatever happens, the process ends within so many seconds."""
        self._deadline = time.monotonic() + seconds

    def _note(self, number: int, frame: FrameType | None) -> None:
        # The second way in: a library may have taken the wake-up descriptor for itself.
        try:
            self._writer.send(bytes([_FROM_PYTHON | number]))
        except OSError:
            pass

    def _watch(self) -> None:
        while True:
            watching = self._first is not None or self._deadline is not None
            ready, _, _ = select.select([self._reader], [], [], _BEAT if watching else None)
            if ready:
                self._count(self._reader.recv(64))
            if self._first is not None:
                self._judge(time.monotonic())

    def _count(self, received: bytes) -> None:
        for each in received:
            if each >= _TOLD:
                self._told = max(self._told, each - _TOLD)
            elif each >= _FROM_PYTHON:
                self._noted += 1
            else:
                self._raw += each in SIGNALS
                self._pass_on(each)
        # Each signal comes once by every way that is open.
        while self._signals < max(self._raw, self._noted, self._told):
            self._signals += 1
            now = time.monotonic()
            if self._signals == 1:
                self._first = self._answered = now
            elif self._signals == 2:
                self._second = now
            else:
                self._end("process.third")
            self._call(self._heard_signal, self._signals)

    def _pass_on(self, received: int) -> None:
        if self._other is not None:
            try:
                os.write(self._other, bytes([received]))
            except OSError:
                pass  # nobody reads there any more

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # the loop is closed: the end is near anyway

    def _pong(self) -> None:
        self._answered = time.monotonic()

    def _judge(self, now: float) -> None:
        self._call(self._pong)
        assert self._first is not None
        limit = self._first + self.grace
        if self._second is not None:
            limit = min(limit, self._second)
        blocked = now > limit + MARGIN and now - self._answered > SILENCE
        late = now > limit + MARGIN + self.patience or (self._deadline is not None and now > self._deadline)
        if blocked or late:
            self._end("process.forced")

    def _end(self, reason: str) -> None:
        # In a thread: whoever blocks the loop may hold the lock of the log as well.
        teller = threading.Thread(target=self._tell, args=(reason,), daemon=True)
        teller.start()
        teller.join(1.0)
        os._exit(1)

    def _tell(self, reason: str) -> None:
        jobs = ", ".join(list(self._abandoned())[:20]) or "-"
        log.error(text(reason, jobs=jobs))
        logging.shutdown()


def end_soon(code: int, seconds: float = 2.0) -> None:
    """The interpreter's own end waits for every thread: one that is stuck in a handler must not keep it."""
    watch = threading.Timer(seconds, os._exit, (code,))
    watch.daemon = True
    watch.start()
