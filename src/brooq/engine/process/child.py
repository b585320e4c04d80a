"""A child process as the worker sees it: started, told what to do, heard, killed and buried."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from brooq.engine.process.death import died, megabytes, peak_of
from brooq.engine.process.frame import Unpacker, pack
from brooq.engine.process.record import replay
from brooq.engine.process.travel import pack_cause
from brooq.engine.runtime import Runtime
from brooq.vocabulary.claim import Claim
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import Interruption

log = logging.getLogger("brooq")

LOOK = 0.1
"""Every how many seconds the memory of a process with a ceiling is looked at."""

DUMPING = 0.05
"""How many seconds a process that is killed has to write down where it is."""

SLOW_LOOK = 0.2
"""Every how many seconds the end of a process is looked for where the system does not tell of it."""

_PR_GET_DUMPABLE = 3
_MAX_DUMP = 256 * 1024
_PAGE = resource.getpagesize()
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from brooq.engine.process.main import main; main()"


class Child:
    """One child process. A thread of its own starts and hears it, and lives exactly as long: where the system kills
    children whose parent has died, that parent is a thread."""

    def __init__(self, runtime: Runtime, gone: Callable[[Child], None]) -> None:
        """Starts it. `gone` hears of its end, in the running loop."""
        self.alive = True
        self.claim: Claim[Any] | None = None
        """What it works on."""
        self.begun = False
        """Whether it has said that it works on it."""
        self.jobs = 0
        """How many it was given."""
        self.spoiled = False
        """It was interrupted: what it does next is not to be relied on."""
        self.gone = asyncio.Event()
        self.pid: int | None = None
        self._runtime = runtime
        self._tell_gone = gone
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._started = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._patience: asyncio.TimerHandle | None = None
        self._why = ""
        self._killed = False
        self._lock = threading.Lock()  # around `pid` and `_buried`: a number that was given anew must not be killed
        self._buried = False
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        threading.Thread(target=self._live, args=(theirs,), name="brooq-child", daemon=True).start()

    # --- in the loop ---

    async def run(self, message: dict[str, Any], max_memory: int | None) -> dict[str, Any]:
        """Give it a job; answers what it says at the end. Raises ProcessDied."""
        self.jobs += 1
        self._started = self._runtime.clock()
        self.begun = False
        self._why, self._killed = "", False
        self._answer = self._loop.create_future()
        if not self.alive:
            raise died(None, seconds=0.0, peak=0, dump="")
        if max_memory is not None:
            self._watch(max_memory)
        try:
            await self._send(message)
            return await self._answer
        finally:
            self._answer = None
            self._disarm()

    def interrupt(self, cause: Interruption, grace: float, last: Callable[[], None]) -> None:
        """Tell the handler; half the grace later with SIGTERM; at its end call `last` and kill the process."""
        self.spoiled = True
        task = self._loop.create_task(self._send({"do": "interrupt", **pack_cause(cause)}))
        self._timers.append(self._loop.call_later(grace / 2, self._signal, signal.SIGTERM))

        def end() -> None:
            task.cancel()
            last()
            self.kill()

        self._timers.append(self._loop.call_later(grace, end))

    def kill(self, why: str = "") -> None:
        """Kill it, and whatever it has started, as soon as it has written down where it is."""
        if self._killed:
            return
        self.spoiled = self._killed = True
        self._why = why
        if not self.begun:  # it may not have learned yet what SIGQUIT means here, and would die of that
            self._signal(signal.SIGKILL)
            return
        self._signal(signal.SIGQUIT)
        self._loop.call_later(DUMPING, self._signal, signal.SIGKILL)

    def dismiss(self, patience: float) -> None:
        """Let it exit, for there is no more work for it; kill it when it has not after so many seconds."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        if self.alive:
            self._patience = self._loop.call_later(patience, self.kill)

    def memory(self) -> int:
        """How many bytes of it are resident now; 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123  ten times a second
                return int(file.read().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return 0

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            with suppress(OSError):  # its death is heard of by the thread
                await self._loop.sock_sendall(self._socket, pack(message))

    def _watch(self, ceiling: int) -> None:
        held = self.memory()
        if held > ceiling:
            self.kill(text("engine.died_memory", held=megabytes(held), limit=megabytes(ceiling)))
        else:
            self._timers.append(self._loop.call_later(LOOK, self._watch, ceiling))
            del self._timers[:-3]  # the ones before have rung; an interruption's two may be there

    def _disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("say") in ("done", "failed"):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
        elif message.get("say") == "begun":
            self.begun = True
        elif message.get("say") == "progress" and self.claim is not None:
            self._progress(self.claim, message)

    def _progress(self, claim: Claim[Any], message: dict[str, Any]) -> None:
        with suppress(KeyError, TypeError, ValueError):
            claim.progress(message["done"], message["note"])

    def _over(self, status: int | None, peak: int, dump: str, unborn: str) -> None:
        """It is dead and buried."""
        self.alive = False
        if self._answer is not None and not self._answer.done():
            seconds = self._runtime.clock() - self._started
            why = unborn or self._why
            self._answer.set_exception(died(status, seconds=seconds, peak=peak, dump=dump, why=why, ours=self._killed))
        self._disarm()
        if self._patience is not None:
            self._patience.cancel()
        if not self._sending.locked():
            self._socket.close()
        self.gone.set()
        self._tell_gone(self)

    # --- in any thread ---

    def _signal(self, number: int) -> None:
        with self._lock:
            if self.pid is None or self._buried:
                return
            with suppress(ProcessLookupError, PermissionError):
                if number == signal.SIGKILL:
                    os.killpg(self.pid, number)  # what the handler has started goes with it
                else:
                    os.kill(self.pid, number)

    # --- in its own thread ---

    def _live(self, theirs: socket.socket) -> None:
        status, peak, dump, unborn = None, 0, "", ""
        with _anonymous_file() as file:
            try:
                process = self._start(theirs, file.fileno())
            except OSError as error:
                unborn = text("engine.unborn", reason=str(error))
            else:
                with self._lock:
                    self.pid = process.pid
                if self._killed:  # while it had no number yet
                    self._signal(signal.SIGKILL)
                self._listen(process.pid)
                status, peak = self._bury(process)
                file.seek(0)
                dump = file.read(_MAX_DUMP).decode("utf-8", "replace")
            finally:
                theirs.close()
        if not self._call(self._over, status, peak, dump, unborn):
            self._socket.close()

    def _start(self, theirs: socket.socket, dump: int) -> subprocess.Popen[bytes]:
        settings = {
            "socket": theirs.fileno(),
            "dump": dump,
            "parent": os.getpid(),
            "level": log.getEffectiveLevel(),
            "dumpable": _dumpable(),
        }
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _START]  # type: ignore[attr-defined]  # noqa: SLF001  as multiprocessing does
        try:
            return subprocess.Popen(
                [*command, json.dumps(sys.path), json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), dump),
                process_group=0,  # Ctrl-C in a terminal is the worker's to decide about
            )
        finally:
            theirs.close()

    def _listen(self, pid: int) -> None:
        """Until the process has ended. Its end is not that of the stream: a grandchild may hold that open."""
        poller, unpacker, ear = select.poll(), Unpacker(), self._socket.fileno()
        poller.register(ear, select.POLLIN)
        end = _end_of(pid)
        if end is not None:
            poller.register(end, select.POLLIN)
        try:
            listening = True
            while True:
                ready = {file for file, _ in poller.poll(None if end is not None else SLOW_LOOK * 1000)}
                over = (end in ready) if end is not None else _has_ended(pid)
                if listening and (ear in ready or over) and not self._receive(unpacker):
                    poller.unregister(ear)
                    listening = False
                if over:
                    return
        finally:
            if end is not None:
                os.close(end)

    def _receive(self, unpacker: Unpacker) -> bool:
        """Whatever there is to be read; False at the end of the stream."""
        try:
            while received := self._socket.recv(65536):
                for message in unpacker.feed(received):
                    if message.get("say") == "log":
                        replay(message)
                    elif not self._call(self._hear, message):
                        self._signal(signal.SIGKILL)  # the loop is closed: there is nobody to work for
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            self._signal(signal.SIGKILL)
        return False

    def _bury(self, process: subprocess.Popen[bytes]) -> tuple[int | None, int]:
        """What it left: its status, and the most memory it ever held."""
        with self._lock:
            with suppress(ProcessLookupError, PermissionError):
                if self.spoiled:
                    # What an interrupted handler has started goes with it. It is still a zombie: nobody else can have
                    # its number.
                    os.killpg(process.pid, signal.SIGKILL)
            self._buried = True
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except ChildProcessError:
                process.returncode = 0
                return None, 0
        process.returncode = os.waitstatus_to_exitcode(status)
        return status, peak_of(usage.ru_maxrss)

    def _call(self, callback: Callable[..., None], *arguments: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return False
        return True


def _anonymous_file() -> IO[bytes]:
    """A file for what is left behind."""
    if sys.platform == "linux":
        return open(os.memfd_create("brooq"), "w+b")  # noqa: PTH123  it has no path
    return tempfile.TemporaryFile()


def _dumpable() -> bool:
    """Whether others of the same user may read this process's memory: what the worker denies, its children do too."""
    return sys.platform != "linux" or bool(ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0))


def _end_of(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
