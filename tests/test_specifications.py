"""Every scenario under openspec/ names a test that exists: a promise without a proof is found here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPECIFICATIONS = sorted((ROOT / "openspec" / "specs").glob("*/spec.md"))
REFERENCE = re.compile(r"^- \*\*TEST\*\* (?P<path>tests/[\w/]+\.py)(?:::(?P<name>[\w:]+))?$")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario and the tests it names, as written."""

    where: str
    title: str
    tests: tuple[str, ...]


def scenarios(path: Path, root: Path = ROOT) -> Iterator[Scenario]:
    """The scenarios of one specification in their order."""
    title, start, tests = "", 0, list[str]()
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate([*lines, "#"], 1):
        if line.startswith("#"):
            if title:
                yield Scenario(f"{path.relative_to(root)}:{start}", title, tuple(tests))
            heading, found, rest = line.partition("#### Scenario: ")
            title, start, tests = (rest if found and not heading else ""), number, []
        elif line.startswith("- **TEST**"):
            tests.append(line)


@cache
def defined_tests(path: Path) -> frozenset[str]:
    """The tests that a file defines, those of classes as `Class::test`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test"):
                names.add(prefix + each.name)
    return frozenset(names)


def faults(path: Path, root: Path = ROOT) -> list[str]:
    """Every scenario of a specification without a test, and every test named that is not there."""
    found = []
    for each in scenarios(path, root):
        if not each.tests:
            found.append(f"{each.where}: '{each.title}' names no test")
        for line in each.tests:
            match = REFERENCE.match(line)
            if not match or not match["name"]:
                found.append(f"{each.where}: '{each.title}' names no test function: {line}")
            elif not (root / match["path"]).is_file():
                found.append(f"{each.where}: there is no file {match['path']}")
            elif match["name"] not in defined_tests(root / match["path"]):
                found.append(f"{each.where}: {match['path']} has no test {match['name']}")
    return found


def test_there_are_specifications() -> None:
    assert len(SPECIFICATIONS) >= 13
    assert all(list(scenarios(path)) for path in SPECIFICATIONS)


@pytest.mark.parametrize("path", SPECIFICATIONS, ids=lambda path: path.parent.name)
def test_every_scenario_names_a_test_that_exists(path: Path) -> None:
    found = faults(path)
    assert not found, "\n".join(found)


def test_every_requirement_has_a_scenario_and_names_its_number() -> None:
    for path in SPECIFICATIONS:
        for block in path.read_text(encoding="utf-8").split("### Requirement: ")[1:]:
            title, _, rest = block.partition("\n")
            assert "#### Scenario: " in rest, f"{path}: '{title}' has no scenario"
            assert re.search(r"\([A-Z]{1}\d+", rest.partition("####")[0]), f"{path}: '{title}' names no requirement"


def test_a_scenario_without_its_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_one(): ...\nclass TestB:\n    def test_two(self): ...\n")
    path = tmp_path / "spec.md"
    path.write_text(
        "### Requirement: R\n"
        "#### Scenario: none\n- **WHEN** a\n- **THEN** b\n"
        "#### Scenario: fine\n- **TEST** tests/test_a.py::test_one\n- **TEST** tests/test_a.py::TestB::test_two\n"
        "#### Scenario: wrong name\n- **TEST** tests/test_a.py::test_two\n"
        "#### Scenario: wrong file\n- **TEST** tests/test_b.py::test_one\n"
        "#### Scenario: no name\n- **TEST** tests/test_a.py\n"
    )
    assert [fault.partition(":")[2].partition(":")[0] for fault in faults(path, tmp_path)] == ["2", "8", "10", "12"]
