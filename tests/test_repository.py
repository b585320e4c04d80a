"""What is tracked: nothing of one machine, no address of a registry, and the papers that belong to every part."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))

# The brackets keep this file from finding itself.
ADDRESS = re.compile(r"""(?<!no-emit-)(index-ur[l]|find-link[s])|"resolve[d]":|https?://[^\s"']*/simpl[e]\b""")
FOREIGN_PATH = re.compile(r"(?<![\w./~}-])/(roo[t]|wor[k]|hom[e]/\w+)\b(?!-)")
TARGET = re.compile(r"^(?P<name>[a-z][a-z-]*):(?!=)(?P<rest>.*)$", re.MULTILINE)


def tracked() -> list[Path]:
    """The files that git knows; the folder may belong to another user."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in output.split("\0") if name and (ROOT / name).is_file()]


def found(pattern: re.Pattern[str]) -> list[str]:
    """Every line of a tracked text that the pattern fits."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:160]}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_the_address_of_a_registry() -> None:
    lines = found(ADDRESS)
    assert not lines, "\n".join(lines)


def test_no_file_names_a_folder_of_one_machine() -> None:
    lines = found(FOREIGN_PATH)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (ADDRESS, "--index-" + "url somewhere"),
        (ADDRESS, "find-" + "links = folder"),
        (ADDRESS, '"resolved' + '": "x"'),
        (ADDRESS, "https://packages.example/simp" + "le"),
        (FOREIGN_PATH, "cd /" + "root/project"),
        (FOREIGN_PATH, "source: '/" + "work/main'"),
        (FOREIGN_PATH, "/" + "home/anna/brooq"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def test_no_lock_that_holds_addresses_is_tracked() -> None:
    assert not {path.name for path in tracked()} & {"uv.lock", "pylock.toml", "package-lock.json", "poetry.lock"}


def test_every_requirement_is_pinned_with_hashes_and_nothing_else() -> None:
    assert [path.name for path in REQUIREMENTS] == ["dev.txt", "worker.txt"]
    for path in REQUIREMENTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            assert re.fullmatch(r"[\w.\[\]-]+==[\w.+!]+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line


def test_the_requirements_cover_what_the_project_asks_for() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    extras = project["optional-dependencies"]
    core, worker = project["dependencies"], extras["worker"]
    asked = {"worker.txt": core + worker, "dev.txt": core + settings["dependency-groups"]["dev"]}
    asked["dev.txt"] += [each for extra in extras.values() for each in extra]
    for path in REQUIREMENTS:
        pinned = set(re.findall(r"^([\w.-]+)==", path.read_text(encoding="utf-8"), re.MULTILINE))
        names = {re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in asked[path.name]} - {project["name"]}
        assert names <= pinned, "run make lock"


def test_every_make_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {match["name"]: match["rest"] for match in TARGET.finditer(makefile)}
    assert {
        "bin-deps",
        "test-db-up",
        "test",
        "build",
        "lint",
        "spec-validate",
        "migrate-up",
        "migrate-status",
        "run",
    } <= set(targets)
    assert [name for name, rest in targets.items() if " ## " not in rest] == []
    phony = {word for line in re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE) for word in line.split()}
    assert phony == set(targets)


def test_make_without_a_target_shows_every_target() -> None:
    output = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = {line.split()[0] for line in output.splitlines() if line.strip()}
    assert shown == {match["name"] for match in TARGET.finditer((ROOT / "Makefile").read_text(encoding="utf-8"))}


def test_every_module_says_what_it_is_for() -> None:
    modules = sorted((ROOT / "src").rglob("*.py"))
    assert modules
    assert [str(path) for path in modules if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []


def test_scripts_can_be_run() -> None:
    scripts = [ROOT / ".ci" / "run", *(ROOT / "scripts").iterdir()]
    assert [str(path) for path in scripts if not os.access(path, os.X_OK)] == []


def test_the_licence_and_the_papers_are_there() -> None:
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert (ROOT / name).is_file(), name
