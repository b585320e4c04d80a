"""A group whose commands are imported when they are asked for: `brooq --help` must not wait for a database driver."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from brooq.vocabulary.message import text


class LazyGroup(click.Group):
    """Commands by name, each as `module:attribute`; their one-line help is the text `command.<name>`."""

    def __init__(self, name: str, places: Mapping[str, str], help: str, prefix: str = "") -> None:
        """Nothing is imported. `prefix` stands before a command's name in the key of its line."""
        super().__init__(
            name,
            help=help,
            no_args_is_help=True,
            options_metavar=text("command.options"),
            subcommand_metavar=text("command.subcommand"),
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._places = places
        self._prefix = prefix

    def list_commands(self, context: click.Context) -> list[str]:
        """In the order of the table: as one meets them."""
        return list(self._places)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import the command."""
        if name not in self._places:
            return None
        module, _, attribute = self._places[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        command.options_metavar = text("command.options")
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may come next, without importing the commands: a key was pressed, and somebody waits."""
        found = [
            CompletionItem(name, help=text(f"command.{name}")) for name in self._places if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list, without importing what is listed."""
        with formatter.section(text("command.commands")):
            formatter.write_dl([(name, text(f"command.{self._prefix}{name}")) for name in self._places])

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        known = not args or args[0] in self._places or args[0].startswith("-")
        if not known and not context.resilient_parsing:
            close = difflib.get_close_matches(args[0], self._places, 1, 0.5)
            hint = text("setting.did_you_mean", name=close[0]) if close else ""
            context.fail(text("command.no_such", name=args[0][:80]) + hint)
        return super().resolve_command(context, args)
