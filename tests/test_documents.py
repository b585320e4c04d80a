"""The documents keep their word: what they show runs, what they name exists, what they list is complete."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql
from tests.documents import (
    ARCHITECTURE,
    DECISIONS,
    DOCUMENTS,
    GUIDE,
    MIGRATING,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    files_named,
    links,
    proofs_named,
    prose,
    table,
)
from tests.service.brooq_process import environment, inside
from tests.service.server import served

from brooq import Claim, Config, Event, Job, JobCanceled, JobDead, JobDone, JobRecord, Queue, State
from brooq.postgres import open_pool
from brooq.service.child import Child
from brooq.service.environment import NAMES
from brooq.service.settings import Settings, load
from brooq.service.supervisor import Processes
from brooq.service.tally import Tally
from brooq.testing import MemoryStore
from brooq.vocabulary.message import catalogue

SETUP, *FRAGMENTS = [*blocks(GUIDE, "python"), *blocks(MIGRATING, "python")]
SHOWN = blocks(GUIDE, "py")
"""Pieces of the examples: they need a site around them, and are executed there."""
STATEMENTS = blocks(GUIDE, "sql")


def where(block: Block) -> str:
    """A block's name in the report."""
    return block.where


# --- the guide's Python ---


async def execute(text: str, place: str, namespace: dict[str, Any]) -> None:
    """Run Python that may await at its top level."""
    code = compile(text, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)  # noqa: S307  the project's own documents
    if inspect.isawaitable(result):
        await result


