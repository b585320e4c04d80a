"""`brooq worker`: the worker process."""

from __future__ import annotations

import logging
import sys

import click

from brooq.vocabulary.message import text

log = logging.getLogger("brooq")


@click.command("worker", help=text("command.worker_long"))
@click.option("--app", metavar="PACKAGE.MODULE:QUEUE", help=text("command.app_help"))
def worker(app: str | None) -> int:
    """Everything that can be wrong with the usage is found before anything starts."""
    from brooq.service.app import AppError, demo_app, load_app  # noqa: PLC0415
    from brooq.service.hardening import harden  # noqa: PLC0415
    from brooq.service.logging import Masker, configure  # noqa: PLC0415
    from brooq.service.loopback import AddressError, listen  # noqa: PLC0415
    from brooq.service.process import WorkerProcess  # noqa: PLC0415
    from brooq.service.sentinel import end_soon  # noqa: PLC0415
    from brooq.service.settings import load  # noqa: PLC0415

    settings = load(database=app is None)
    configure(Masker([settings.database_url, settings.http_token]), form=settings.log_format, level=settings.log_level)
    harden()
    try:
        opened = demo_app(settings) if app is None else load_app(app)
    except AppError as error:
        raise click.UsageError(str(error)) from None
    except Exception as error:
        log.exception(text("process.app_import", path=app, reason=type(error).__name__))
        return 1
    try:
        listener = None if settings.http_addr is None else listen(settings.http_addr)
    except AddressError as error:
        raise click.UsageError(f"HTTP_ADDR: {error}") from None
    if listener is not None:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        log.info(text("surface.listening", address=shown))
    code = WorkerProcess(settings, opened, listener).run()
    sys.stdout.flush()
    logging.shutdown()
    end_soon(code)
    return code
