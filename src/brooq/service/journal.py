"""What `brooq verify` reads beside the audit: a journal of the handlers, a log of the producers.

One JSON object a line, appended in one write each, so that several processes may share a file and a killed one leaves
whole lines. A write goes to the file system, not to the disk: it survives the process, not the machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from brooq.engine.kind import is_async
from brooq.engine.queue import Queue
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.error import OutcomeUnknown
from brooq.vocabulary.event import Event, JobClaimed, JobDead, JobDone, JobFailed
from brooq.vocabulary.job import Enqueued, Job
from brooq.vocabulary.signal import find_signal

_TOLD = {JobClaimed: "claimed", JobDone: "done", JobFailed: "failed", JobDead: "dead"}


class Lines:
    """A file that lines are appended to. Raises OSError where it cannot be opened or written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the file, for its owner alone."""
        self.path = Path(path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Append one line, with the time by this machine's clock."""
        line = json.dumps({"at": time.time(), "kind": kind, **values}, separators=(",", ":"), default=str)
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Journal(Lines):
    """What the handlers of a process do, and what the engine is told of their outcomes.

    `queue.listen(journal)` for the latter; `queue.register_kind(topic, journal.around(handler))` for the former.
    """

    def __call__(self, event: Event) -> None:
        """Write down an event, as a listener of a queue."""
        kind = _TOLD.get(type(event))
        if kind is not None:
            assert isinstance(event, JobClaimed | JobDone | JobFailed | JobDead)
            self.write(kind, {"job": event.id, "token": event.token, "topic": event.topic})

    def around(self, handler: Handler) -> Handler:
        """The handler, with its start, its end and the jobs that it chained written down. A coroutine function or a plain
        one; one with `isolation="process"` has to be journaled where it runs."""
        if is_async(handler):

            async def handle(claim: Claim) -> Any:
                with self._noted(claim):
                    return await handler(claim)

            return handle

        def handle_in_thread(claim: Claim) -> Any:
            with self._noted(claim):
                return handler(claim)

        return handle_in_thread

    @contextmanager
    def _noted(self, claim: Claim) -> Iterator[None]:
        self._note(
            claim, "start", topic=claim.topic, owner=claim.lease.owner, attempt=claim.attempt,
            max_attempts=claim.max_attempts,
        )  # fmt: skip
        try:
            yield
        except BaseException as error:
            signal = find_signal(error)
            self._end(claim, "raised", error=type(error).__name__, signal=signal and type(signal).__name__)
            raise
        for child in claim._chained or ():  # noqa: SLF001  the engine reads it as well
            self._note(claim, "chain", child=child.id, key=child.idempotency_key)
        self._end(claim, "returned")

    def effect(self, claim: Claim, *, tx: bool = False) -> None:
        """Write down that this run does what must be done once. `tx`: it writes a row of the audit's table `effect` in
        `on_succeeded`, which `brooq verify` then expects exactly once."""
        self._note(claim, "effect", tx=tx)

    def _end(self, claim: Claim, result: str, **values: object) -> None:
        interruption = None if claim.interruption is None else type(claim.interruption).__name__
        self._note(claim, "end", result=result, interruption=interruption, **values)

    def _note(self, claim: Claim, kind: str, **values: object) -> None:
        self.write(kind, {"job": claim.id, "token": claim.token, **values})


class ProducerLog(Lines):
    """What a producer sends and what it is answered."""

    async def enqueue(self, queue: Queue, job: Job) -> Enqueued:
        """`queue.enqueue`, written down before and after; the errors are the same."""
        self.invoke(job)
        try:
            answer = await queue.enqueue(job)
        except OutcomeUnknown:
            self.unknown(job)
            raise
        except Exception:
            self.fail(job)
            raise
        self.ok(job, answer)
        return answer

    def invoke(self, job: Job) -> None:
        """Before it is sent. For jobs of transactions of your own: `invoke`, and `ok` after the commit or `fail` after a
        rollback."""
        self.write("invoke", {"job": job.id, "topic": job.topic, "key": job.idempotency_key})

    def ok(self, job: Job, answer: Enqueued) -> None:
        """Acknowledged."""
        self.write("ok", {"job": job.id, "id": answer.id, "created": answer.created})

    def fail(self, job: Job) -> None:
        """Surely not enqueued."""
        self.write("fail", {"job": job.id})

    def unknown(self, job: Job) -> None:
        """The answer was lost: it may be enqueued or not."""
        self.write("info", {"job": job.id})

    def adopt(self, id: UUID | str, topic: str) -> None:
        """Acknowledged by other means, by an insert of your own for example."""
        self.write("invoke", {"job": id, "topic": topic, "key": ""})
        self.write("ok", {"job": id, "id": id, "created": True})
