"""Payloads: JSON that comes back from jsonb as it went in (requirement E6).

jsonb keeps numbers as decimals: it has no exponent and no negative zero. A float written as `1e+16` would come back as
an int, and `-0.0` as `0.0`. So floats are written here in positional notation with a fraction, and negative zero as a
number that only a decimal can tell from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from brooq.vocabulary.error import PayloadError
from brooq.vocabulary.message import text
from brooq.vocabulary.plain import is_typed, to_plain

MAX_BYTES = 1024 * 1024
"""The largest payload in bytes of its JSON, unless the store is told otherwise."""

MAX_DEPTH = 64
"""How deep arrays and objects may nest; jsonb's parser and Python's recurse."""

MAX_DIGITS = 4000
"""How many digits an integer, or an exponent's reach, may have: Python refuses to read integers over 4,300 digits."""

_MAX_BITS = int(MAX_DIGITS * 3.3219)

_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
_encoder = (
    None
    if _make_encoder is None  # a Python without it; its own encoder in Python would be no faster than ours
    else _make_encoder(None, None, encode_basestring, None, ":", ",", False, False, False)
)

# Below the smallest float, so that every reader of doubles rounds it to -0.0; as a decimal it is as good as zero.
_NEGATIVE_ZERO = "-0." + "0" * 399 + "1"


def encode(payload: Any, max_bytes: int = MAX_BYTES) -> str:
    """The payload as JSON text for jsonb. `bytes` are taken as JSON that is ready made, and checked.

    Raises PayloadError naming the place for whatever jsonb could not give back.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        payload = _parse(bytes(payload), max_bytes)
    result = _quickly(payload)
    if result is None:
        pieces: list[str] = []
        _write(payload, pieces, "$", 0)
        result = "".join(pieces)
    # A character has four bytes at most.
    if len(result) * 4 > max_bytes:
        size = len(result) if result.isascii() else len(_utf8(result))
        if size > max_bytes:
            raise PayloadError(text("payload.too_large", size=size, limit=max_bytes))
    return result


def _quickly(payload: Any) -> str | None:
    """The JSON of a payload of plain types, by the standard library's encoder; None for what the writer below has to look
    at, which knows the place of whatever is wrong."""
    if type(payload) is not dict or _encoder is None or not _plain_object(payload, 0):
        return None
    result = "".join(_encoder(payload, 0))
    # A NUL was written as an escape, and so may be what only looks like one; a surrogate was written as it is.
    if "\\u0000" in result:
        return None
    if not result.isascii():
        try:
            _utf8(result)
        except UnicodeEncodeError:
            return None
    return result


def _plain_object(value: dict[Any, Any], depth: int) -> bool:
    try:
        "".join(value)  # keys that are no strings raise
    except TypeError:
        return False
    return depth < MAX_DEPTH and _plain_members(value.values(), depth)


def _plain_members(members: Iterable[Any], depth: int) -> bool:
    """Whether the standard library writes them as the writer below does."""
    for member in members:
        kind = type(member)
        if kind is str or member is None or kind is bool:
            continue
        if kind is int:
            if member.bit_length() > _MAX_BITS:
                return False
        elif kind is dict:
            if not _plain_object(member, depth + 1):
                return False
        elif kind is list or kind is tuple:
            if depth + 1 >= MAX_DEPTH or not _plain_members(member, depth + 1):
                return False
        elif kind is not float or not 1e-4 <= abs(member) < 1e16:  # where repr has no exponent
            return False
    return True


def decode(source: str | bytes) -> Any:
    """The payload of a row. A number that a float cannot hold exactly comes back as a Decimal, never rounded.

    Raises PayloadError when Python cannot read it (an integer of over 4,300 digits, inserted by hand).
    """
    try:
        return _READER.decode(source) if isinstance(source, str) else json.loads(source, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise PayloadError(text("payload.unreadable", reason=str(error))) from None


def _number(literal: str) -> float | Decimal:
    value = float(literal)
    # Up to 15 significant digits every decimal survives the way through a float.
    if len(literal) <= 16 and "e" not in literal.lower():
        return value
    if literal == _NEGATIVE_ZERO:
        return value
    exact = Decimal(literal)
    return value if math.isfinite(value) and Decimal(repr(value)) == exact else exact


# json.loads makes one anew for every text that it reads in another way than its own.
_READER = json.JSONDecoder(parse_float=_number)


def _parse(source: bytes, max_bytes: int) -> Any:
    if len(source) > max_bytes:
        raise PayloadError(text("payload.too_large", size=len(source), limit=max_bytes))
    try:
        return json.loads(source.decode("utf-8"), parse_float=_number, parse_constant=_refuse_constant)
    except PayloadError:
        raise
    except RecursionError:
        raise PayloadError(text("payload.too_deep", place="$", limit=MAX_DEPTH)) from None
    except ValueError as error:
        raise PayloadError(text("payload.not_json", reason=str(error))) from None


def _refuse_constant(literal: str) -> NoReturn:
    raise PayloadError(text("payload.not_finite", place="$", value=literal))


def _utf8(string: str) -> bytes:
    return string.encode("utf-8")


def _write(value: Any, pieces: list[str], place: str, depth: int) -> None:
    """Append the JSON of a value. Dispatch on the exact type first: almost every value is of one."""
    kind = type(value)
    if kind is str:
        pieces.append(_string(value, place))
    elif value is None:
        pieces.append("null")
    elif value is True:
        pieces.append("true")
    elif value is False:
        pieces.append("false")
    elif kind is int:
        pieces.append(_integer(value, place))
    elif kind is dict:
        _object(value, pieces, place, depth)
    elif kind is list or kind is tuple:
        _array(value, pieces, place, depth)
    elif kind is float:
        pieces.append(_float(value, place))
    elif kind is Decimal:
        pieces.append(_decimal(value, place))
    else:
        _write_subclass(value, pieces, place, depth)


def _write_subclass(value: Any, pieces: list[str], place: str, depth: int) -> None:
    plain: Any
    for base, plain in ((str, str.__str__), (int, int.__int__), (float, float.__float__), (Decimal, Decimal)):
        if isinstance(value, base):
            _write(plain(value), pieces, place, depth)
            return
    if isinstance(value, Mapping):
        _object(value, pieces, place, depth)
    elif isinstance(value, (list, tuple)):
        _array(value, pieces, place, depth)
    elif is_typed(value):
        _write(to_plain(value, place), pieces, place, depth)
    else:
        raise PayloadError(text("payload.unsupported", place=place, type=kind_name(value)), place)


def kind_name(value: object) -> str:
    """The name of a value's type, with its module where it is not a builtin."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _object(value: Mapping[Any, Any], pieces: list[str], place: str, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise PayloadError(text("payload.too_deep", place=_short(place), limit=MAX_DEPTH), place)
    pieces.append("{")
    separator = ""
    for key, member in value.items():
        # Most members are plain text under a plain key: they are written without naming their place first.
        if type(key) is str and type(member) is str and _plain(key) and _plain(member):
            pieces.append(f"{separator}{encode_basestring(key)}:{encode_basestring(member)}")
            separator = ","
            continue
        if not isinstance(key, str):
            raise PayloadError(text("payload.key_type", place=place, key=repr(key)[:80], type=kind_name(key)), place)
        inner = f"{place}.{key}"
        pieces.append(separator)
        pieces.append(_string(str.__str__(key), inner))
        pieces.append(":")
        _write(member, pieces, inner, depth + 1)
        separator = ","
    pieces.append("}")


