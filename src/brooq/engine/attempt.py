"""One attempt: a handler at work on a claim, with its deadlines and its watchdog."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from brooq.engine.kind import Kind
from brooq.engine.outcome import Outcome
from brooq.engine.store import Hold, Taken
from brooq.vocabulary.claim import Claim, Hands, Lease
from brooq.vocabulary.message import text
from brooq.vocabulary.signal import AttemptTimeout, Interruption, MaxExecutionExceeded

log = logging.getLogger("brooq")


class Attempt:
    """What the engine knows of one run of one handler."""

    __slots__ = (
        "_timer",
        "_watchdog",
        "ahead",
        "claim",
        "claimed_at",
        "closing",
        "detached",
        "ended_at",
        "error",
        "hung",
        "id",
        "kind",
        "max_attempts",
        "outcome",
        "started_at",
        "task",
        "token",
        "topic",
        "uncertain",
        "waited",
    )

    def __init__(self, taken: Taken, kind: Kind, lease: Lease, claimed_at: float, hands: Hands | None = None) -> None:
        """`claimed_at` is a reading of the engine's clock from before the claim was sent."""
        self.id = taken.id
        self.token = taken.token
        self.topic = kind.topic
        self.kind = kind
        self.max_attempts = taken.max_attempts or kind.options.max_attempts
        self.claim: Claim[Any] = Claim(
            id=taken.id,
            topic=taken.topic,
            payload=taken.payload,
            attempt=taken.attempt,
            max_attempts=self.max_attempts,
            token=taken.token,
            lease=lease,
            hands=hands,
            metadata=taken.metadata,
        )
        self.claimed_at = self.started_at = self.ended_at = claimed_at
        self.waited = taken.waited
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None
        """Where its handler, or what closes its job, runs now."""
        self.outcome: Outcome | None = None
        """What is to be written of it; None until that is decided."""
        self.uncertain = False
        """Its outcome was sent before, and the answer was lost: it may be recorded already."""
        self.ahead = False
        """Claimed ahead of its slot: its time counts from its start."""
        self.detached = False
        """Its outcome is no longer the handler's to decide: recorded already, or nobody's (the lease is lost)."""
        self.closing = False
        """The handler has succeeded; the transaction that closes the job is under way."""
        self.hung = False
        self._timer: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None

    @property
    def hold(self) -> Hold:
        """What fences every write about it."""
        return Hold(self.id, self.token)

    def arm(self, exceeded: Callable[[Attempt], None], interrupt: Callable[[Attempt, Interruption], None]) -> None:
        """Set the timers of an attempt that is still running after its first step."""
        options = self.kind.options
        loop = asyncio.get_running_loop()
        ceiling = self.claimed_at + options.max_execution_timeout - self.started_at

        def timed_out() -> None:
            left = ceiling - options.attempt_timeout
            self._timer = loop.call_later(max(left, 0.0), exceeded, self)
            interrupt(self, AttemptTimeout(text("engine.attempt_timeout", seconds=options.attempt_timeout)))

        if options.attempt_timeout < ceiling:
            self._timer = loop.call_later(options.attempt_timeout, timed_out)
        else:
            self._timer = loop.call_later(max(ceiling, 0.0), exceeded, self)

    def interrupt(self, cause: Interruption, grace: float, hung: Callable[[Attempt], None]) -> None:
        """Cancel the handler; the first cause stands. `hung` is called when it has not exited `grace` seconds later, or
        just before it is killed then, where that can be done."""
        if self.claim.interruption is not None or self.task is None:
            return
        self.claim.interruption = cause
        loop = asyncio.get_running_loop()
        runner = self.kind.runner
        if runner is not None:
            grace = runner.interrupt(self.claim, grace, lambda: hung(self))
            self._watchdog = loop.call_later(grace, hung, self)
            return
        # Not at once: a task that is canceled before its first step never enters `run`, and nobody would hear its end.
        loop.call_soon(self._cancel)
        self._watchdog = loop.call_later(grace, hung, self)

    def _cancel(self) -> None:
        if self.task is not None:  # else it has exited meanwhile, and its task may run another handler
            self.task.cancel()

    def kill(self) -> bool:
        """End a handler that can be killed, now; answers whether that is under way. It may fail to die."""
        return self.kind.runner is not None and self.kind.runner.kill(self.claim)

    def look_again(self, seconds: float, exceeded: Callable[[Attempt], None]) -> None:
        """The ceiling once more, should it not have died by then."""
        self._timer = asyncio.get_running_loop().call_later(seconds, exceeded, self)

    def disarm(self) -> None:
        """Stop the timers."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watchdog is not None:
            self._watchdog.cancel()

    def exceeded(self) -> MaxExecutionExceeded:
        """The cause for an attempt that outlived its ceiling."""
        return MaxExecutionExceeded(text("engine.max_execution", seconds=self.kind.options.max_execution_timeout))
