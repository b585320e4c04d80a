"""Django: the example as a real server with a real worker; migrations, settings, admin page and Tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest
from tests.contrib.site import ROOT, Process, Site, environment, free_port, served
from tests.database import Server

from brooq.postgres import migrate, migration
from brooq.postgres.migrate import LATEST

MANAGE = ("-m", "examples.django_shop")
pytestmark = pytest.mark.xdist_group("django")  # its server and its worker are started once


def manage(dsn: str, *command: str, code: int = 0, more: dict[str, str] | None = None) -> str:
    """What a command of manage.py says."""
    line = [sys.executable, "-W", "error", *MANAGE, *command]
    surroundings = environment(dsn, **(more or {}))
    ended = subprocess.run(line, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False, timeout=100)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def shell(dsn: str, source: str) -> str:
    """What Python says inside of the site."""
    setup = (
        "import os, django\nos.environ['DJANGO_SETTINGS_MODULE'] = 'examples.django_shop.settings'\ndjango.setup()\n"
    )
    line = [sys.executable, "-W", "error", "-c", setup + dedent(source)]
    ended = subprocess.run(
        line, cwd=ROOT, env=environment(dsn), capture_output=True, text=True, check=False, timeout=100
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.strip()


@pytest.fixture(scope="module")
def site_dsn(postgres: Server) -> Iterator[str]:
    """A database that Django has migrated."""
    with postgres.database(migrated=False) as found:
        manage(found, "migrate", "--verbosity", "0")
        yield found


@pytest.fixture(scope="module")
def site(site_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The web process."""
    log = tmp_path_factory.mktemp("django") / "web"
    with served(site_dsn, *MANAGE, "runserver", "--noreload", "{port}", log=log) as found:
        yield found
    assert "Traceback" not in found.process.said