@pytest.fixture
async def namespace(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """What the guide says the fragments find: `pool`, and everything of its first block. For the checks there is `run`."""
    monkeypatch.setenv("DATABASE_URL", dsn)
    async with open_pool(dsn) as pool:
        names: dict[str, Any] = {
            "__name__": "guide",
            "asyncio": asyncio,
            "pool": pool,
            "dsn": dsn,
            "folder": tmp_path,
            "json": json,
        }
        await execute(SETUP.text, SETUP.where, names)

        async def run(*jobs: Job) -> list[JobRecord]:
            return await run_to_the_end(names["queue"], *jobs)

        names["run"] = run
        yield names


async def run_to_the_end(queue: Queue, *jobs: Job) -> list[JobRecord]:
    """Enqueue jobs, work until all of them are terminal, answer their rows."""
    left, over = {job.id for job in jobs}, asyncio.Event()

    def told(event: Event) -> None:
        if isinstance(event, JobDone | JobDead | JobCanceled):
            left.discard(event.id)
            if not left:
                over.set()

    queue.listen(told)
    await queue.enqueue_many(jobs)
    async with queue, asyncio.timeout(60):
        await over.wait()
    records = [await queue.find(job.id) for job in jobs]
    return [record for record in records if record is not None]


@pytest.mark.parametrize("block", FRAGMENTS, ids=where)
async def test_a_fragment_of_the_guide_does_what_the_text_says(block: Block, namespace: dict[str, Any]) -> None:
    await execute(block.text, block.where, namespace)
    await execute(block.then, f"{block.where}, then", namespace)


@pytest.mark.parametrize("block", SHOWN, ids=where)
def test_a_piece_of_an_example_is_in_it_word_for_word(block: Block) -> None:
    def words(text: str) -> str:
        return " ".join(text.split())

    assert any(words(block.text) in words(path.read_text()) for path in (ROOT / "examples").rglob("*.py"))


# --- the guide's SQL ---

POPULATION = """
insert into job (topic, state, available_at, attempts, claim_seq, last_error, failures, expired_leases,
                 locked_by, locked_until) values
    ('mail', 'pending', now() - interval '1 min', 0, 0, null, null, 0, null, null),
    ('mail', 'pending', now() + interval '1 day', 0, 0, null, null, 0, null, null),
    ('mail', 'failed', now() + interval '1 min', 1, 1, 'OSError: no',
     '[{"attempt": 1, "at": "2027-01-01T00:00:00+00:00", "worker": "w", "error": "OSError: no"}]', 0, null, null),
    ('mail', 'processing', now(), 1, 1, null, null, 0, 'w', now() + interval '1 min'),
    ('crash', 'processing', now(), 4, 4, null, null, 3, 'w', now() + interval '1 min'),
    ('mail', 'done', now(), 1, 1, null, null, 4, 'w', now()),
    ('mail', 'dead', now(), 5, 5, 'ValueError: no', null, 0, 'w', now()),
    ('mail', 'canceled', now(), 0, 0, null, null, 0, null, null)
"""


def the_id(connection: psycopg.Connection[Any], state: str) -> UUID:
    """Of the only job in a state."""
    ((id,),) = connection.execute("select id from job where state = %s", [state]).fetchall()
    return UUID(str(id))


@pytest.mark.parametrize("block", STATEMENTS, ids=where)
async def test_a_statement_of_the_guide_does_what_the_text_says(block: Block, dsn: str) -> None:
    """As psql would send it, which puts values in for `:'name'`."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(POPULATION)
        failed, dead = the_id(connection, "failed"), the_id(connection, "dead")
        text = block.text
        for name, value in {"id": failed, "failed_id": failed, "dead_id": dead}.items():
            text = text.replace(f":'{name}'", sql.Literal(str(value)).as_string(connection))
        cursor = connection.execute(text.encode())
        while cursor.nextset():
            pass

        def ask(statement: Any, *values: Any) -> list[tuple[Any, ...]]:
            return connection.execute(statement, values).fetchall()

        rows = cursor.fetchall() if cursor.description else []
        if text.lstrip().startswith("select"):
            assert rows, "the population has something for every question"
        await execute(block.then, f"{block.where}, then", {"rows": rows, "execute": ask, "id": failed})


def test_every_statement_that_changes_something_is_looked_at_afterwards() -> None:
    for block in STATEMENTS:
        assert block.then or block.text.startswith("select"), block.where


# --- the five steps of the README ---


class Terminal:
    """A folder with the README's files, and a shell that remembers what was exported."""

    def __init__(self, folder: Path) -> None:
        """Write the files, each named by its first line."""
        self.folder = folder
        self._exports: list[str] = []
        programs = Path(sys.executable).parent
        # The port of the README's worker may be taken here; everything else is as a reader has it.
        self.environment = environment(None, HTTP_ADDR="127.0.0.1:0", PYTHONUNBUFFERED="1")
        self.environment["PATH"] = f"{programs}{os.pathsep}{self.environment['PATH']}"
        for block in blocks(README, "python"):
            name = re.match(r"# (\w+\.py)\n", block.text)
            assert name, f"{block.where}: the first line does not name its file"
            (folder / name[1]).write_text(block.text, encoding="utf-8")

    def start(self, script: str) -> subprocess.Popen[str]:
        """Start a script in it."""
        lines = [*self._exports, "exec " + script if script.startswith("brooq worker") else script]
        return subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, script: str) -> str:
        """Run a script to its end; answers what it said."""
        process = self.start(script)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, f"{script}\n{said}"
        self._exports += [line for line in script.splitlines() if line.startswith("export ")]
        return said


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    """Read what a process says until it has said these words."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"ended without saying {words!r}:\n{said}")


def wait_for_state(dsn: str, key: str, state: State) -> None:
    """Until the job with this key is in that state: its row is read again and again within one query's patience."""
    question = "select state from job where idempotency_key = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(600):
            if connection.execute(question, [key]).fetchall() == [(state.value,)]:
                return
            connection.execute("select pg_sleep(0.05)")
    raise AssertionError(f"{key} is not {state}")


