"""The texts of click itself in the user's language: usage, help, and what is wrong with an argument.

click asks gettext, which would want compiled catalogues in a folder of the system. Its modules each have the function
under a name of their own, which is replaced here: once, at import, before any command runs.
"""

from __future__ import annotations

import click.core
import click.decorators
import click.exceptions
import click.formatting
import click.parser
import click.termui
import click.types

from brooq.vocabulary.message import catalogue, language, text

KEYS = {
    "Usage:": "usage",
    "Options": "options",
    "Commands": "commands",
    "Show this message and exit.": "help",
    "Aborted!": "aborted",
    "Missing command.": "missing_command",
    "Missing argument": "missing_argument",
    "Missing option": "missing_option",
    "Missing parameter": "missing_parameter",
    "Missing parameter: {param_name}": "missing_named",
    "Missing {param_type}": "missing_kind",
    "default: {default}": "default",
    "required": "required",
    "(dynamic)": "dynamic",
    "env var: {var}": "env",
    "Got unexpected extra argument ({args})": "extra_argument",
    "Got unexpected extra arguments ({args})": "extra_arguments",
    "Takes {nargs} values but 1 was given.": "takes_one",
    "Takes {nargs} values but {len} were given.": "takes",
    "Option {name!r} does not take a value.": "no_value",
    "Option {name!r} requires an argument.": "requires_one",
    "Option {name!r} requires {nargs} arguments.": "requires",
    "Argument {name!r} takes {nargs} values.": "argument_takes",
    "Did you mean {possibility}?": "did_you_mean",
    "(Did you mean one of: {possibilities}?)": "did_you_mean_one_of",
    "unknown error": "unknown_error",
    "Invalid value: {message}": "invalid",
    "Invalid value for {param_hint}: {message}": "invalid_for",
    "Could not open file {filename!r}: {message}": "no_file",
    "Error: {message}": "error",
    "Try '{command} {option}' for help.": "try_help",
    "No such option {name!r}.": "no_option",
    "No such command {name!r}.": "no_command",
    "Choose from:\n\t{choices}": "choose",
    "{value!r} is not {choice}.": "not_choice",
    "{value!r} is not one of {choices}.": "not_one_of",
    "{value} is not in the range {range}.": "not_in_range",
    "{value!r} is not a valid {number_type}.": "not_a",
    "{value!r} is not a valid boolean. Recognized values: {states}": "not_boolean",
    "{name} {filename!r} is a file.": "is_file",
    "{name} {filename!r} is a directory.": "is_directory",
    "{name} {filename!r} is not readable.": "not_readable",
    "{name} {filename!r} is not writable.": "not_writable",
    "{name} {filename!r} is not executable.": "not_executable",
    "{name} {filename!r} does not exist.": "not_there",
    "file": "file",
    "directory": "directory",
    "path": "path",
    "Error: invalid input": "invalid_input",
}
"""click's texts, and the key of each below `click.`."""

MODULES = (
    click.core, click.decorators, click.exceptions, click.formatting, click.parser, click.termui, click.types,
)  # fmt: skip


def translated(message: str) -> str:
    """click's text in the user's language, its placeholders not filled yet; as it is when it is none of ours."""
    key = KEYS.get(message)
    return message if key is None else catalogue(language())[f"click.{key}"]


def _translated_plural(one: str, many: str, count: int) -> str:
    return translated(one if count == 1 else many)


def install() -> None:
    """Let click say everything in the user's language."""
    click.types.IntRange.name = text("command.number_value").lower()  # "integer range", in capitals in the help
    for module in MODULES:
        for name, function in (("_", translated), ("ngettext", _translated_plural)):
            if hasattr(module, name):
                setattr(module, name, function)
