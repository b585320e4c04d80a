"""A migration file: goose's format, which dbmate reads too when its markers stand on the lines below.

Pure: it knows no database. The runner is `migrate`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise

from brooq.vocabulary.error import SchemaError
from brooq.vocabulary.message import text

_FILE = re.compile(r"(\d+)_(\w+)\.sql")
_MARKER = re.compile(r"\s*--\s*\+goose\s+(.+?)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, and the line of the file where it begins."""

    sql: str
    line: int


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. `checksum` is the SHA-256 of its text with Unix line ends: a checkout on Windows changes nothing."""

    version: int
    name: str
    checksum: str
    up: tuple[Statement, ...]
    down: tuple[Statement, ...]
    transactional: bool

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.version:05}_{self.name}.sql"


def folder() -> Traversable:
    """The shipped migrations."""
    return files("brooq.postgres") / "migrations"


def latest(source: Traversable) -> int:
    """The highest version of a folder, from the names alone; 0 when it is empty."""
    return max((int(match.group(1)) for file in source.iterdir() if (match := _FILE.fullmatch(file.name))), default=0)


def load(source: Traversable) -> tuple[Migration, ...]:
    """The migrations of a folder in order of version. Raises SchemaError for a file that breaks the format."""
    found = [
        parse(int(match.group(1)), match.group(2), file.read_text(encoding="utf-8"))
        for file in source.iterdir()
        if (match := _FILE.fullmatch(file.name))
    ]
    found.sort(key=lambda migration: migration.version)
    for earlier, later in pairwise(found):
        if earlier.version == later.version:
            raise SchemaError(text("migrate.version_twice", first=earlier.file, second=later.file))
    return tuple(found)


def parse(version: int, name: str, content: str) -> Migration:
    """Read one file. Raises SchemaError with its line for a marker that is unknown, missing or out of place."""
    content = content.replace("\r\n", "\n")
    reader = _Reader(f"{version:05}_{name}.sql")
    for number, line in enumerate(content.split("\n"), start=1):
        reader.take(line, number)
    reader.end()
    checksum = hashlib.sha256(content.encode()).hexdigest()
    return Migration(version, name, checksum, tuple(reader.up), tuple(reader.down), reader.transactional)


class _Reader:
    """Takes a file line by line and splits it where goose splits it."""

    def __init__(self, file: str) -> None:
        self.up: list[Statement] = []
        self.down: list[Statement] = []
        self.transactional = True
        self._file = file
        self._section: list[Statement] | None = None
        self._begun = 0  # the line of an open StatementBegin
        self._lines: list[str] = []
        self._start = 0  # the line of the statement being gathered
        self._last = 0

    def take(self, line: str, number: int) -> None:
        self._last = number
        if marker := _MARKER.fullmatch(line):
            self._mark(" ".join(marker.group(1).upper().split()), number)
        elif self._lines or (line.strip() and not line.lstrip().startswith("--")):
            # Comments above a statement are left out: they would only move the error positions of the server.
            if self._section is None:
                raise self._fault("migrate.before_up", number)
            self._start = self._start or number
            self._lines.append(line)
            if not self._begun and _ends(line):
                self._finish()

    def end(self) -> None:
        if self._begun:
            raise self._fault("migrate.begin_open", self._begun)
        if self._lines:
            raise self._fault("migrate.no_semicolon", self._start)
        if not self.up:
            raise self._fault("migrate.no_up", self._last)

    def _mark(self, word: str, number: int) -> None:
        if word == "NO TRANSACTION":
            self.transactional = False
        elif word == "STATEMENTBEGIN" and not self._begun and not self._lines:
            self._begun = number
        elif word == "STATEMENTEND" and self._begun:
            self._begun = 0
            self._finish()
        elif word in {"UP", "DOWN"} and not self._begun:
            if self._lines:
                raise self._fault("migrate.no_semicolon", self._start)
            self._section = self.up if word == "UP" else self.down
        else:
            raise self._fault("migrate.marker", number)

    def _finish(self) -> None:
        if self._section is not None and self._lines:
            self._section.append(Statement("\n".join(self._lines), self._start))
        self._lines, self._start = [], 0

    def _fault(self, key: str, line: int) -> SchemaError:
        return SchemaError(text(key, place=f"{self._file}:{line}"))


def _ends(line: str) -> bool:
    """goose's rule: the last word before a comment ends with a semicolon."""
    last = ""
    for word in line.split():
        if word.startswith("--"):
            break
        last = word
    return last.endswith(";")
