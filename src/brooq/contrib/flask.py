"""Flask: enqueueing in the transaction of a request, handlers inside the application's context, and two commands.

brooq = Brooq(app)
brooq.enqueue(db.session, Job("email.send", {"to": address}))   # in a view
flask brooq migrate; flask brooq worker                          # in a deployment
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
from flask import Flask
from flask.cli import AppGroup

from brooq.contrib.program import work
from brooq.engine.config import Config
from brooq.engine.kind import is_async
from brooq.engine.queue import Queue
from brooq.postgres import migrate
from brooq.postgres.pool import open_pool
from brooq.postgres.producer import BlockingConnection, Producer
from brooq.postgres.store import PostgresStore
from brooq.vocabulary.claim import Claim, Handler
from brooq.vocabulary.error import BrooqError, ConfigError
from brooq.vocabulary.job import Enqueued, Job
from brooq.vocabulary.kind import KindOptions
from brooq.vocabulary.message import text

H = TypeVar("H", bound=Callable[..., Any])
SPARE = 2
"""How many connections the worker's pool has beside one for each slot."""


class Brooq:
    """The extension. Settings of the application: `BROOQ_DATABASE_URL` (else `SQLALCHEMY_DATABASE_URI`), `BROOQ_SCHEMA`,
    and `BROOQ_CONFIG`, a Config for the worker."""

    def __init__(self, app: Flask | None = None) -> None:
        """With an application, or before it (`init_app`)."""
        self._app = app
        self._kinds: list[tuple[str, Handler, KindOptions]] = []
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Belong to an application: opens and starts nothing."""
        self._app = app
        app.extensions["brooq"] = self
        app.cli.add_command(self._commands(app))

    def kind(self, topic: str, **options: Any) -> Callable[[H], H]:
        """Register a handler, `def` or `async def`; options as those of KindOptions. It runs in the application's context,
        and a `def` in a thread of its own, or in a process that can be killed (`isolation="process"`)."""

        def register(handler: H) -> H:
            inside = self._inside(handler)
            self._kinds.append((topic, inside, KindOptions(**options)))
            return inside

        return register

    @property
    def producer(self) -> Producer:
        """For everything else that producers do, in the schema of `BROOQ_SCHEMA`."""
        return Producer(schema=self._setting("BROOQ_SCHEMA") or "public")

    def enqueue(self, connection: BlockingConnection, job: Job) -> Enqueued:
        """Enqueue in the transaction of a session or connection, as `brooq.postgres.producer.enqueue`."""
        return self.producer.enqueue(connection, job)

    def enqueue_many(self, connection: BlockingConnection, jobs: Iterable[Job]) -> list[Enqueued]:
        """Enqueue jobs in one statement."""
        return self.producer.enqueue_many(connection, jobs)

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[Queue]:
        """A queue with every kind, and a pool of its own: for tests, and as `queue = extension.queue` for brooq's own
        command, `brooq worker --app shop:queue`, with health, metrics and several processes."""
        config = self._setting("BROOQ_CONFIG") or Config()
        async with open_pool(self._dsn(), max_size=config.workers + SPARE) as pool:
            queue = Queue(PostgresStore(pool, schema=self._setting("BROOQ_SCHEMA") or "public"), config)
            for topic, handler, options in self._kinds:
                queue.register_kind(topic, handler, options)
            yield queue

    def _inside(self, handler: H) -> H:
        @wraps(handler)
        async def waiting(claim: Claim[Any]) -> Any:
            with self._application().app_context():
                return await handler(claim)

        @wraps(handler)
        def blocking(claim: Claim[Any]) -> Any:
            with self._application().app_context():
                return handler(claim)

        return waiting if is_async(handler) else blocking  # type: ignore[return-value]  # called as the handler is

    def _application(self) -> Flask:
        if self._app is None:
            raise ConfigError([text("contrib.flask_no_app")])
        return self._app

    def _setting(self, name: str) -> Any:
        return self._application().config.get(name)

    def _dsn(self) -> str:
        found = self._setting("BROOQ_DATABASE_URL") or self._setting("SQLALCHEMY_DATABASE_URI")
        if not found:
            raise ConfigError([text("contrib.flask_no_database")])
        # SQLAlchemy's URL names its driver behind a plus, which libpq does not know.
        scheme = urlsplit(str(found)).scheme
        return str(found).replace(scheme, scheme.partition("+")[0], 1)

    def _commands(self, app: Flask) -> AppGroup:
        group = AppGroup("brooq", help=text("contrib.commands"))

        @group.command("worker", help=text("contrib.worker"))
        def worker() -> None:
            if not logging.getLogger("brooq").handlers and not logging.getLogger().handlers:
                logging.basicConfig(level=logging.INFO)
            raise SystemExit(_told(lambda: work(self.queue)))

        @group.command("migrate", help=text("contrib.migrate"))
        def bring_up() -> None:
            for each in _told(lambda: migrate.up(self._dsn(), self._setting("BROOQ_SCHEMA") or "public")):
                click.echo(f"{each.version:05} {each.name}")

        return group


T = TypeVar("T")


def _told(step: Callable[[], T]) -> T:
    """Errors of brooq in one line each, without a traceback."""
    try:
        return step()
    except BrooqError as error:
        raise click.ClickException(str(error)) from None


__all__ = ["Brooq"]
