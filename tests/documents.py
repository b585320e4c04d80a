"""The documents as the tests see them: what they promise, taken apart.

A fenced block may be followed by an HTML comment that begins with `then`: Python that runs after the block, in the same
namespace, to see that it did what the text says. Readers never see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "en" / "guide.md"
MIGRATING = ROOT / "docs" / "en" / "migrating.md"
ARCHITECTURE = ROOT / "docs" / "en" / "architecture.md"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
SECURITY = ROOT / "SECURITY.md"
RELIABILITY = ROOT / "docs" / "reliability.md"
RUSSIAN = [ROOT / "README.ru.md", ROOT / "docs" / "ru" / "guide.md", ROOT / "docs" / "ru" / "architecture.md"]
DOCUMENTS = [
    README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", SECURITY, GUIDE, MIGRATING, ARCHITECTURE, RELIABILITY,
    *DECISIONS, *RUSSIAN,
]  # fmt: skip

_BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```\n(?:<!-- then\n(?P<then>.*?)^-->\n)?", re.DOTALL | re.MULTILINE
)
_HEADING = re.compile(r"^#{1,6} (?P<title>.+)$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|sql|md|toml|svg|jsonl)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it is, what it holds, what must be so after it."""

    where: str
    language: str
    text: str
    then: str


def blocks(path: Path, language: str) -> list[Block]:
    """The blocks of one language, in order; `where` is unique."""
    source = path.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(source):
        if match["language"] == language:
            line = source.count("\n", 0, match.start()) + 1
            found.append(Block(f"{path.name}:{line}", language, match["text"], match["then"] or ""))
    return found


def prose(path: Path) -> str:
    """The text without its fenced blocks."""
    return _BLOCK.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> Iterator[tuple[str, str]]:
    """Every link that stays in the repository, as (file, anchor); both may be empty."""
    for match in _LINK.finditer(prose(path)):
        target = match["target"]
        if "://" not in target and not target.startswith("mailto:"):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as forges make them."""
    found = set()
    for match in _HEADING.finditer(prose(path)):
        kept = re.sub(r"[^\w\- ]", "", match["title"].lower())
        found.add(kept.strip().replace(" ", "-"))
    return found


def files_named(path: Path) -> Iterator[str]:
    """What looks like a file or folder of the repository in `code`, without the name of a test behind it."""
    for code in _CODE.findall(prose(path)):
        name = code.partition("::")[0]
        if _FILE.fullmatch(name):
            yield name


def proofs_named(path: Path) -> Iterator[tuple[Path, str]]:
    """Every `tests/file.py::name` of a document."""
    for code in _CODE.findall(prose(path)):
        file, mark, name = code.partition("::")
        if mark:
            yield ROOT / file, name


def table(path: Path, heading: str) -> list[list[str]]:
    """The rows of the table whose first line begins with `| heading |`."""
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
