"""The text of an error for `last_error`: always recordable, bounded, without what must not be kept."""

from __future__ import annotations

import traceback

MAX_BYTES = 4096
MAX_TRACE = 32_768
UNPRINTABLE = "(its text could not be made)"


class Relayed(Exception):
    """An error of a handler in another process, as it was told from there."""

    def __init__(self, reason: str, name: str, trace: str) -> None:
        """`reason` is what `reason` made of it there, `name` its type's, `trace` its traceback."""
        super().__init__(reason)
        self.reason = reason
        self.name = name
        self.is_signal = False
        """Whether it was a signal, raised as it is."""
        if trace:
            self.add_note(trace)


def name_of(error: BaseException) -> str:
    """The name of an error's type, in whatever process it was raised."""
    return error.name if isinstance(error, Relayed) else type(error).__name__


def trace_of(error: BaseException) -> str:
    """Its traceback, the end of it where it is long; never raising."""
    try:
        return "".join(traceback.format_exception(error))[-MAX_TRACE:].rstrip()
    except BaseException:  # noqa: BLE001  as `reason`
        return UNPRINTABLE


def reason(error: BaseException) -> str:
    """`Type: message`, never raising, whatever the error's `__str__` does (requirement C3).

    Only the type and the message: no locals, no traceback, no payload. A driver's DETAIL and CONTEXT lines are cut,
    since they quote the row that was refused. Members of an exception group follow their group.
    """
    parts = [_one(error)]
    if isinstance(error, BaseExceptionGroup):
        parts.extend(_one(member) for member in error.exceptions[:5])
    return sanitize("; ".join(parts))


def _one(error: BaseException) -> str:
    if isinstance(error, Relayed):
        return error.reason
    name = type(error).__name__
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  a handler's error may do anything, its __str__ included
        message = UNPRINTABLE
    kept = []
    for line in message.splitlines():
        if line.lstrip().startswith(("DETAIL:", "CONTEXT:")):
            break
        kept.append(line)
    message = "\n".join(kept)
    return f"{name}: {message}" if message else name


def sanitize(text: str, limit: int = MAX_BYTES) -> str:
    """Text that PostgreSQL takes: NUL and other control characters escaped, lone surrogates replaced, at most `limit`
    bytes of UTF-8 (requirement C3)."""
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text  # nearly every text there is
    text = text[: limit + 1]
    text = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)
    encoded = text.encode("utf-8")
    if len(encoded) <= limit:
        return text
    ellipsis = "…"
    return encoded[: limit - len(ellipsis.encode())].decode("utf-8", "ignore") + ellipsis


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
