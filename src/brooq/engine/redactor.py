"""Redactors: the consumer's last word on what `last_error` may hold (rule S9 of SECURITY.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from brooq.engine.reason import sanitize
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

Redactor: TypeAlias = Callable[[str], str]

WITHHELD = "(withheld: its redactor failed)"


class Redactors:
    """Sends the text of every failure through all of them, in the order of registration."""

    def __init__(self) -> None:
        """Texts stay as they are."""
        self._redactors: list[Redactor] = []

    def add(self, redactor: Redactor) -> None:
        """Ask this one too. It is called in the engine's loop and must not block."""
        self._redactors.append(redactor)

    def __call__(self, reason: str) -> str:
        """The text that may be stored. One that raises, or answers no text, costs the text and never the job."""
        if not self._redactors:
            return reason
        for redactor in self._redactors:
            try:
                reason = redactor(reason)
            except Exception as error:  # noqa: BLE001  the consumer's code
                log.error(text("engine.redactor_failed", redactor=repr(redactor), kind=type(error).__name__))  # noqa: TRY400  a traceback could show what was to be hidden
                return WITHHELD
            if not isinstance(reason, str):
                log.error(text("engine.redactor_failed", redactor=repr(redactor), kind=type(reason).__name__))
                return WITHHELD
        return sanitize(reason)
