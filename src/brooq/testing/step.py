"""A coroutine that can be stopped at an await, to be resumed, interrupted, or left there as a killed process leaves it."""

from __future__ import annotations

import asyncio
import sysconfig
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).parent.parent)
_FOREIGN = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], _OURS)


class Stepped:
    """Runs a coroutine in a task of its own. With `stop_at` n it stands still behind its n-th wait, counted from 1: what it
    waited for has happened, and it has not heard of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], stop_at: int = 0) -> None:
        """Starts it."""
        self.places: list[str] = []
        """Where it has waited so far: `file:line` of the consumer's code."""
        self.standing = asyncio.Event()
        self._coroutine = coroutine
        self._stop_at = stop_at
        self._go_on = asyncio.Event()
        self._left = False
        self.task = asyncio.ensure_future(self._run())

    async def until_standing(self) -> bool:
        """True once it stands at its place; False when it has ended before."""
        standing = asyncio.ensure_future(self.standing.wait())
        await asyncio.wait([standing, self.task], return_when=asyncio.FIRST_COMPLETED)
        standing.cancel()
        return self.standing.is_set() and not self.task.done()

    def resume(self) -> None:
        """Go on."""
        self._go_on.set()

    def interrupt(self) -> None:
        """Cancel it where it stands, as the engine does."""
        self.task.cancel()

    async def leave(self) -> None:
        """Never go on: no `except` and no `finally` of it runs. What it holds, it holds until `bury`."""
        self._left = True
        self.task.cancel()
        await asyncio.wait([self.task])

    async def bury(self) -> None:
        """Let go of what was left, in a task of its own, as the end of a process lets go of its connections."""
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
        if self._left:
            self._left = False
            task = asyncio.ensure_future(_close(self._coroutine))
            await asyncio.wait([task])
            task.exception()

    async def _run(self) -> Any:
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
            except StopIteration as ended:
                return ended.value
            self.places.append(_place(self._coroutine))
            error = None
            try:
                yield waited
                if len(self.places) == self._stop_at:
                    self.standing.set()
                    yield from self._go_on.wait().__await__()
            except BaseException as thrown:
                if self._left:
                    raise
                error = thrown


async def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Cancel what stands in the middle, so that its connections go back; it may wait for that."""

    class _Cancelled:
        def __await__(self) -> Generator[Any, Any, None]:
            error: BaseException | None = asyncio.CancelledError()
            while True:
                try:
                    waited = coroutine.send(None) if error is None else coroutine.throw(error)
                except (StopIteration, asyncio.CancelledError):
                    return
                error = None
                try:
                    yield waited
                except BaseException as thrown:  # noqa: BLE001  as above
                    error = thrown

    await _Cancelled()


def _place(coroutine: Any) -> str:
    """The innermost line that is neither Python's own, nor a package's, nor ours; else the handler's."""
    first = best = ""
    inner: Any = coroutine
    while inner is not None:
        frame = next(
            (getattr(inner, name) for name in ("cr_frame", "gi_frame", "ag_frame") if hasattr(inner, name)), None
        )
        if frame is not None:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            first = first or place
            if not frame.f_code.co_filename.startswith(_FOREIGN):
                best = place
        inner = next(
            (getattr(inner, name) for name in ("cr_await", "gi_yieldfrom", "ag_await") if hasattr(inner, name)), None
        )
    return best or first
