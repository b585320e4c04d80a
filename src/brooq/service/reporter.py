"""A worker process tells its supervisor how it is, and hears from it when to stop.

In a thread of its own: a handler that blocks the event loop hides neither the numbers nor the supervisor's end.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from prometheus_client.registry import Collector

from brooq.service.channel import (
    BEAT,
    GAVE_UP,
    HEALTH,
    HELLO,
    LIVENESS,
    NUMBERS,
    PERIOD,
    ROTATE,
    STARTED,
    STOP,
    pack,
    unpack,
)
from brooq.service.health import Report
from brooq.service.tally import Changes
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

_CHUNK = 64 * 1024
_FAREWELL = 1.0
_TRIES = 5


class Health(Protocol):
    """How the process is."""

    async def report(self) -> Report:
        """With a look at the database."""

    async def liveness(self) -> Report:
        """At once."""


class Reporter:
    """The process's end of the channel."""

    def __init__(
        self,
        channel: socket.socket,
        numbers: Collector,
        health: Health,
        beats: Callable[[], bool],
        stop: Callable[[int], None],
        rotate: Callable[[], None],
    ) -> None:
        """`health` is asked and `rotate` called in the event loop; in the reporter's thread `beats()`, whether leases are
        kept, and `stop(count)`, with how many signals the supervisor has heard, also when it is gone."""
        self._channel = channel
        self._changes = Changes(numbers)
        self._health = health
        self._beats = beats
        self._stop = stop
        self._rotate = rotate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._waker, self._wake = socket.socketpair()
        self._lines: deque[bytes] = deque()
        self._out = b""
        self._in = b""
        self._until: float | None = None
        self._thread = threading.Thread(target=self._run, name="brooq-reporter", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin."""
        self._loop = loop
        self._channel.setblocking(False)
        self._wake.setblocking(False)
        self._say(HELLO)
        self._thread.start()

    def started(self, grace: float, patience: float) -> None:
        """The queue works; a stop may take so many seconds for its handlers, and so many more for their outcomes."""
        self._say(STARTED, [grace, patience])

    def gave_up(self) -> None:
        """The process ends for a reason that another start would not change."""
        self._say(GAVE_UP)

    def close(self) -> None:
        """Say the last numbers, within a second."""
        self._until = time.monotonic() + _FAREWELL
        self._rouse()
        self._thread.join(_FAREWELL + 0.5)
        if not self._thread.is_alive():
            for each in (self._channel, self._waker, self._wake):
                each.close()

    def _say(self, word: str, value: object = None) -> None:
        self._lines.append(pack(word, value))
        self._rouse()

    def _rouse(self) -> None:
        try:
            self._wake.send(b"x")
        except OSError:
            pass  # full: it is awake already

    def _run(self) -> None:
        try:
            self._talk()
        except Exception:
            # Who can neither report nor hear of the supervisor's end must not go on: it would be left behind.
            log.exception(text("process.cut_off"))
            self._stop(1)

    def _talk(self) -> None:
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if self._until is not None and (now > self._until or not (self._out or self._lines)):
                break
            wait = max(due - now, 0.0) if not self._out else PERIOD
            ready, _, _ = select.select([self._channel, self._waker], [self._channel] if self._out else [], [], wait)
            if self._waker in ready:
                self._waker.recv(_CHUNK)
            if self._channel in ready and not self._hear():
                log.warning(text("process.orphaned"))
                self._stop(1)
                return
            while self._lines:
                self._out += self._lines.popleft()
            # One at a time: a supervisor that does not read must not fill our memory.
            if not self._out and time.monotonic() >= due:
                self._out = self._numbers()
                due = time.monotonic() + PERIOD
            self._send()
        self._channel.setblocking(True)
        self._channel.settimeout(_FAREWELL)
        try:
            self._channel.sendall(self._out + self._numbers())
        except OSError:
            pass  # nobody listens any more

    def _numbers(self) -> bytes:
        for _ in range(_TRIES):
            try:
                return pack(NUMBERS, self._changes.take()) + pack(BEAT, self._beats())
            except RuntimeError:
                continue  # something has begun or ended while it was being counted
        return pack(NUMBERS, [])

    def _send(self) -> None:
        try:
            self._out = self._out[self._channel.send(self._out) :] if self._out else b""
        except BlockingIOError:
            pass
        except OSError:
            self._out = b""  # the end of the stream will tell

    def _hear(self) -> bool:
        try:
            received = self._channel.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            received = b""
        *lines, self._in = (self._in + received).split(b"\n")
        for line in lines:
            word, value = unpack(line)
            if word == STOP:
                self._stop(int(value))
            elif word == ROTATE:
                self._call(self._rotate)
            elif word in {HEALTH, LIVENESS}:
                self._call(partial(self._ask, word))
        return bool(received)

    def _call(self, function: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            pass  # the loop is closed: the end is near anyway

    def _ask(self, word: str) -> None:
        """In the loop, so that an answer says too that the loop answers."""
        assert self._loop is not None
        if word not in self._asking or self._asking[word].done():
            self._asking[word] = self._loop.create_task(self._answer(word), name="brooq health")

    async def _answer(self, word: str) -> None:
        report = await (self._health.report() if word == HEALTH else self._health.liveness())
        self._say(word, report.as_json())
