"""`manage.py brooq_worker`."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from brooq.contrib.django.worker import queue
from brooq.contrib.program import work
from brooq.vocabulary.error import BrooqError
from brooq.vocabulary.message import text


class Command(BaseCommand):
    """Runs jobs until SIGTERM or Ctrl-C."""

    help = text("contrib.worker")
    requires_system_checks: ClassVar[list[str]] = []
    """None: the settings are read, and told of, when the queue is made."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Those of the worker."""
        parser.add_argument("--workers", type=int, help=text("contrib.django_workers"))

    def handle(self, *_: Any, workers: int | None = None, **__: Any) -> None:
        """Work."""
        if not logging.getLogger("brooq").handlers and not logging.getLogger().handlers:
            logging.basicConfig(level=logging.INFO)
        try:
            code = work(partial(queue, workers=workers))
        except BrooqError as error:
            raise CommandError(str(error)) from None
        if code:
            raise SystemExit(code)