def test_the_five_steps_of_the_readme_lead_to_a_job_that_is_done(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    install, database, migration, worker, job = (block.text for block in blocks(README, "sh"))
    extras = re.search(r"\[([\w,]+)\]", install)
    assert extras
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    try:
        terminal.run(database)
        dsn = terminal.run("brooq local url").strip()
        terminal.run(migration)
        running = terminal.start(worker)
        try:
            follow_the_readme(terminal, running, job, dsn)
        finally:
            running.kill()
            running.communicate()
    finally:
        terminal.run("brooq local stop")


def follow_the_readme(terminal: Terminal, running: subprocess.Popen[str], job: str, dsn: str) -> None:
    """Step five, with the worker running."""
    enqueue, jobs = job.splitlines()
    terminal.run(job)
    wait_for(running, "Hello, world! This is attempt 1.")
    wait_for_state(dsn, "first-greeting", State.DONE)
    assert re.search(r"greeting.*\bdone\b", terminal.run(jobs))
    terminal.run(enqueue)
    assert terminal.run("python ask.py").endswith(" True\n")
    # The second greeting comes without another one of the first before it.
    assert "world" not in wait_for(running, "Hello, you!")
    wait_for_state(dsn, "second-greeting", State.DONE)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 0


async def test_the_example_at_the_top_of_the_readme_does_what_it_says(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", dsn)
    shop = blocks(README, "python")[0]
    names: dict[str, Any] = {"__name__": "shop"}
    await execute(shop.text, shop.where, names)
    pool, queue, buy = names["pool"], names["queue"], names["buy"]
    async with pool:
        async with pool.connection() as connection:
            await connection.execute("create table purchase (goods text unique)")
        await buy("kettle", "a@example.org")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await buy("kettle", "b@example.org")  # neither a purchase nor a job
        (record,) = await run_to_the_end(queue, Job("receipt.send", {"to": "c@example.org", "goods": "cup"}))
        assert record.state == "done"
        async with pool.connection() as connection:
            found = await connection.execute("select state, payload ->> 'to' from job order by id")
            assert await found.fetchall() == [("done", "a@example.org"), ("done", "c@example.org")]
    assert "a receipt for kettle goes to a@example.org\n" in capsys.readouterr().out


# --- what is named exists ---


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for file, anchor in links(document):
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), f"{document.name}: {file}"
        if anchor:
            assert anchor in anchors(target), f"{document.name}: {file}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_is_named_exists(document: Path) -> None:
    made = {"greetings.py", "ask.py", "shop.py", "manage.py", ".brooq/pg", "bin/brooq"}
    for name in set(files_named(document)) - made:
        places = [ROOT / name, ROOT / "src" / "brooq" / name, document.parent / name]
        found = any(place.exists() for place in places)
        if "/" not in name:
            found = found or any((ROOT / "tests").rglob(name)) or any((ROOT / "examples").rglob(name))
        assert found, f"{document.name} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_named_exists(document: Path) -> None:
    lines = [line for block in blocks(document, "sh") for line in block.text.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", prose(document))
    for line in lines:
        for command in re.findall(r"\$\((brooq [^)]*)\)", line) or re.findall(r"^brooq .*", line):
            words = [word for word in shlex.split(command.replace("…", ""))[1:] if word != "…"]
            names = [word for word in words if re.fullmatch(r"[a-z]+", word)]
            depth = 2 if names[:1] in (["migrate"], ["local"], ["cron"]) else 1
            shown = inside(*names[:depth], "--help")
            assert shown.returncode == 0, command
            for option in (word for word in words if word.startswith("--")):
                assert option in shown.stdout, command


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(
            r"(?:`|^)(?:\w+=\S+ )?make ([a-z-]+)", document.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert {"demo", "test", "lint"} <= named <= targets


def test_every_invariant_names_tests_that_exist() -> None:
    rows = table(ARCHITECTURE, "invariant")
    assert {row[0].split()[0] for row in rows} == {*(f"G4.{n}" for n in range(1, 12)), "G5", "G6", "C12", "L2", "L3"}
    for row in rows:
        assert "::" in row[2], row[0]
    for file, name in proofs_named(ARCHITECTURE):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        defined = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in defined, f"{file.name}::{name}"


def test_every_verb_of_the_store_is_in_the_architecture() -> None:
    named = {verb for row in table(ARCHITECTURE, "verb") for verb in re.findall(r"`(\w+)`", row[0])}
    source = ast.parse((ROOT / "src/brooq/engine/store.py").read_text(encoding="utf-8"))
    ports = [each for each in source.body if isinstance(each, ast.ClassDef) and each.name in ("Store", "Renewer")]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    verbs = {each.name for port in ports for each in port.body if isinstance(each, functions)}
    assert named == verbs


def test_decisions_are_numbered_listed_and_complete() -> None:
    index, pages = DECISIONS[-1], DECISIONS[:-1]
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert {file for file, _ in links(index)} == {page.name for page in pages}
    for page in pages:
        headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences", "What was tried"], page.name


def test_the_picture_shows_every_state_and_needs_nothing_from_elsewhere() -> None:
    picture = ROOT / "docs" / "states.svg"
    texts = {each.text for each in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314  our own
    assert {state.value for state in State} <= texts
    assert "href" not in picture.read_text(encoding="utf-8")


# --- what is listed is complete ---


def test_the_settings_are_those_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = {row[0].strip("`"): row[1].strip("`") for row in table(GUIDE, "name")}
    assert set(rows) == set(NAMES)
    plain = {name: default for name, default in rows.items() if default not in ("—", "derived")}
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    bare = load(env_file=tmp_path / "none")
    for name, default in plain.items():
        monkeypatch.setenv(name, default)
    given = load(env_file=tmp_path / "none")
    assert bare.config == Config()
    fields = [name for name in Settings.__dataclass_fields__ if name not in ("given", "config")]
    for name in fields:
        assert getattr(given, name) == getattr(bare, name), name
    for name in Config.__dataclass_fields__:
        assert seconds(getattr(given.config, name)) == seconds(getattr(bare.config, name)), name
    # What is not written in the table as a value is left open by the program too.
    left_open = {"reaper_period", "watchdog_grace", "log_format", "database_url", "http_token", "http_read_token"}
    unset = {name for name in (*Config.__dataclass_fields__, *fields) if value_of(bare, name) in (None, ())}
    assert unset == left_open
    assert set(rows) - set(plain) - {"BROOQ_LANG"} == {
        "QUEUE_REAPER_PERIOD", "QUEUE_WATCHDOG_GRACE", "LOG_FORMAT", "DATABASE_URL", "HTTP_TOKEN", "HTTP_READ_TOKEN",
    }  # fmt: skip


def value_of(settings: Settings, name: str) -> object:
    """A setting, whether it is the queue's or the process's."""
    return getattr(settings.config if name in Config.__dataclass_fields__ else settings, name)


def seconds(value: Any) -> Any:
    """A timedelta as its seconds, everything else as it is."""
    total: Callable[[], float] | None = getattr(value, "total_seconds", None)
    return value if total is None else total()


async def test_the_metrics_are_those_of_the_worker() -> None:
    queue = Queue(MemoryStore())

    @queue.kind("t")
    async def handle(claim: Claim) -> None:
        """Nothing to do."""

    await queue.take_census()
    async with served(queue) as surface:
        await surface.client.get("/metrics")
        answer = await surface.client.get("/metrics")
    exposed = {}
    for family in text_string_to_metric_families(answer.text):
        if not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            exposed[name] = (labels, family.type)
    documented = {row[0].strip("`"): (set(filter(None, row[1].split(", "))), row[2]) for row in table(GUIDE, "metric")}
    assert documented == exposed


async def test_the_metrics_of_a_process_are_those_of_the_supervisor() -> None:
    child = Child(1, lambda number, descriptor: [], Tally(), (1.0, 1.0))
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: ({"process"}, family.type)
        for family in Processes([child]).collect()
    }
    rows = table(GUIDE, "metric of a process")
    assert {row[0].strip("`"): (set(row[1].split(", ")), row[2]) for row in rows} == exposed


def test_the_texts_that_are_quoted_are_those_of_the_program() -> None:
    texts = list(catalogue("en").values())
    quoted = [text for row in table(GUIDE, "what you see") for text in re.findall(r"`([^`]+)`", row[0]) if " " in text]
    ours = [text for text in quoted if "prepared statement" not in text and text != "already exists"]
    assert len(ours) >= 4
    for text in ours:
        for piece in text.split("…"):
            assert any(piece.strip() in each for each in texts), text
