"""Log records of child processes: sent to the worker, so that one process decides how they look and where they go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from brooq.engine.bound import JobFilter
from brooq.engine.reason import Relayed, name_of, reason, trace_of
from brooq.vocabulary.message import text

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN = (str, int, float, bool, type(None))
_KEPT = ("name", "levelno", "levelname", "pathname", "filename", "module", "lineno", "funcName", "created", "msecs",
         "process", "processName", "thread", "threadName")  # fmt: skip


class Teller(logging.Handler):
    """Sends every record, bound to its job."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        """`send` takes messages from any thread."""
        super().__init__()
        self._send = send
        self.addFilter(JobFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Send it; one that cannot be formatted is told of in words."""
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001  somebody else's arguments
            message = f"{record.msg!r}: {reason(error)}"
        extra = {
            name: value if isinstance(value, _PLAIN) else _shown(value)
            for name, value in vars(record).items()
            if name not in _OWN
        }
        told: dict[str, Any] = {name: getattr(record, name) for name in _KEPT} | {"msg": message}
        cause = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if cause is not None:
            told["error"] = {"error": reason(cause), "name": name_of(cause), "trace": trace_of(cause)}
        self._send({"say": "log", "record": told, "extra": extra})


def replay(message: dict[str, Any]) -> None:
    """Log a record of a child process as if it had been made here."""
    try:
        told = dict(message["record"])
        error = told.pop("error", None)
        record = logging.makeLogRecord({**message["extra"], **told})
        if error is not None:
            relayed = Relayed(error["error"], error["name"], error["trace"])
            record.exc_info = (Relayed, relayed, None)
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)
    except Exception:
        logging.getLogger("brooq").exception(text("engine.unloggable"))


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  somebody else's __repr__
        return f"<{type(value).__name__}>"
