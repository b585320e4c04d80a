"""One thing that was looked at: how it is, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from brooq.service.line import shorten
from brooq.vocabulary.message import text


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Something to know, or to see to some day."""
    WRONG = "wrong"
    """Something that costs jobs, speed or space now, or soon."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check came to. `check` and `name` are for programs, `message` and `remedy` for people."""

    check: str
    severity: Severity
    name: str
    message: str
    remedy: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is expected here."""

    schema: str
    version: int
    """The migration that this brooq needs."""
    prepared: bool = True
    retention: bool = True
    patience: timedelta = timedelta(minutes=1)
    """How old a transaction, an expired lease or a waiting job may be before it is worth a word; ten times that is wrong."""


def ok(check: str, /, **values: object) -> Finding:
    """All is well: the text `doctor.<check>_ok`."""
    return Finding(check, Severity.OK, "ok", text(f"doctor.{check}_ok", **_shown(values)), values=values)


def note(check: str, name: str, /, **values: object) -> Finding:
    """The texts `doctor.<name>` and `doctor.<name>_remedy`."""
    return _made(check, Severity.NOTE, name, values)


def wrong(check: str, name: str, /, **values: object) -> Finding:
    """The texts `doctor.<name>` and `doctor.<name>_remedy`."""
    return _made(check, Severity.WRONG, name, values)


def _made(check: str, severity: Severity, name: str, values: Mapping[str, object]) -> Finding:
    shown = _shown(values)
    message, remedy = text(f"doctor.{name}", **shown), text(f"doctor.{name}_remedy", **shown)
    return Finding(check, severity, name, message, remedy, values)


def _shown(values: Mapping[str, object]) -> dict[str, object]:
    """Names come from whoever logs in: nothing in them breaks a line."""
    return {name: shorten(value, 300) if isinstance(value, str) else value for name, value in values.items()}
