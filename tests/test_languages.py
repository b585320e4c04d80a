"""The Russian pages say what the English ones say: the same sections with the same code, tables, links and names.

Above each heading of a Russian page a comment names its English one, `<!-- en: anchor -->`. So a section that was written in
English and not yet in Russian is told by its name, and not as a heap of differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.documents import ARCHITECTURE, GUIDE, README, ROOT, anchors, table

from brooq.vocabulary.message import catalogue

PAIRS = {
    README: ROOT / "README.ru.md",
    GUIDE: ROOT / "docs" / "ru" / "guide.md",
    ARCHITECTURE: ROOT / "docs" / "ru" / "architecture.md",
}
IDS = [page.name for page in PAIRS]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_HEADING = re.compile(r"^(?P<level>#{1,6}) (?P<title>.+)$", re.MULTILINE)
_MARK = re.compile(r"^<!-- en: (?P<anchor>[\w-]+) -->\n(?P<level>#{2,6}) ", re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_TARGET = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_NOTE = re.compile(r"\s+#\s.*$", re.MULTILINE)
_WORDS = re.compile(r"[а-яё]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading's own text, without what stands under the headings below it."""

    level: int
    code: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    names: frozenset[str]
    files: frozenset[str]
    prose: str


def names_in(text: str) -> list[str]:
    """What is in `code` and is no sentence: texts of the program are quoted in the reader's language."""
    return [name for name in _CODE.findall(text) if " " not in name and not _WORDS.search(name)]


def essence(language: str, text: str) -> str:
    """Of a block what is not for people alone: code without its notes, of pictures and outputs the paths and options."""
    if language:
        return _NOTE.sub("", text)
    return "\n".join(re.findall(r"[\w.-]*/[\w./-]+|--[a-z-]+", _NOTE.sub("", text)))


def section(text: str) -> Section:
    """A section taken apart."""
    heading = _HEADING.match(text)
    code = tuple((each["language"], essence(each["language"], each["text"])) for each in _FENCE.finditer(text))
    prose = _COMMENT.sub("", _FENCE.sub("", text))
    lines = [line for line in prose.splitlines() if line.startswith("|")]
    return Section(
        level=len(heading["level"]) if heading else 1,
        code=code,
        # What stands first in a row, when it is a name and not a word of the language.
        rows=tuple(tuple(names_in(line.strip("|").split("|")[0])) for line in lines),
        names=frozenset(names_in(prose)),
        files=frozenset(target.partition("#")[0] for target in _TARGET.findall(prose)),
        prose=prose,
    )


def sections(path: Path) -> dict[str, Section]:
    """Every section by its English anchor, in order; "" is what stands above the first."""
    text = path.read_text(encoding="utf-8")
    masked = _FENCE.sub(lambda match: re.sub(r"^", "\0", match[0], flags=re.MULTILINE), text)
    marks = [(match["anchor"], match.start()) for match in _MARK.finditer(masked)]
    if path in PAIRS:
        marks = [
            (anchor(match["title"]), match.start()) for match in _HEADING.finditer(masked) if len(match["level"]) > 1
        ]
    starts = [0, *(start for _, start in marks), len(masked)]
    names = ["", *(name for name, _ in marks)]
    pieces = zip(names, starts, starts[1:], strict=False)
    found = {}
    for name, start, end in pieces:
        piece = masked[start:end].replace("\0", "")
        found[name] = section(re.sub(r"^<!-- en: .*-->\n", "", piece))
    return found


