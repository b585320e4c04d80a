"""How a handler wants its payload: as `Claim[Email]` in its signature says."""

from __future__ import annotations

import inspect
import sys
from typing import Any, get_args, get_origin

from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.codec import Codec, codec_of
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.fit import Unfit
from brooq.vocabulary.message import text


class Reading:
    """Gives claims the payload that their handler asks for."""

    def __init__(self, codec: Codec[Any] | None) -> None:
        """None: plain JSON, read when the handler first looks."""
        self.typed = codec is not None
        self._codec = codec

    def open(self, claim: Claim[Any]) -> None:
        """Read the payload. Raises PayloadError with the place when it does not fit."""
        if self._codec is not None:
            claim._payload = self._codec.decode(claim._source)  # noqa: SLF001  the engine made the claim


PLAIN = Reading(None)


def reading_of(handler: Handler, topic: str = "") -> Reading:
    """What the annotation of the handler's first argument asks for; plain JSON where it asks for nothing.

    Raises ConfigError for an annotation that cannot be looked up, or a type that JSON cannot be read as.
    """
    name = getattr(handler, "__qualname__", repr(handler))
    call = call_of(handler)
    try:
        first = next(iter(inspect.signature(handler).parameters.values()), None)
    except (TypeError, ValueError):
        return PLAIN
    annotation = None if first is None else first.annotation
    if isinstance(annotation, str):
        if "[" not in annotation:
            return PLAIN  # a bare Claim, perhaps imported for the type checker alone
        try:
            while isinstance(annotation, str):  # quoted twice, where annotations are quoted anyway
                annotation = _look_up(annotation, inspect.unwrap(call))
        except Exception as error:  # noqa: BLE001  it is the consumer's code that is evaluated
            raise ConfigError(
                [text("config.annotation", topic=topic, handler=name, annotation=annotation, reason=str(error))]
            ) from None
    if not inspect.isclass(get_origin(annotation)) or not issubclass(get_origin(annotation), Claim):  # type: ignore[arg-type]
        return PLAIN
    (kind,) = get_args(annotation)
    if kind is Any:
        return PLAIN
    try:
        return Reading(codec_of(kind))
    except Unfit as error:
        raise ConfigError([text("config.payload_type", topic=topic, handler=name, reason=str(error))]) from None


def call_of(handler: Any) -> Any:
    """What runs when a handler is called: the function itself, or the `__call__` of an object."""
    return handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004


def _look_up(annotation: str, call: Any) -> Any:
    """What the text of an annotation means where the handler was written, its enclosing functions included."""
    call = getattr(call, "func", call)  # a partial
    call = getattr(call, "__func__", call)  # a bound method
    names = dict(vars(sys.modules[call.__module__])) | getattr(call, "__globals__", {})
    for name, cell in zip(call.__code__.co_freevars, call.__closure__ or (), strict=True):
        names[name] = cell.cell_contents
    return eval(annotation, names)  # noqa: S307  as typing.get_type_hints does
