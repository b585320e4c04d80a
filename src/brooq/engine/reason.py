"""The text of an error for `last_error`: always recordable, bounded, without what must not be kept."""

from __future__ import annotations

MAX_BYTES = 4096
UNPRINTABLE = "(its text could not be made)"


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
