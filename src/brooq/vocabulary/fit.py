"""Plain values as typed ones: JSON into dataclasses, TypedDicts and what may be in them, naming the place that does not
fit. No value is bent: `"3"` is no int, 1 is no bool."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from brooq.vocabulary.error import PayloadError
from brooq.vocabulary.message import text
from brooq.vocabulary.plain import is_model, is_struct

Fit: TypeAlias = Callable[[Any, str], Any]
"""The value as the type has it. Raises PayloadError with the place."""


class Unfit(TypeError):
    """A type that JSON cannot be read as."""


_MISSING: Any = object()
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@cache
def fit(kind: Any) -> Fit:
    """What reads a plain value as this type. Raises Unfit."""
    while hasattr(kind, "__supertype__") or (hasattr(kind, "__value__") and not isinstance(kind, type)):
        kind = getattr(kind, "__supertype__", None) or kind.__value__  # NewType, `type X = …`
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final):
        return fit(arguments[0])
    if kind is Any or kind is object:
        return lambda value, place: value
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _literal(arguments)
    if (origin or kind) in (*_LISTS, tuple, set, frozenset):
        return _array(origin or kind, arguments)
    if (origin or kind) in _DICTS:
        return _mapping(arguments)
    if not isinstance(kind, type):
        raise Unfit(_name(kind))
    return _class(kind)


def _class(kind: type) -> Fit:
    if is_struct(kind):
        return _struct(kind)
    if is_model(kind):
        return _model(kind)
    if issubclass(kind, Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if typing.is_typeddict(kind):
        return _typed_dict(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind)
    raise Unfit(_name(kind))


# --- scalars ---


def _exactly(kind: type, *others: type, make: Callable[[Any], Any] | None = None) -> Fit:
    """Values of these types, bool being no int; `make` raises ValueError for those that do not fit."""
    accepted = (kind, *others) if make is None else others

    def check(value: Any, place: str) -> Any:
        if not isinstance(value, accepted) or (type(value) is bool and kind is not bool):
            _refuse(place, _name(kind), value)
        if make is None:
            return value
        try:
            return make(value)
        except (ValueError, OverflowError, InvalidOperation):
            _refuse(place, _name(kind), value)

    return check


def _decimal(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


_SCALARS: dict[Any, Fit] = {
    str: _exactly(str),
    int: _exactly(int),
    bool: _exactly(bool),
    float: _exactly(float, int, float, Decimal, make=float),
    None: _exactly(type(None)),
    type(None): _exactly(type(None)),
    Decimal: _exactly(Decimal, str, int, float, Decimal, make=_decimal),
    datetime: _exactly(datetime, str, make=datetime.fromisoformat),
    date: _exactly(date, str, make=date.fromisoformat),
    time: _exactly(time, str, make=time.fromisoformat),
    timedelta: _exactly(timedelta, int, float, make=lambda seconds: timedelta(seconds=seconds)),
    UUID: _exactly(UUID, str, make=UUID),
    bytes: _exactly(bytes, str, make=lambda value: base64.b64decode(value, validate=True)),
    Path: _exactly(Path, str, make=Path),
    PurePath: _exactly(PurePath, str, make=PurePath),
}


# --- what holds others ---


def _union(arguments: tuple[Any, ...]) -> Fit:
    fits = [fit(each) for each in arguments]
    wanted = " | ".join(_name(each) for each in arguments)

    def choose(value: Any, place: str) -> Any:
        deepest: PayloadError | None = None
        for each in fits:
            try:
                return each(value, place)
            except PayloadError as error:
                # One that fitted down to some place inside tells more than the others.
                if error.place != place and (deepest is None or len(error.place) > len(deepest.place)):
                    deepest = error
        if deepest is not None:
            raise deepest
        _refuse(place, wanted, value)

    return choose


def _literal(arguments: tuple[Any, ...]) -> Fit:
    def check(value: Any, place: str) -> Any:
        for each in arguments:
            if type(each) is type(value) and each == value:
                return each
        _refuse(place, " | ".join(map(repr, arguments)), value)

    return check


def _array(kind: Any, arguments: tuple[Any, ...]) -> Fit:
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return _row([fit(each) for each in arguments], tuple)
    member = fit(arguments[0]) if arguments else fit(Any)
    make = kind if kind in (tuple, set, frozenset) else list

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple)):
            _refuse(place, "list", value)
        return make(member(each, f"{place}[{index}]") for index, each in enumerate(value))

    return read


def _row(fits: list[Fit], make: Callable[[Any], Any]) -> Fit:
    def read(value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(fits):
            _refuse(place, text("payload.list_of", count=len(fits)), value)
        return make(each(part, f"{place}[{index}]") for index, (each, part) in enumerate(zip(fits, value, strict=True)))

    return read


def _named_tuple(kind: Any) -> Fit:
    hints = get_type_hints(kind)
    return _row([fit(hints.get(name, Any)) for name in kind._fields], kind._make)


def _mapping(arguments: tuple[Any, ...]) -> Fit:
    key, member = (fit(each) for each in arguments or (str, Any))
    whole = bool(arguments) and arguments[0] is int

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            _refuse(place, "dict", value)
        return {
            key(_integer(name) if whole else name, f"{place}.{name}"): member(each, f"{place}.{name}")
            for name, each in value.items()
        }

    return read


def _integer(name: str) -> Any:
    """JSON's keys are texts, those of a dict[int, …] too."""
    try:
        return int(name)
    except ValueError:
        return name


