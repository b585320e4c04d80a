"""Logs of the process: JSON or console, one record on one line, without passwords (requirement S4).

The library logs through the standard library alone; what its records carry in `extra=` becomes fields here.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from brooq.engine.bound import JobFilter
from brooq.postgres.dsn import mask
from brooq.service.line import one_line
from brooq.service.secret import MASK, Secret
from brooq.vocabulary.message import text

log = logging.getLogger("brooq")

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_RESERVED = frozenset({"time", "level", "logger", "message", "exception", "event", "exc_info", "stack_info"})
_MAX_DEPTH = 6
_TURN = 0.5
"""How many seconds a record waits for its turn on a stream that several processes share."""
_COLORS = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}
_QUIET = {"uvicorn": logging.WARNING, "psycopg.pool": logging.ERROR}
"""The engine tells of an outage once and then every half minute; the pool would tell of each of its tries."""


class Masker:
    """Hides secrets in texts: what looks like a password of a DSN, and the very secrets that it was given."""

    def __init__(self, secrets: Sequence[Secret | None] = ()) -> None:
        """`secrets`: DSNs or tokens."""
        self._values = [secret.reveal() for secret in secrets if secret is not None]

    def add(self, *secrets: Secret) -> None:
        """Hide these too."""
        self._values += [secret.reveal() for secret in secrets if secret.reveal() not in self._values]

    def __call__(self, string: str) -> str:
        """The text without them."""
        for value in self._values:
            if "://" in value or "=" in value:
                string = mask(string, value)
            if len(value) > 2:
                string = string.replace(value, MASK)
        return string if self._values else mask(string)


def configure(
    masker: Masker,
    *,
    form: str | None = None,
    level: str = "info",
    stream: TextIO | None = None,
    process: int | None = None,
    shared: bool = False,
) -> None:
    """Send every record of the process to `stream` (stderr). `form` is `json`, `console`, or None: by the stream.
    `shared`: other processes of ours write there too; `process` is the number of this one, which every record says.

    structlog's own loggers go the same way, unless the application configures them otherwise.
    """
    stream = stream or sys.stderr
    handler = _SharedHandler(stream) if shared else _Handler(stream)
    handler.setFormatter(formatter(masker, form=form, terminal=stream.isatty(), process=process))
    handler.addFilter(JobFilter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, floor in _QUIET.items():
        logging.getLogger(name).setLevel(max(floor, root.level))
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    _hook()


def formatter(
    masker: Masker, *, form: str | None = None, terminal: bool = False, process: int | None = None
) -> logging.Formatter:
    """The formatter alone, for whoever has a handler already."""
    console = form == "console" or (form is None and terminal)
    return _Formatter(
        foreign_pre_chain=[_fields],
        processors=[
            structlog.processors.format_exc_info,
            _Order(masker, process),
            _Console(terminal=terminal) if console else _json,
        ],
    )


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Never raises: a record with the wrong arguments, or with one whose `repr` raises, is a line too."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception as error:  # noqa: BLE001  logging would print the arguments, secrets and all, to stderr
            message = text(
                "process.unloggable", place=f"{record.pathname}:{record.lineno}", reason=type(error).__name__
            )
            plain = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, message, (), None)
            return super().format(plain)


class _Handler(logging.StreamHandler[TextIO]):
    """A stream that is gone (a closed pipe) must not end, or fill, anything."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        pass


class _SharedHandler(_Handler):
    """Of several processes one writes at a time: a pipe that is full takes a long line in parts, and lets others between."""

    def emit(self, record: logging.LogRecord) -> None:
        locked = self._lock_stream()
        try:
            super().emit(record)
        finally:
            if locked:
                fcntl.lockf(self.stream, fcntl.LOCK_UN)

    def _lock_stream(self) -> bool:
        """Not for ever: whoever holds it may have been stopped, and a torn line is better than none."""
        deadline = time.monotonic() + _TURN
        while True:
            try:
                # On the stream itself: a record lock belongs to the process, though the descriptor is inherited.
                fcntl.lockf(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EAGAIN} or time.monotonic() > deadline:
                    return False  # taken for too long, or a stream that knows no locks
                time.sleep(0.001)
            else:
                return True


def _fields(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """What a record of the standard library carries in `extra=`; a name that is taken gets an underscore."""
    for name, value in vars(event["_record"]).items():
        if name not in _OWN:
            event[f"{name}_" if name in _RESERVED else name] = value
    return event


class _Order:
    """Time, level, logger, message; then the fields; everything masked, and plain enough for JSON."""

    def __init__(self, masker: Masker, process: int | None) -> None:
        self._mask = masker
        self._process = process

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        record: logging.LogRecord = event.pop("_record", None) or logging.makeLogRecord({"levelname": method.upper()})
        event.pop("_from_structlog", None)
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().isoformat(timespec="milliseconds")
        exception = event.pop("exception", None)
        ordered: dict[str, Any] = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._plain(event.pop("event", "")),
        }
        if self._process is not None:
            ordered["process"] = self._process
        ordered.update((str(self._plain(str(key))), self._plain(value)) for key, value in event.items())
        if exception is not None:
            ordered["exception"] = self._mask(str(exception))
        return ordered

    def _plain(self, value: object, depth: int = 0) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= 64 else self._mask(_shown(value))
        if isinstance(value, float):
            return value if value - value == 0 else repr(value)
        if isinstance(value, str):
            return self._mask(str.__str__(value))
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            return {self._mask(_shown(key)): self._plain(each, depth + 1) for key, each in value.items()}
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
            return [self._plain(each, depth + 1) for each in value]
        return self._mask(_shown(value))


def _shown(value: object) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except Exception:  # noqa: BLE001  somebody else's __str__
        return f"<{type(value).__name__}>"


def _json(logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
    return one_line(json.dumps(event, ensure_ascii=False))


class _Console:
    """`12:00:00 INFO    message  field=value`. On a terminal a traceback follows below, indented; else on the same line."""

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def __call__(self, logger: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        moment, level, name, message = (event.pop(key) for key in ("time", "level", "logger", "message"))
        exception = event.pop("exception", None)
        shown = f"{level.upper():<8}"
        if self._terminal:
            shown = f"\x1b[{_COLORS.get(level, 0)}m{shown}\x1b[0m"
        parts = [moment[11:23] if self._terminal else moment, shown, one_line(str(message))]
        if name != "brooq":
            parts.append(f"logger={one_line(name)}")
        for key, value in event.items():
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            parts.append(f"{one_line(key)}={one_line(written)}")
        line = " ".join(parts)
        if exception is None:
            return line
        if not self._terminal:
            return f"{line} exception={one_line(exception)}"
        return "\n".join([line, *(f"  | {one_line(each)}" for each in exception.split("\n"))])


def _hook() -> None:
    """Whatever nobody caught is a record like any other: masked, on one line."""

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.critical(text("process.uncaught", kind=kind.__name__), exc_info=(kind, error, traceback))

    def threadhook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and not issubclass(arguments.exc_type, SystemExit):
            excepthook(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def unraisablehook(arguments: sys.UnraisableHookArgs) -> None:
        error = arguments.exc_value
        if error is not None:
            excepthook(type(error), error, arguments.exc_traceback)

    sys.excepthook = excepthook
    threading.excepthook = threadhook
    sys.unraisablehook = unraisablehook
