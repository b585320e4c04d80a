"""The texts of click: all that a user can meet are ours, in both languages."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.service.brooq_process import inside as brooq
from tests.service.test_cli import commands

from brooq.service.commands import root
from brooq.service.commands.click_text import KEYS, MODULES
from brooq.vocabulary.message import catalogue

NEVER_MET = {
    # What only a programmer's mistake brings about, and what brooq does not use: prompts, dates, UUIDs of click.
    "Do you want to continue?", "Confirm the action without prompting.", "%(prog)s, version %(version)s",
    "Show the version and exit.", "Press any key to continue...", "Repeat for confirmation",
    "Error: The two entered values do not match.", "Unknown color {colour!r}", "deprecated", "Positional arguments",
    "DeprecationWarning: The command {name!r} is deprecated.{extra_message}", "Value must be an iterable.",
    "DeprecationWarning: The {param_type} {name!r} is deprecated.{extra_message}",
    "Could not determine name for option with declarations {decls!r}",
    ("No options defined but a name was passed ({name}). Did you mean to declare an argument instead? "
     "Did you mean to pass '--{name}'?"),
    "Arguments take exactly one parameter declaration, got {length}: {decls}.", "Name '{name}' defined twice",
    "Boolean option {decl!r} cannot use the same flag for true/false.", "Invalid start character for option ({option})",
    "Choice({choices})", "{value!r} does not match the format {format}.", "{value!r} does not match the formats {formats}.",
    "{len_type} values are required, but {len_value} was given.",
    "{len_type} values are required, but {len_value} were given.", "{value!r} is not a valid UUID.",
}  # fmt: skip


def texts_of_click() -> set[str]:
    """Every text that click's modules ask gettext for."""
    found = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_", "ngettext"):
                found |= {
                    each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return found


def test_every_text_of_this_click_is_known() -> None:
    assert texts_of_click() - set(KEYS) - NEVER_MET == set()


def test_english_is_clicks_own() -> None:
    assert {catalogue("en")[f"click.{key}"] for key in KEYS.values()} == set(KEYS)
    assert {key for key in catalogue("en") if key.startswith("click.")} == {f"click.{key}" for key in KEYS.values()}


FRAGMENTS = (
    "Usage:", "Options:", "Show this", "Missing", "Invalid", "No such", "default:", "Did you", "unexpected", "requires",
    "not one of", "not in the range", "is not a valid", "does not exist", "did you mean",
)  # fmt: skip


def forget_help_option(path: tuple[str, ...]) -> None:
    """click makes it once a command, in the language of that moment: other tests of this process ask in English."""
    command: click.Command = root
    vars(command)["_help_option"] = None
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    vars(command)["_help_option"] = None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Вызов: brooq"),
        (["jbos"], "команды jbos нет; может быть, jobs?"),
        (["show"], "Не хватает аргумента"),
        (["stats", "a", "b"], "Лишние аргументы (a b)"),
        (["stats", "--jsno"], "Параметра '--jsno' нет. Может быть, '--json'?"),
        (["jobs", "--limit"], "Параметру '--limit' нужно значение"),
        (["jobs", "--limit", "0"], "0 вне границ 1<=x<=100000"),
        (["jobs", "--limit", "x"], "'x' не подходит"),
        (["jobs", "--state", "dne"], "'dne' нет среди"),
        (["verify", "--journal", "nowhere"], "'nowhere': такого нет"),
        (["show", "7"], "Неверное значение для 'ID'"),
    ],
)
def test_what_is_wrong_is_said_in_russian(arguments: list[str], told: str, tmp_path: Path) -> None:
    forget_help_option(())
    done = brooq(*arguments, cwd=tmp_path, BROOQ_LANG="ru")
    assert done.returncode == 2
    assert told in done.stderr
    assert not [each for each in FRAGMENTS if each in done.stderr]


@pytest.mark.parametrize("path", commands(root), ids=" ".join)
def test_all_help_is_russian(path: tuple[str, ...], tmp_path: Path) -> None:
    forget_help_option(path)
    done = brooq(*path, "--help", cwd=tmp_path, BROOQ_LANG="ru")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Вызов: {' '.join(('brooq', *path))}")
    assert not [each for each in FRAGMENTS if each in done.stdout]
    forget_help_option(path)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("path", commands(root), ids=" ".join)
def test_help_fits_its_terminal(path: tuple[str, ...], width: int) -> None:
    answer = CliRunner().invoke(
        root, [*path, "--help"], prog_name="brooq", terminal_width=width, max_content_width=width
    )
    assert answer.exit_code == 0
    assert max(len(line) for line in answer.output.splitlines()) <= width
    assert isinstance(root, click.Group)