def _array(value: list[Any] | tuple[Any, ...], pieces: list[str], place: str, depth: int) -> None:
    # A circular structure ends here too: it is as deep as one likes.
    if depth >= MAX_DEPTH:
        raise PayloadError(text("payload.too_deep", place=_short(place), limit=MAX_DEPTH), place)
    pieces.append("[")
    for index, member in enumerate(value):
        if index:
            pieces.append(",")
        _write(member, pieces, f"{place}[{index}]", depth + 1)
    pieces.append("]")


def _short(place: str) -> str:
    return place if len(place) <= 80 else f"{place[:77]}..."


def _plain(value: str) -> bool:
    return value.isascii() and "\0" not in value


def _string(value: str, place: str) -> str:
    if "\0" in value:
        raise PayloadError(text("payload.nul", place=printable(place)), place)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise PayloadError(text("payload.surrogate", place=printable(place)), place) from None
    return encode_basestring(value)


def printable(string: str) -> str:
    """The string with what cannot be printed or encoded shown as an escape."""
    return string.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _integer(value: int, place: str) -> str:
    # bit_length first: turning a huge integer into digits raises ValueError, and takes long.
    if value.bit_length() > _MAX_BITS:
        raise PayloadError(text("payload.number_too_long", place=place, limit=MAX_DIGITS), place)
    return int.__repr__(value)


def _float(value: float, place: str) -> str:
    literal = float.__repr__(value)
    if "e" not in literal:
        if literal == "-0.0":
            return _NEGATIVE_ZERO
        if literal[-1].isdigit():
            return literal
    if not math.isfinite(value):
        raise PayloadError(text("payload.not_finite", place=place, value=literal), place)
    positional = format(Decimal(literal), "f")
    return positional if "." in positional else f"{positional}.0"


def _decimal(value: Decimal, place: str) -> str:
    if not value.is_finite():
        raise PayloadError(text("payload.not_finite", place=place, value=str(value)), place)
    exponent = value.as_tuple().exponent
    if len(value.as_tuple().digits) > MAX_DIGITS or abs(int(exponent)) > MAX_DIGITS:
        raise PayloadError(text("payload.number_too_long", place=place, limit=MAX_DIGITS), place)
    return format(value, "f")
