"""The commands of `brooq`. Each is imported when it is asked for."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import click

from brooq.service.commands import click_text
from brooq.service.commands.group import LazyGroup
from brooq.vocabulary.error import BrooqError, ConfigError, JobError
from brooq.vocabulary.message import text

FAILED, WRONG, INTERRUPTED = 1, 2, 130

click_text.install()

root = LazyGroup(
    "brooq",
    {
        "migrate": "brooq.service.commands.migrate:migrate",
        "grants": "brooq.service.commands.grants:grants",
        "worker": "brooq.service.commands.worker:worker",
        "enqueue": "brooq.service.commands.enqueue:enqueue",
        "jobs": "brooq.service.commands.jobs:jobs",
        "show": "brooq.service.commands.show:show",
        "explain": "brooq.service.commands.explain:explain",
        "cancel": "brooq.service.commands.cancel:cancel",
        "retry": "brooq.service.commands.retry:retry",
        "dead": "brooq.service.commands.dead:dead",
        "pause": "brooq.service.commands.steer:pause",
        "resume": "brooq.service.commands.steer:resume",
        "topics": "brooq.service.commands.topics:topics",
        "limit": "brooq.service.commands.limit:limit",
        "cron": "brooq.service.commands.cron:cron",
        "workers": "brooq.service.commands.workers:workers",
        "top": "brooq.service.commands.top:top",
        "stats": "brooq.service.commands.stats:stats",
        "check": "brooq.service.commands.check:check",
        "doctor": "brooq.service.commands.doctor:doctor",
        "completion": "brooq.service.commands.completion:completion",
        "verify": "brooq.service.commands.verify:verify",
        "local": "brooq.service.commands.local:local",
    },
    help=text("command.brooq"),
)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from brooq import __version__  # noqa: PLC0415

        click.echo(f"brooq {__version__}")
        context.exit()


root.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help=text("command.version"),
    )
)


def invoke(arguments: list[str]) -> int:
    """Run one command line; answers the exit code. No error shows a traceback or a password."""
    try:
        code = root.main(arguments, prog_name="brooq", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG
    except click.UsageError as error:
        usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
        click.echo(usage, nl=False, err=True)
        _complain(error.format_message())
        return WRONG
    except click.ClickException as error:
        _complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("", err=True)
        return INTERRUPTED
    except ConfigError as error:
        _complain("\n  ".join([text("setting.wrong"), *error.problems]))
        return WRONG
    except JobError as error:
        _complain(str(error))
        return WRONG
    except BrooqError as error:
        _complain(str(error))
        return FAILED
    except OSError as error:
        if error.errno == errno.EPIPE:
            return FAILED
        _complain(text("command.os_error", file=error.filename or "-", reason=error.strerror or error))
        return FAILED
    except Exception as error:  # noqa: BLE001  a fault of ours: named, without what the frames held
        _complain(text("command.unexpected", kind=type(error).__name__, reason=error))
        if os.environ.get("LOG_LEVEL", "").lower() == "debug":
            click.echo(_masked("".join(traceback.format_exception(error))), err=True)
        return FAILED
    return code if isinstance(code, int) else 0


def _complain(message: str) -> None:
    from brooq.service.colour import styled  # noqa: PLC0415  only when there is something to complain of

    click.echo(f"{styled(text('command.error'), sys.stderr, fg='red')} {_masked(message)}", err=True)


def _masked(message: str) -> str:
    from brooq.postgres.dsn import mask  # noqa: PLC0415  only when there is something to hide

    return mask(message, os.environ.get("DATABASE_URL", ""))


__all__ = ["invoke", "root"]
