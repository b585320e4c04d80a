"""The message catalogue: both languages whole, every key used, every key there."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

import brooq
from brooq.vocabulary.message import catalogue, language, text

SOURCE = Path(brooq.__file__).parent


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def strings_in_source() -> set[str]:
    """Every string constant of the package: keys are chosen by conditions in places, so calls alone do not tell."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found | {key for key, _ in keys_in_templates()}


def keys_in_templates() -> set[tuple[str, bool]]:
    """The keys that pages name, and whether each is only how a key begins."""
    found = set()
    for file in SOURCE.rglob("*.html"):
        for key, rest in re.findall(r"""\bt\('([a-z]+\.[a-z0-9_]+)'( ?~)?""", file.read_text(encoding="utf-8")):
            found.add((key, bool(rest)))
    return found


def prefixes_in_source() -> tuple[str, ...]:
    """How keys begin that are put together, such as f"command.heading_{name}"."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
            if isinstance(first, ast.Constant) and re.fullmatch(r"[a-z]+\.[a-z_]*", str(first.value)):
                found.add(str(first.value))
    return (*found, *(key for key, begins in keys_in_templates() if begins))


def keys_called() -> dict[str, str]:
    """The keys that `text("…")` is called with, and where."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "text" and node.args
            )
            if named and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                found[str(node.args[0].value)] = f"{file.name}:{node.lineno}"  # type: ignore[attr-defined]
    return found


def test_both_languages_have_the_same_keys_and_placeholders() -> None:
    english, russian = catalogue("en"), catalogue("ru")
    assert english.keys() == russian.keys()
    differing = {key for key in english if placeholders(english[key]) != placeholders(russian[key])}
    assert not differing


def test_russian_texts_are_russian() -> None:
    latin = {key for key, template in catalogue("ru").items() if not re.search("[а-яё]", template, re.IGNORECASE)}
    # Texts that are nothing but placeholders and signs are the same in every language.
    assert {key for key in latin if catalogue("ru")[key] != catalogue("en")[key]} == set()


def test_every_key_that_is_used_is_in_the_catalogue() -> None:
    missing = {f"{key} at {place}" for key, place in keys_called().items() if key not in catalogue("en")}
    missing |= {key for key, begins in keys_in_templates() if not begins and key not in catalogue("en")}
    assert not missing


def test_every_key_of_the_catalogue_is_used() -> None:
    used, prefixes = strings_in_source(), prefixes_in_source()
    unused = {key for key in catalogue("en") if key not in used and not key.startswith(prefixes)}
    assert not unused


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "ru_RU.UTF-8"}, "ru"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "ru_RU.UTF-8", "BROOQ_LANG": "en"}, "en"),
        ({"LC_ALL": "C", "LANG": "ru_RU.UTF-8"}, "en"),
        ({"BROOQ_LANG": "", "LANG": "ru"}, "ru"),
    ],
)
def test_the_language_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("BROOQ_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language() == expected
    assert text("payload.nul", place="$") == catalogue(expected)["payload.nul"].format(place="$")


SPEAKERS = re.compile(
    r"(^|[.])(echo|secho|warning|info|error|debug|exception|critical|write|fail|confirm|prompt|option|argument|command"
    r"|PlainTextResponse|HTMLResponse|Table|add_column)$"
)
"""What makes its arguments seen."""
PROSE = re.compile(r"[A-Za-zА-яё]{2,} [A-Za-zА-яё]{2,}")
NOT_FOR_USERS = {
    "AssertionError",  # says that we are wrong ourselves
    "InterfaceError",  # imitates the driver's own word for a closed connection
    "StoreBusy",  # of the store in memory: PostgreSQL's own words
}
FOR_MACHINES = {
    "misdirected request\n",  # HTTP's own name of the status, for a client that is not a person
    '  export DATABASE_URL="$(brooq local url)"',  # a line to be copied
}


def literals(file: Path) -> list[str]:
    """Texts in a file that somebody may see and that no catalogue has: in errors, logs and answers."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
            seen = not (
                isinstance(call.func, ast.Name | ast.Attribute)
                and ast.unparse(call.func).split(".")[-1] in NOT_FOR_USERS
            )
        elif isinstance(node, ast.Call):
            call, seen = node, bool(SPEAKERS.search(ast.unparse(node.func)))
        else:
            continue
        for argument in [*call.args, *(each.value for each in call.keywords)] if seen else []:
            if not isinstance(argument, ast.Constant | ast.JoinedStr):
                continue
            text = "".join(str(each.value) for each in ast.walk(argument) if isinstance(each, ast.Constant))
            if PROSE.search(text) and text not in FOR_MACHINES:
                found.append(f"{file.relative_to(SOURCE)}:{argument.lineno}: {text}")
    return found


def test_no_text_that_a_user_may_see_is_a_literal() -> None:
    found = [each for file in SOURCE.rglob("*.py") for each in literals(file)]
    assert not found, "\n".join(found)


def test_a_literal_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.vocabulary.test_message.SOURCE", tmp_path)
    (file := tmp_path / "a.py").write_text(
        "log.warning('no database yet')\nclick.echo(f'{n} jobs are dead')\nraise ConfigError('not so fast')\n"
        "raise AssertionError('we are wrong')\nlog.warning(text('a.b'))\nnames = ['two words']\n"
    )
    assert sorted(each.split(":")[1] for each in literals(file)) == ["1", "2", "3"]


def test_values_with_braces_are_values() -> None:
    assert "{evil}" in text("payload.nul", place="{evil}")
