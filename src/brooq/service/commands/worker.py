"""`brooq worker`: the worker process, or several under a supervisor."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from typing import TYPE_CHECKING

import click

from brooq.service.eventloop import LOOPS
from brooq.vocabulary.message import text

if TYPE_CHECKING:
    from brooq.service.app import App
    from brooq.service.logging import Masker
    from brooq.service.secret import Secret
    from brooq.service.settings import Settings

log = logging.getLogger("brooq")


@click.command("worker", help=text("command.worker_long"))
@click.option("--app", metavar="PACKAGE.MODULE:QUEUE", help=text("command.app_help"))
@click.option("--processes", metavar="N", type=click.IntRange(1, 256), help=text("command.processes_help"))
@click.option("--loop", type=click.Choice(LOOPS), help=text("command.loop_help"))
# How the supervisor starts a process: its number, and the descriptor of its channel.
@click.option("--supervised", type=int, nargs=2, hidden=True)
def worker(app: str | None, processes: int | None, loop: str | None, supervised: tuple[int, int] | None) -> int:
    """Everything that can be wrong with the usage is found before anything starts."""
    from dataclasses import replace  # noqa: PLC0415

    from brooq.service.hardening import harden  # noqa: PLC0415
    from brooq.service.logging import Masker, configure  # noqa: PLC0415
    from brooq.service.secret import Secret  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    settings = load(database=app is None)
    settings = replace(settings, processes=processes or settings.processes, loop=loop or settings.loop)
    visitor = None
    if not (settings.http_token or settings.http_read_token or supervised) and sys.stderr.isatty():
        # Somebody who tries things out, and whose terminal is no log that is kept.
        visitor = Secret(secrets.token_urlsafe(32))
    masker = Masker([settings.database_url, *settings.http_token, *settings.http_read_token])
    configure(
        masker, form=settings.log_format, level=settings.log_level,
        process=supervised[0] if supervised else None, shared=bool(supervised) or settings.processes > 1,
    )  # fmt: skip
    harden()
    if supervised:
        channel = socket.socket(fileno=supervised[1])
        # Before the application is loaded: programs that it starts must not hold the channel open.
        channel.set_inheritable(False)
        return _work(settings, app, masker, channel=channel)
    if settings.processes == 1:
        return _work(settings, app, masker, visitor=visitor)
    return _supervise(settings, app, masker, loop, visitor)


def _listen(settings: Settings, visitor: Secret | None) -> socket.socket | None:
    from brooq.service.loopback import AddressError, listen  # noqa: PLC0415

    try:
        listener = None if settings.http_addr is None else listen(settings.http_addr)
    except AddressError as error:
        raise click.UsageError(f"HTTP_ADDR: {error}") from None
    if listener is not None:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        log.info(text("surface.listening", address=shown))
        if visitor is not None:
            # Behind the #: no browser sends that, and no log of a proxy has it.
            url = f"http://{shown}/login#{visitor.reveal()}"
            click.echo(text("surface.visitor", url=url), err=True)
    return listener


def _work(
    settings: Settings, app: str | None, masker: Masker, *,
    channel: socket.socket | None = None, visitor: Secret | None = None,
) -> int:  # fmt: skip
    from brooq.service.eventloop import choose  # noqa: PLC0415
    from brooq.service.process import WorkerProcess  # noqa: PLC0415

    loop = choose(settings.loop)()
    # Before the application is loaded: some of what it makes, such as a pool of asyncpg, belongs to the loop that is set.
    asyncio.set_event_loop(loop)
    try:
        opened = _load(settings, app)
        listener = _listen(settings, visitor) if channel is None else None
    except BaseException:
        asyncio.set_event_loop(None)
        loop.close()
        raise
    return _leave(
        WorkerProcess(settings, opened, loop, masker, listener=listener, channel=channel, visitor=visitor).run()
    )


def _load(settings: Settings, app: str | None) -> App:
    from brooq.service.app import AppError, demo_app, load_app  # noqa: PLC0415

    try:
        return demo_app(settings) if app is None else load_app(app)
    except AppError as error:
        raise click.UsageError(str(error)) from None
    except Exception as error:
        log.exception(text("process.app_import", path=app, reason=type(error).__name__))
        raise click.exceptions.Exit(1) from None


def _supervise(settings: Settings, app: str | None, masker: Masker, loop: str | None, visitor: Secret | None) -> int:
    """The application is for the processes to load, not for their supervisor."""
    from brooq.service.supervisor import Supervisor, same_command  # noqa: PLC0415

    given = [*(["--app", app] if app else []), *(["--loop", loop] if loop else [])]

    def command(number: int, descriptor: int) -> list[str]:
        return [*same_command(), "worker", *given, "--supervised", str(number), str(descriptor)]

    return _leave(Supervisor(settings, command, _listen(settings, visitor), masker, visitor=visitor).run())


def _leave(code: int) -> int:
    from brooq.service.sentinel import end_soon  # noqa: PLC0415

    sys.stdout.flush()
    logging.shutdown()
    end_soon(code)
    return code
