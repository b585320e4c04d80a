"""`brooq completion`: what a shell needs in order to complete command lines of brooq."""

from __future__ import annotations

import click

from brooq.vocabulary.message import text

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BROOQ_COMPLETE"
"""How the script asks this program: click's protocol."""


@click.command("completion", help=text("command.completion_long"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from brooq.service.commands import root  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(root, {}, "brooq", VARIABLE)
    # Not `source()`: it asks the bash of this machine for its version, which need not be the one that will read this.
    click.echo(made.source_template % made.source_vars())
