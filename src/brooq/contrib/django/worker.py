"""The worker of a site: its kinds and its tasks, over a pool of its own to Django's database.

`manage.py brooq_worker` runs it; `DJANGO_SETTINGS_MODULE=site.settings brooq worker --app brooq.contrib.django.worker:queue`
does too, with health, metrics and several processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import django
from django.apps import apps
from django.db import connections
from django.utils.module_loading import autodiscover_modules
from psycopg import pq
from psycopg.conninfo import make_conninfo

from brooq.contrib.django.configuration import configuration
from brooq.contrib.django.kind import MODULE, register_all
from brooq.engine.queue import Queue
from brooq.postgres.pool import open_pool
from brooq.postgres.store import PostgresStore

SPARE = 2
"""How many connections the worker's pool has beside one for each slot."""


@asynccontextmanager
async def queue(*, workers: int | None = None) -> AsyncIterator[Queue]:
    """The queue of this site, with everything registered. Raises ConfigError."""
    if not apps.ready:
        django.setup()
    found = configuration()
    config = found.config if workers is None else replace(found.config, workers=workers)
    autodiscover_modules(MODULE)
    dsn, prepared = database(found.database)
    async with open_pool(dsn, max_size=config.workers + SPARE, prepared=prepared) as pool:
        made = Queue(PostgresStore(pool, schema=found.schema, wakeups=found.wakeups and prepared), config)
        register_all(made)
        _register_tasks(made)
        yield made


def database(alias: str) -> tuple[str, bool]:
    """The DSN of one of DATABASES, and whether statements may be prepared there: not behind PgBouncer, for which Django's
    own options are `prepare_threshold: None` or `DISABLE_SERVER_SIDE_CURSORS`."""
    settings: dict[str, Any] = connections[alias].settings_dict
    options: dict[str, Any] = settings.get("OPTIONS") or {}
    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    parts = {name: value for name, value in options.items() if name in known}
    for name, theirs in (
        ("dbname", "NAME"),
        ("user", "USER"),
        ("password", "PASSWORD"),
        ("host", "HOST"),
        ("port", "PORT"),
    ):
        if settings.get(theirs):
            parts[name] = settings[theirs]
    pooled = settings.get("DISABLE_SERVER_SIDE_CURSORS", False) or options.get("prepare_threshold", 0) is None
    return make_conninfo(**parts), not pooled


def _register_tasks(made: Queue) -> None:
    """Kinds for the queues of every Tasks backend that is ours, where there are Tasks at all."""
    try:
        from brooq.contrib.django.tasks import register_tasks  # noqa: PLC0415  Django 6, or the package django-tasks
    except ImportError:
        return
    register_tasks(made)
