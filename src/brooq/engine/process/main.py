"""The child process itself: takes jobs from the worker, runs their handlers, tells how they ended.

The main thread runs handlers, one after the other. A second one listens to the worker, so that an interruption is heard
while a handler runs, and so that signals find a thread that does not block them, whatever the handler does.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from queue import SimpleQueue
from types import FrameType
from typing import Any
from uuid import UUID

from brooq.engine.kind import is_async, refuse_awaitable
from brooq.engine.process.frame import Unpacker, pack
from brooq.engine.process.place import find
from brooq.engine.process.record import Teller
from brooq.engine.process.travel import pack_error, pack_job, unpack_cause
from brooq.engine.reading import Reading, reading_of
from brooq.vocabulary.claim import CURRENT, Claim, Handler, Lease, OnSucceeded
from brooq.vocabulary.error import TxError
from brooq.vocabulary.message import text
from brooq.vocabulary.payload import encode
from brooq.vocabulary.signal import Interruption
from brooq.vocabulary.tx import Tx

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
ORPHANED = 70


class Terminated(BaseException):
    """SIGTERM, in a handler that is a plain function: it did not hear of its interruption."""


class FarClaim(Claim[Any]):
    """A claim in a child process: there is no closing transaction here."""

    __slots__ = ()

    @property
    def on_succeeded(self) -> Callable[[OnSucceeded], OnSucceeded]:
        """Raises TxError: a callback is code, which does not travel to the transaction that closes the job."""
        raise TxError(text("engine.far_callback"))

    @on_succeeded.setter
    def on_succeeded(self, callback: OnSucceeded) -> None:
        raise TxError(text("engine.far_callback"))


class Inmate:
    """Runs jobs for the worker at the other end of a socket."""

    def __init__(self, ear: socket.socket, parent: int, level: int) -> None:
        """`parent` is the worker's process; `level` is that of its log."""
        self._ear = ear
        self._parent = parent
        self._inbox: SimpleQueue[tuple[FarClaim, dict[str, Any]] | None] = SimpleQueue()
        self._sending = threading.Lock()
        self._claim: FarClaim | None = None
        self._running = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._runner = asyncio.Runner()
        self._handlers: dict[str, tuple[Handler, Reading]] = {}
        root = logging.getLogger()
        root.addHandler(Teller(self._send))
        root.setLevel(level)
        signal.signal(signal.SIGTERM, self._terminate)

    def serve_jobs(self) -> None:
        """Until the worker hangs up. `process.death` knows this function by its name."""
        threading.Thread(target=self._listen, name="brooq-worker", daemon=True).start()
        while (work := self._inbox.get()) is not None:
            self._send(self._run(*work))
        self._runner.close()

    def _run(self, claim: FarClaim, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._running = True
            self._send({"say": "begun"})
            handler, reading = self._find(message["handler"])
            reading.open(claim)
            result = self._call(handler, claim)
            self._running = False
            return {
                "say": "done",
                "result": encode(result) if message["keep"] else None,
                "chained": [pack_job(job) for job in claim._chained or ()],  # noqa: SLF001  it was made here
            }
        except BaseException as error:  # noqa: BLE001  SystemExit included: it is the handler's failure (C10)
            self._running = False
            return {"say": "failed", **pack_error(error)}
        finally:
            self._claim = None

    def _find(self, place: str) -> tuple[Handler, Reading]:
        found = self._handlers.get(place)
        if found is None:
            handler = find(place)
            found = self._handlers[place] = (handler, reading_of(handler))
        return found

    def _call(self, handler: Handler, claim: FarClaim) -> Any:
        context = copy_context()
        context.run(CURRENT.set, claim)
        if is_async(handler):
            result, error = self._runner.run(self._await(handler, claim), context=context)
            if error is not None:
                raise error
            return result
        result = context.run(handler, claim)
        refuse_awaitable(result, handler)
        return result

    async def _await(self, handler: Handler, claim: FarClaim) -> tuple[Any, BaseException | None]:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if claim.interruption is not None:
                raise asyncio.CancelledError  # noqa: TRY301  it was, before there was a task
            return await handler(claim), None
        except BaseException as error:  # noqa: BLE001  SystemExit would end the loop
            return None, error
        finally:
            self._task = None

    # --- the worker's voice ---

    def _listen(self) -> None:
        unpacker = Unpacker()
        with suppress(OSError):
            while received := self._ear.recv(65536):
                for message in unpacker.feed(received):
                    if message["do"] == "run":
                        self._claim = claim = _claim(message, self)
                        self._inbox.put((claim, message))
                    elif message["do"] == "interrupt":
                        self._interrupt(unpack_cause(message))
        if os.getppid() != self._parent or self._claim is not None:
            os._exit(ORPHANED)  # the worker is gone; whatever the handler does, it does for nobody
        self._inbox.put(None)

    def _interrupt(self, cause: Interruption) -> None:
        claim = self._claim
        if claim is None or claim.interruption is not None:
            return
        claim.interruption = cause
        claim._interrupted()  # noqa: SLF001  it was made here
        self._cancel()

    def _cancel(self) -> None:
        task, loop = self._task, self._loop
        if task is not None and loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM, in the main thread: half of the grace is over. Without a job it is somebody's wish that this ends."""
        if self._task is not None:
            self._cancel()
        elif self._running:
            raise Terminated(text("engine.terminated"))
        elif self._claim is None:
            sys.exit(0)

    # --- to the worker ---

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending, suppress(OSError):
            self._ear.sendall(pack(message))

    def progress(self, claim: Claim[Any], done: float, note: str) -> None:
        """The worker writes it."""
        self._send({"say": "progress", "done": done, "note": note})

    async def assert_held(self, claim: Claim[Any], tx: Tx) -> None:
        """Raises TxError: the store is not here. The SQL function does the same on any connection."""
        raise TxError(text("engine.far_fence"))


def _claim(message: dict[str, Any], hands: Inmate) -> FarClaim:
    return FarClaim(
        id=UUID(message["id"]),
        topic=message["topic"],
        payload=message["payload"],
        attempt=message["attempt"],
        max_attempts=message["max_attempts"],
        token=message["token"],
        lease=Lease(message["owner"], datetime.fromisoformat(message["until"])),
        hands=hands,
        metadata=message["metadata"],
    )


def _die_with(parent: int) -> None:
    """Never outlive the worker, also where the handler never lets this process hear that it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def main() -> None:
    """`sys.argv[2]` says how."""
    settings = json.loads(sys.argv[2])
    del sys.argv[1:]
    _die_with(settings["parent"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not settings["dumpable"]:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    faulthandler.enable(file=settings["dump"], all_threads=True)
    faulthandler.register(signal.SIGQUIT, file=settings["dump"], all_threads=True)
    with socket.socket(fileno=settings["socket"]) as ear:
        Inmate(ear, settings["parent"], settings["level"]).serve_jobs()
