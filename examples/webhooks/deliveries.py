"""The deliveries of a file: one JSON object a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brooq import Job, PayloadError
from brooq.vocabulary.payload import encode
from examples.webhooks.app import RECEIVED

SAMPLE = Path(__file__).with_name("sample.jsonl")


class InputError(Exception):
    """The file cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One line. `key` is the same whenever the same file is sent again, and differs for two equal lines of one file."""

    number: int
    key: str
    body: dict[str, Any]

    def job(self) -> Job:
        """The job that receives it; a fresh one at every call, as from a sender that knows nothing of its first try."""
        payload = {"number": self.number, "delivery": self.key, "body": self.body}
        return Job(RECEIVED, payload, idempotency_key=self.key)


def read(path: Path) -> list[Delivery]:
    """Every delivery of a file. Raises InputError naming the line."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    deliveries = list(_deliveries(path, source.removeprefix(b"\xef\xbb\xbf")))
    if not deliveries:
        raise InputError(f"{path}: the file is empty; one JSON object a line is needed")
    return deliveries


def _deliveries(path: Path, source: bytes) -> Iterator[Delivery]:
    for number, line in enumerate(source.split(b"\n"), 1):
        if line.strip():
            body = _object(f"{path}, line {number}", line)
            yield Delivery(number, f"{number}-{hashlib.sha256(line).hexdigest()[:16]}", body)


def _object(place: str, line: bytes) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: no UTF-8 (byte {error.start + 1} of the line)") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: no JSON: {error.msg} (column {error.colno})") from None
    except (RecursionError, ValueError):  # the second: a number with more digits than Python reads
        raise InputError(f"{place}: too deep, or a number too long") from None
    if not isinstance(body, dict):
        raise InputError(f"{place}: a JSON object is needed, this is {type(body).__name__}")
    try:
        # Here, where the line is known: the queue would refuse it as well, before any SQL.
        encode(body)
    except PayloadError as error:
        raise InputError(f"{place}: {error}") from None
    return body
