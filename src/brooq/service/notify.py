"""Telling systemd how the process is: ready, stopping, alive (sd_notify). A datagram to the socket that NOTIFY_SOCKET names,
and nothing at all where there is none."""

from __future__ import annotations

import os
import socket

_MICROSECONDS = 1_000_000


class Notifier:
    """Speaks to the service manager; may be used from any thread, never waits and never raises."""

    def __init__(self) -> None:
        """Takes its address out of the environment: programs that handlers start must not speak for this one."""
        address = os.environ.pop("NOTIFY_SOCKET", "")
        usec, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        # An abstract name, as systemd writes it, begins with an at sign.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        mine = self._socket is not None and usec.isdecimal() and pid in {"", str(os.getpid())}
        self.period: float | None = int(usec) / _MICROSECONDS / 3 if mine and int(usec) else None
        """Every how many seconds `alive` is to be called, a third of what systemd waits; None: nobody asks for it."""

    def ready(self, status: str) -> None:
        """It works."""
        self._say(f"READY=1\nSTATUS={status}")

    def waiting(self, status: str, seconds: float) -> None:
        """Its start takes longer, for the reason given: it will be heard of again within so many seconds."""
        self._say(f"EXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}\nSTATUS={status}")

    def stopping(self, seconds: float) -> None:
        """It stops, and may take so many seconds for it."""
        self._say(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._say("WATCHDOG=1")

    def _say(self, words: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(words.encode(), self._address)
        except OSError:
            pass  # nobody reads there, or its buffer is full: the next word comes soon
