"""Typed values as the plain ones that JSON knows: what `Job(topic, Email(…))` and a handler's typed result become.

Only inside of a typed value: a bare dict with a datetime in it stays refused, since it would come back as text. What a
type says comes back: a field that is a datetime is one again when the payload is read as that type.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from brooq.vocabulary.error import PayloadError
from brooq.vocabulary.message import text


def is_typed(value: object) -> bool:
    """Whether it is an instance of a type that says what is in it: a dataclass, a msgspec.Struct, a pydantic model, or
    of one with a codec of its own."""
    return (
        (dataclasses.is_dataclass(value) and not isinstance(value, type))
        or hasattr(type(value), "__brooq_codec__")
        or is_struct(type(value))
        or is_model(type(value))
    )


def is_struct(kind: object) -> bool:
    """Whether it is a msgspec.Struct. Nothing is imported: who has one has imported it."""
    module = sys.modules.get("msgspec")
    return module is not None and isinstance(kind, type) and issubclass(kind, module.Struct)


def is_model(kind: object) -> bool:
    """Whether it is a pydantic model, or a dataclass of pydantic's."""
    return isinstance(kind, type) and "pydantic" in sys.modules and "__pydantic_validator__" in vars(kind)


def to_plain(value: Any, place: str, depth: int = 0) -> Any:
    """The value of plain types alone. Raises PayloadError naming the place."""
    if depth > 64:  # a circular one
        raise PayloadError(text("payload.too_deep", place=place[:80], limit=64), place)
    kind = type(value)
    codec = getattr(kind, "__brooq_codec__", None)
    if codec is not None:
        return codec.encode(value)
    if is_struct(kind):
        return sys.modules["msgspec"].to_builtins(value)
    if is_model(kind):
        return sys.modules["pydantic"].TypeAdapter(kind).dump_python(value, mode="json")
    if dataclasses.is_dataclass(value):
        return {
            each.name: to_plain(getattr(value, each.name), f"{place}.{each.name}", depth + 1)
            for each in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return to_plain(value.value, place, depth + 1)
    if isinstance(value, Mapping):
        return {_key(key): to_plain(each, f"{place}.{key}", depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(each, f"{place}[{index}]", depth + 1) for index, each in enumerate(value)]
    return _scalar(value)


def _key(key: Any) -> Any:
    key = key.value if isinstance(key, Enum) else key
    return key if isinstance(key, str) else _scalar(str(key) if isinstance(key, int) else key)


def _scalar(value: Any) -> Any:
    """Texts that keep everything: a Decimal as a number would lose its zeros. What is unknown stays, to be refused."""
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return value
