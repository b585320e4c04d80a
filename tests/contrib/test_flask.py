"""Flask: the example as a real server with a real worker, and what the extension says when something is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from flask import Flask
from tests.contrib.site import Process, served

from brooq import Claim, ConfigError, Job
from brooq.contrib.flask import Brooq
from brooq.postgres import migrate

FLASK = ("-m", "flask", "--app", "examples.flask_shop.app")


def test_an_order_is_shipped_by_a_worker_of_its_own(empty_dsn: str, tmp_path: Path) -> None:
    with Process(empty_dsn, *FLASK, "brooq", "migrate", log=tmp_path / "migrate") as migration:
        migration.until_said("00001 job")
        assert migration._process.wait(60) == 0, migration.said
    with (
        served(empty_dsn, *FLASK, "run", "--port", "{port}", log=tmp_path / "web") as site,
        Process(empty_dsn, *FLASK, "brooq", "worker", log=tmp_path / "worker") as worker,
    ):
        made = site.post("/orders", {"goods": "kettle"})
        assert made.status_code == 201
        found = site.until(f"/orders/{made.json()['order']}", shipped=True)
        assert found == {"goods": "kettle", "shipped": True, "by": "pigeon"}
        assert site.post("/orders", {"goods": ""}).status_code == 422
        assert worker.stop() == 0, worker.said
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select count(*) from job").fetchone() == (1,)
        assert connection.execute("select count(*) from shop_order").fetchone() == (1,)
    assert "Traceback" not in site.process.said + worker.said


def test_a_schema_that_is_missing_is_said_in_one_line(empty_dsn: str, tmp_path: Path) -> None:
    with Process(empty_dsn, *FLASK, "brooq", "worker", log=tmp_path / "worker") as worker:
        assert worker._process.wait(60) == 1
        assert "there is no brooq schema" in worker.said
        assert "Traceback" not in worker.said


def make(**settings: object) -> tuple[Flask, Brooq]:
    app = Flask(__name__)
    app.config.update(settings)
    extension = Brooq()
    extension.init_app(app)
    return app, extension


async def test_handlers_of_both_kinds_run_in_the_application(dsn: str) -> None:
    migrate.up(dsn, "shop")
    app, extension = make(
        SQLALCHEMY_DATABASE_URI=dsn.replace("postgresql://", "postgresql+psycopg2://"), BROOQ_SCHEMA="shop"
    )
    seen: list[tuple[str, str]] = []

    @extension.kind("blocks")
    def blocks(claim: Claim) -> None:
        from flask import current_app

        seen.append((claim.topic, current_app.name))

    @extension.kind("waits", max_attempts=1)
    async def waits(claim: Claim) -> None:
        from flask import current_app

        seen.append((claim.topic, current_app.name))

    with psycopg.connect(dsn) as connection:
        assert len(extension.enqueue_many(connection, [Job("blocks"), Job("waits")])) == 2
        assert connection.execute("select count(*) from shop.job").fetchone() == (2,)
    async with extension.queue() as queue, queue:
        while {record[0] for record in seen} != {"blocks", "waits"} or queue.running():
            assert queue.health().running
            await asyncio.sleep(0.01)
    assert seen[0][1] == app.name


async def test_what_is_missing_is_said() -> None:
    with pytest.raises(ConfigError, match="no application"):
        Brooq().producer.enqueue  # noqa: B018
    _, extension = make()
    with pytest.raises(ConfigError, match="SQLALCHEMY_DATABASE_URI"):
        async with extension.queue():
            pass