@pytest.fixture(scope="module")
def worker(site_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The worker's process."""
    with Process(site_dsn, *MANAGE, "brooq_worker", log=tmp_path_factory.mktemp("django") / "worker") as process:
        process.until_said("has started")
        yield process
        assert process.stop() == 0, process.said
        assert "has stopped" in process.said


def test_an_order_is_shipped_and_its_invoice_is_written(site: Site, worker: Process) -> None:
    before = len(worker.said)  # others let handlers fail on purpose
    made = site.post("/orders", {"goods": "kettle"})
    assert made.status_code == 201
    found = site.until(f"/orders/{made.json()['order']}", shipped=True, invoiced=f"EUR-{made.json()['order']}")
    assert found["goods"] == "kettle"
    task = f"/invoices/{made.json()['order']}?task={made.json()['invoice']}"
    told = site.until(task, status="SUCCESSFUL")
    assert (told["attempts"], told["number"]) == (1, f"EUR-{made.json()['order']}")
    assert "Traceback" not in worker.said[before:]


def test_a_rollback_leaves_neither_order_nor_jobs(site: Site, site_dsn: str) -> None:
    with psycopg.connect(site_dsn) as connection:
        asked = "select (select count(*) from shop_order), (select count(*) from job)"
        before = connection.execute(asked).fetchone()
        assert site.post("/orders", {"goods": ""}).status_code == 422
        assert connection.execute(asked).fetchone() == before


def test_asynchronous_code_enqueues_and_handles(site: Site, worker: Process) -> None:
    made = site.post("/async/orders", {"goods": "tea"})
    assert made.status_code == 201
    site.until(f"/orders/{made.json()['order']}", goods="tea, with thanks")
    assert worker.running


def test_brooqs_own_command_runs_the_same_queue(site: Site, site_dsn: str, tmp_path: Path) -> None:
    more = {"DJANGO_SETTINGS_MODULE": "examples.django_shop.settings", "HTTP_ADDR": f"127.0.0.1:{free_port()}"}
    line = ("-m", "brooq", "worker", "--app", "brooq.contrib.django.worker:queue")
    with Process(site_dsn, *line, log=tmp_path / "log", **more) as process:
        process.until_said("has started")
        made = site.post("/orders", {"goods": "pot"}).json()
        site.until(f"/orders/{made['order']}", shipped=True)
        assert process.stop() == 0, process.said


def test_a_handler_in_a_process_of_its_own_and_an_asynchronous_task_have_the_orm(
    site_dsn: str, worker: Process
) -> None:
    said = shell(
        site_dsn,
        """
        import time
        from brooq import Job
        from brooq.contrib.django import enqueue, find
        from examples.django_shop.shop.models import Order
        from examples.django_shop.shop.tasks import count_orders

        order = Order.objects.create(goods="lamp")
        id, _ = enqueue(Job("order.render", {"order": order.pk}))
        counted = count_orders.enqueue()
        while not (find(id).state.terminal and counted.is_finished):
            time.sleep(0.02)
            counted.refresh()
        print(find(id).state, find(id).result, counted.return_value == Order.objects.count(), sep=" | ")
        """,
    )
    assert said == "done | lamp, rendered | True", worker.said


# --- migrations ---


def test_every_migration_has_its_module_for_django() -> None:
    folder = ROOT / "src" / "brooq" / "contrib" / "django" / "migrations"
    wanted = {f"{each.version:04}_{each.name}" for each in migration.load(migration.folder())}
    missing = wanted - {path.stem for path in folder.glob("0*.py")}
    assert not missing, f"add to {folder}, three lines like the others: {', '.join(sorted(missing))}"
    assert {path.stem for path in folder.glob("0*.py")} == wanted
    for path in folder.glob("0*.py"):
        assert re.search(rf"migration\(\s*{int(path.stem[:4])}[,)]", path.read_text()), path


def test_django_makes_the_same_tables_and_records_and_takes_them_back(empty_dsn: str, dsn: str) -> None:
    manage(empty_dsn, "migrate", "brooq", "--verbosity", "0")
    assert all(each.applied_at and not each.changed for each in migrate.status(empty_dsn))
    columns = """select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns
        where table_schema = 'public' and table_name not like 'django%' and table_name not like 'auth%' order by 1, 2"""
    indexes = "select indexdef from pg_indexes where schemaname = 'public' and tablename = 'job' order by 1"
    with psycopg.connect(empty_dsn) as ours, psycopg.connect(dsn) as theirs:
        for question in (columns, indexes):
            assert ours.execute(question.encode()).fetchall() == theirs.execute(question.encode()).fetchall()
    assert "No changes detected" in manage(empty_dsn, "makemigrations", "--check", "--dry-run")
    manage(empty_dsn, "migrate", "brooq", "zero", "--verbosity", "0")
    assert not any(each.applied_at for each in migrate.status(empty_dsn))
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select to_regclass('job'), to_regclass('brooq_migration')").fetchone() == (
            None,
            None,
        )


def test_sqlmigrate_shows_what_is_going_to_be_done(site_dsn: str) -> None:
    said = manage(site_dsn, "sqlmigrate", "brooq", "0001")
    assert "create table job (" in said
    assert "search_path to default" in said


# --- settings ---

SITE = """
from examples.django_shop.settings import *

BROOQ = {brooq}
"""