def _enum(kind: type[Enum]) -> Fit:
    by_value = {(type(each.value), each.value): each for each in kind}

    def check(value: Any, place: str) -> Any:
        try:
            return by_value[type(value), value]
        except (KeyError, TypeError):
            _refuse(place, " | ".join(repr(each.value) for each in kind), value)

    return check


def _dataclass(kind: Any) -> Fit:
    hints = _hints(kind)
    parts = [each for each in dataclasses.fields(kind) if each.init]
    late = _later(kind, {each.name: hints[each.name] for each in parts})
    needed = {
        each.name
        for each in parts
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            _refuse(place, kind.__name__, value)
        found = {}
        for name, member in late().items():
            part = value.get(name, _MISSING)
            if part is not _MISSING:
                found[name] = member(part, f"{place}.{name}")
            elif name in needed:
                _lacks(f"{place}.{name}", hints[name])
        try:
            return kind(**found)
        except (ValueError, TypeError) as error:  # __post_init__ knows better
            raise PayloadError(text("payload.refused", place=place, kind=kind.__name__, reason=error), place) from error

    return read


def _typed_dict(kind: Any) -> Fit:
    hints = _hints(kind)
    late = _later(kind, hints)
    # Not what `__required_keys__` says alone: where annotations are quoted, it has not looked into them.
    needed = {
        name
        for name, hint in hints.items()
        if get_origin(hint) is not typing.NotRequired
        and (get_origin(hint) is typing.Required or name in kind.__required_keys__)
    }

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            _refuse(place, kind.__name__, value)
        found = dict(value)
        for name, member in late().items():
            if name in value:
                found[name] = member(value[name], f"{place}.{name}")
            elif name in needed:
                _lacks(f"{place}.{name}", hints[name])
        return found

    return read


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise Unfit(f"{_name(kind)}: {error}") from None


def _later(kind: Any, hints: dict[str, Any]) -> Callable[[], dict[str, Fit]]:
    """The fits of the parts. Those of a type that refers to itself are made when they are first needed."""
    if kind in _UNDER_WAY:
        made: dict[str, Fit] = {}

        def later() -> dict[str, Fit]:
            if not made:
                made.update({name: fit(hint) for name, hint in hints.items()})
            return made

        return later
    _UNDER_WAY.append(kind)
    try:
        fits = {name: fit(hint) for name, hint in hints.items()}
    finally:
        _UNDER_WAY.pop()
    return lambda: fits


_UNDER_WAY: list[Any] = []


# --- msgspec and pydantic inside of a dataclass ---


def _struct(kind: Any) -> Fit:
    msgspec = sys.modules["msgspec"]

    def read(value: Any, place: str) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise struct_misfit(error, place) from None

    return read


def struct_misfit(error: Exception, place: str = "$") -> PayloadError:
    """What msgspec says, in our words: `Expected `str`, got `int` - at `$.to[2]``."""
    said, _, inner = str(error).partition(" - at `$")
    place += inner.rstrip("`")
    said = said.replace("`", "")
    return PayloadError(f"{place}: {said[:1].lower()}{said[1:]}", place)


def _model(kind: Any) -> Fit:
    adapter = sys.modules["pydantic"].TypeAdapter(kind)

    def read(value: Any, place: str) -> Any:
        try:
            return adapter.validate_python(value)
        except ValueError as error:
            raise model_misfit(error, place) from None

    return read


def model_misfit(error: Any, place: str = "$") -> PayloadError:
    """What pydantic says, in our words, without the values that it was given."""
    told = []
    first = place
    for number, each in enumerate(error.errors(include_url=False, include_context=False)[:3]):
        inner = place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in each["loc"])
        first = inner if number == 0 else first
        said = each["msg"][:1].lower() + each["msg"][1:]
        got = "" if each["type"] == "missing" else f", got {type(each['input']).__name__}"
        told.append(f"{inner}: {said}{got}")
    return PayloadError("; ".join(told), first)


# --- words ---


def _refuse(place: str, wanted: str, value: Any) -> NoReturn:
    raise PayloadError(text("payload.misfit", place=place, wanted=wanted, got=_shown(value)), place)


def _lacks(place: str, kind: Any) -> NoReturn:
    raise PayloadError(text("payload.lacks", place=place, wanted=_name(kind)), place)


def _shown(value: Any) -> str:
    """The type alone: values may be what logs must not hold."""
    return "null" if value is None else type(value).__name__


def _name(kind: Any) -> str:
    if kind is type(None) or kind is None:
        return "null"
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return str(kind).replace("typing.", "")