def anchor(title: str) -> str:
    """Of a heading, as forges make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("english", PAIRS, ids=IDS)
def test_every_section_is_there_in_russian_in_the_same_order(english: Path) -> None:
    russian = PAIRS[english]
    wanted, found = list(sections(english)), list(sections(russian))
    missing = [name for name in wanted if name not in found]
    assert not missing, f"{russian.relative_to(ROOT)} lacks what {english.relative_to(ROOT)} has: {', '.join(missing)}"
    assert found == wanted


@pytest.mark.parametrize("english", PAIRS, ids=IDS)
def test_every_heading_of_a_russian_page_names_its_english_one(english: Path) -> None:
    text = _FENCE.sub("", PAIRS[english].read_text(encoding="utf-8"))
    headings = [match for match in _HEADING.finditer(text) if len(match["level"]) > 1]
    assert len(headings) == len(_MARK.findall(text))


def differences(english: Path) -> list[str]:
    """What a Russian page says otherwise than the English one, section by section."""
    ours, theirs = sections(english), sections(PAIRS[english])
    found = []
    for name in ours.keys() & theirs.keys():
        first, second, where = (
            ours[name],
            theirs[name],
            f"{PAIRS[english].relative_to(ROOT)}, {name or 'the beginning'}",
        )
        if first.level != second.level:
            found.append(f"{where}: the heading has another level")
        if first.code != second.code:
            found.append(f"{where}: {len(second.code)} blocks of code instead of {len(first.code)}, or others")
        if first.rows != second.rows:
            other = set(first.rows) ^ set(second.rows) or "the same, but in another order or number"
            found.append(f"{where}: the tables have other rows: {other}")
        if missing := first.names - second.names:
            found.append(f"{where}: lacks {', '.join(sorted(missing))}")
        if more := second.names - first.names:
            found.append(f"{where}: has besides {', '.join(sorted(more))}")
        if unlinked := first.files - {translated(file) for file in second.files} - {PAIRS[english].name}:
            found.append(f"{where}: lacks links to {', '.join(sorted(unlinked))}")
    return found


def translated(file: str) -> str:
    """A link to a Russian page as the one to its English page."""
    return file.replace("docs/ru/", "docs/en/").replace("README.ru.md", "README.md")


@pytest.mark.parametrize("english", PAIRS, ids=IDS)
def test_sections_have_the_same_code_tables_names_and_links(english: Path) -> None:
    found = differences(english)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("english", PAIRS, ids=IDS)
def test_russian_pages_are_russian(english: Path) -> None:
    for name, each in sections(PAIRS[english]).items():
        for part in each.prose.split("\n\n"):
            words = re.findall(r"[a-zа-яё]{3,}", _TARGET.sub("", _CODE.sub("", part)), re.IGNORECASE)
            foreign = [word for word in words if not _WORDS.search(word)]
            # Names stay as they are; whole sentences do not.
            assert len(foreign) <= max(len(words) / 2, 8), f"{name}: {part[:200]}"


def test_the_texts_that_are_quoted_in_russian_are_those_of_the_program() -> None:
    texts = list(catalogue("ru").values())
    rows = [row[0] for row in table(PAIRS[GUIDE], "что вы видите")]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row) if _WORDS.search(text)]
    assert len(quoted) >= 4
    for text in quoted:
        for piece in text.split("…"):
            assert any(piece.strip() in each for each in texts), text


def test_a_section_that_is_missing_or_differs_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    english, russian = tmp_path / "a.md", tmp_path / "b.md"
    english.write_text("# A\n\n## One\n\n`x`\n\n```sh\nrun  # it\n```\n\n## Two\n\n| `a` | b |\n", encoding="utf-8")
    monkeypatch.setitem(PAIRS, english, russian)
    monkeypatch.setattr("tests.test_languages.ROOT", tmp_path)
    russian.write_text("# А\n\n<!-- en: one -->\n## Раз\n\n`x`\n\n```sh\nrun  # это\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"b\.md lacks what a\.md has: two"):
        test_every_section_is_there_in_russian_in_the_same_order(english)
    assert differences(english) == []
    russian.write_text("# А\n\n<!-- en: one -->\n## Раз\n\n`y`\n\n```sh\nstop\n```\n", encoding="utf-8")
    assert [fault.partition(": ")[2] for fault in differences(english)] == [
        "1 blocks of code instead of 1, or others", "lacks x", "has besides y",
    ]  # fmt: skip


@pytest.mark.parametrize("english", PAIRS, ids=IDS)
def test_marks_are_anchors_of_the_english_page(english: Path) -> None:
    text = PAIRS[english].read_text(encoding="utf-8")
    assert {match["anchor"] for match in _MARK.finditer(text)} <= anchors(english)
