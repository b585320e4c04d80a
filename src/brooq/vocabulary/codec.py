"""Codecs: how the payloads of a kind become typed values, by the annotation of its handler."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from brooq.vocabulary.fit import fit, model_misfit, struct_misfit
from brooq.vocabulary.payload import decode
from brooq.vocabulary.plain import is_model, is_struct

T = TypeVar("T")


class Codec(Protocol[T]):
    """Reads and writes the payloads of one type. A type of yours that is none of the known ones names its codec in
    the attribute `__brooq_codec__`."""

    def decode(self, source: str) -> T:
        """The value of a row's JSON text. Raises PayloadError, or any other error, when it does not fit."""

    def encode(self, value: T) -> Any:
        """The value as plain JSON: dicts, lists, strings, numbers."""


class _Fitted:
    """Types of the standard library."""

    def __init__(self, kind: Any) -> None:
        self._fit = fit(kind)

    def decode(self, source: str) -> Any:
        return self._fit(decode(source), "$")

    def encode(self, value: Any) -> Any:
        return value


class _Struct(_Fitted):
    """msgspec reads the text itself, faster than anything else."""

    def __init__(self, kind: Any) -> None:
        self._msgspec = sys.modules["msgspec"]
        self._decoder = self._msgspec.json.Decoder(kind)

    def decode(self, source: str) -> Any:
        try:
            return self._decoder.decode(source)
        except self._msgspec.ValidationError as error:
            raise struct_misfit(error) from None


class _Model(_Fitted):
    """pydantic reads the text itself."""

    def __init__(self, kind: Any) -> None:
        self._adapter = sys.modules["pydantic"].TypeAdapter(kind)

    def decode(self, source: str) -> Any:
        try:
            return self._adapter.validate_json(source)
        except ValueError as error:
            raise model_misfit(error) from None


def codec_of(kind: Any) -> Codec[Any]:
    """What reads payloads as this type: its own codec, msgspec's, pydantic's, or ours. Raises Unfit when none can."""
    own: Codec[Any] | None = getattr(kind, "__brooq_codec__", None)
    if own is not None:
        return own
    if is_struct(kind):
        return _Struct(kind)
    if is_model(kind):
        return _Model(kind)
    return _Fitted(kind)
