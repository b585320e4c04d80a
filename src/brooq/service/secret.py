"""A value that must not be seen."""

from __future__ import annotations

import hmac
from typing import Any, Final

MASK: Final = "***"


class Secret:
    """Shows as *** wherever it is printed, logged, formatted or pickled; `reveal` is the only way to the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Keep it."""
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        """Never the value."""
        return MASK

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        """Never the value."""
        return format(MASK, specification)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle may be written anywhere: it holds the mask alone."""
        return Secret, (MASK,)

    def __copy__(self) -> Secret:
        """A copy within the process is the same secret."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        """A copy within the process is the same secret."""
        return self

    def __eq__(self, other: object) -> bool:
        """In constant time."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._value), _bytes(other._value))

    def __hash__(self) -> int:
        """By the value."""
        return hash(self._value)


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