def other_settings(folder: Path, brooq: str) -> dict[str, str]:
    (folder / "other_settings.py").write_text(SITE.format(brooq=brooq))
    return {"DJANGO_SETTINGS_MODULE": "other_settings", "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}


def test_all_faults_of_the_settings_are_told_at_once(site_dsn: str, tmp_path: Path) -> None:
    more = other_settings(tmp_path, "{'WORKERS': 0, 'LEESE': 5, 'SCHEMA': '', 'DATABASE': 'default'}")
    said = manage(site_dsn, "check", code=1, more=more)
    assert "(brooq.E001) BROOQ has no setting LEESE; did you mean LEASE?" in said
    assert "the schema name '' is refused" in said
    said = manage(site_dsn, "brooq_worker", code=1, more=other_settings(tmp_path, "{'WORKERS': 0, 'LEASE': -1}"))
    assert "workers is 0" in said
    assert "lease is -1" in said
    assert "Traceback" not in said
    said = manage(site_dsn, "check", code=1, more=other_settings(tmp_path, "{'DATABASE': 'elsewhere'}"))
    assert "'elsewhere', which is not in DATABASES" in said


def test_the_tables_live_in_the_schema_of_the_settings(empty_dsn: str, tmp_path: Path) -> None:
    more = other_settings(tmp_path, """{'SCHEMA': 'it"s 100%'}""")
    manage(empty_dsn, "migrate", "--verbosity", "0", more=more)
    assert "No changes detected" in manage(empty_dsn, "makemigrations", "--check", "--dry-run", more=more)
    assert migrate.status(empty_dsn, 'it"s 100%')[0].applied_at
    source = """
        import sys; sys.path.insert(0, FOLDER)
        import os; os.environ["DJANGO_SETTINGS_MODULE"] = "other_settings"
        import django; django.setup()
        from brooq import Job
        from brooq.contrib.django import enqueue, find
        from brooq.contrib.django.models import Job as Row
        id, _ = enqueue(Job("t", {"a": 1}))
        assert find(id).payload == {"a": 1}
        assert Row.objects.get(pk=id).payload == {"a": 1}
        print("found")
    """.replace("FOLDER", repr(str(tmp_path)))
    ended = subprocess.run(
        [sys.executable, "-c", dedent(source)],
        cwd=ROOT,
        env=environment(empty_dsn),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.strip() == "found", ended.stderr


def test_settings_that_a_test_overrides_are_read_anew(site_dsn: str) -> None:
    said = shell(
        site_dsn,
        """
        from django.test import override_settings
        from brooq.contrib.django.configuration import configuration

        print(configuration().config.workers)
        with override_settings(BROOQ={"WORKERS": 7, "LEASE": 30}):
            print(configuration().config.workers, configuration().config.lease)
        print(configuration().config.workers)
        """,
    )
    assert said.split() == ["4", "7", "30", "4"]


def test_a_worker_without_the_schema_says_so_in_one_line(empty_dsn: str) -> None:
    said = manage(empty_dsn, "brooq_worker", code=1)
    assert "there is no brooq schema" in said
    assert "Traceback" not in said


# --- the admin page ---


def test_the_admin_page_lists_cancels_and_runs_again_for_whoever_may(site_dsn: str) -> None:
    said = shell(
        site_dsn,
        """
        import re
        from django.contrib.auth.models import Permission, User
        from django.test import Client
        from brooq import Job, State
        from brooq.contrib.django import cancel, enqueue, find

        def say(*values):
            print(*values, sep=" | ")

        waiting, _ = enqueue(Job("admin.wait", {"secret": "<script>"}, idempotency_key="k1"))
        boss = User.objects.create_superuser("anna", password="x")
        client = Client(headers={"host": "localhost"})
        client.force_login(boss)
        page = client.get("/admin/brooq/job/?q=admin.wait")
        say(page.status_code, str(waiting) in page.text, "Cancel the chosen jobs" in page.text)
        detail = client.get(f"/admin/brooq/job/{waiting}/change/")
        say(detail.status_code, "&lt;script&gt;" in detail.text, "<script>\\"" in detail.text)
        say(client.post(f"/admin/brooq/job/{waiting}/change/", {"topic": "x"}).status_code)
        say(client.post(f"/admin/brooq/job/{waiting}/delete/", {"post": "yes"}).status_code)
        say(client.get("/admin/brooq/job/add/").status_code)

        def act(client, name, *ids):
            answer = client.post("/admin/brooq/job/", {"action": name, "_selected_action": list(map(str, ids))}, follow=True)
            return re.findall(r'class="(?:success|warning|error)">([^<]+)<', answer.text)

        say(act(client, "cancel_jobs", waiting), find(waiting).state)
        say(act(client, "cancel_jobs", waiting))
        say(act(client, "retry_jobs", waiting))
        say(act(client, "retry_jobs", waiting))
        from django.db import connection
        with connection.cursor() as cursor:
            cursor.execute("select actor, action, done from brooq_operation order by id")
            say(cursor.fetchall())

        guest = User.objects.create_user("boris", password="x", is_staff=True)
        guest.user_permissions.add(Permission.objects.get(codename="view_job"))
        looking = Client(headers={"host": "localhost"})
        looking.force_login(guest)
        page = looking.get("/admin/brooq/job/?q=no-uuid")
        say(page.status_code, "cancel_jobs" in page.text)
        other, _ = enqueue(Job("admin.wait"))
        act(looking, "cancel_jobs", other)
        say(find(other).state)
        """,
    )
    assert said.splitlines() == [
        "200 | True | True",
        "200 | True | False",
        "403",
        "403",
        "403",
        "['Canceled: 1'] | canceled",
        "['Not canceled, because they had ended: 1']",
        "['New jobs: 1']",
        "['Not run again, because they have not ended, or are being run again already: 1']",
        "[('anna', 'cancel', True), ('anna', 'cancel', False), ('anna', 'retry', True), ('anna', 'retry', False)]",
        "200 | False",
        "pending",
    ]


# --- Tasks ---


def test_tasks_keep_what_django_promises(site_dsn: str) -> None:
    said = shell(
        site_dsn,
        """
        import sys, types
        from datetime import timedelta
        from django.db import transaction
        from django.utils import timezone
        from brooq.contrib.django import cancel, find
        from brooq.contrib.django.tasks import InvalidTask, TaskResultDoesNotExist, tasks
        from examples.django_shop.shop.tasks import write_invoice

        def say(*values):
            print(*values, sep=" | ")

        later = timezone.now() + timedelta(days=1)
        result = write_invoice.using(run_after=later, priority=100).enqueue(7, currency="EUR")
        record = find(result.id)
        say(record.topic, record.priority, record.available_at == later, record.payload["args"], record.payload["kwargs"])
        say(result.status, write_invoice.get_result(result.id).status, result.task.func.__name__)
        cancel(result.id)
        result.refresh()
        say(result.status, result.is_finished)
        with transaction.atomic():
            gone = write_invoice.enqueue(8, currency="EUR")
            transaction.set_rollback(True)
        for missing in (gone.id, "no-uuid"):
            try:
                write_invoice.get_result(missing)
            except TaskResultDoesNotExist as error:
                say("no result", str(error) == missing)
        try:
            write_invoice.enqueue(object(), currency="EUR")
        except (TypeError, ValueError) as error:
            say("refused", type(error).__name__)
        try:
            write_invoice.using(queue_name="not_there")
        except InvalidTask as error:
            say("refused", "not_there" in str(error))
        """,
    )
    assert said.splitlines() == [
        "task.default | 0 | True | [7] | {'currency': 'EUR'}",
        "READY | READY | write_invoice",
        "FAILED | True",
        "no result | True",
        "no result | True",
        "refused | TypeError",
        "refused | True",
    ]


def test_a_task_that_raises_has_failed_and_one_that_is_no_more_is_given_up(
    site_dsn: str, site: Site, worker: Process
) -> None:
    payload = {
        "task": "examples.django_shop.shop.tasks.write_invoice",
        "args": [1, 2, 3],
        "kwargs": {},
        "backend": "default",
    }
    lost = payload | {"task": "examples.django_shop.shop.tasks.removed"}
    with psycopg.connect(site_dsn, autocommit=True) as connection:
        ids = [
            connection.execute(
                "insert into job (topic, payload) values ('task.default', %s) returning id", [json.dumps(each)]
            ).fetchone()
            for each in (payload, lost)
        ]
        while connection.execute(
            "select count(*) from job where id = any(%s) and state <> 'dead'", [[row[0] for row in ids if row]]
        ).fetchone() != (0,):
            assert worker.running, worker.said
        errors = [
            row[0]
            for row in connection.execute("select last_error from job where state = 'dead' order by id").fetchall()
        ]
    assert errors[0].startswith("TypeError: write_invoice() ")
    assert errors[1].startswith("MustGiveUp: the task examples.django_shop.shop.tasks.removed cannot be imported")
    assert ids[0] is not None
    assert site.get(f"/invoices/1?task={ids[0][0]}").json()["status"] == "FAILED"


def test_the_migration_needed_is_the_one_that_django_knows() -> None:
    assert migrate.steps()[-1].version == LATEST
