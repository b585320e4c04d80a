"""The layers, on the real imports (requirement A1), and the proof that the checks fail when a rule is broken."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest
from tests.architecture import Layer, Tree, cycle_faults, direction_faults
from tests.sql_text import composition_faults, sql_faults

ROOT = Path(__file__).resolve().parent.parent
ADAPTER = "brooq.postgres"
OPEN_ENGINE = ("brooq.engine.store", "brooq.engine.outcome")
"""What the adapter may know of the engine: the port it implements and the words for outcomes."""

LAYERS = {
    "brooq.vocabulary": Layer(("brooq.vocabulary",)),
    "brooq.engine": Layer(("brooq.vocabulary", "brooq.engine")),
    "brooq.engine.calendar": Layer(("brooq.vocabulary",), foreign=True),
    "brooq": Layer(("brooq.vocabulary", "brooq.engine")),
    "brooq.testing": Layer(("brooq.vocabulary", "brooq.engine")),
    ADAPTER: Layer(("brooq.vocabulary", *OPEN_ENGINE), foreign=True),
    "brooq.service": Layer(("brooq",), foreign=True),
    "brooq.contrib": Layer(("brooq",), foreign=True),
    "brooq.__main__": Layer(("brooq.service",)),
}


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT / "src" / "brooq")


def plant(root: Path, files: dict[str, str]) -> Tree:
    """A package `brooq` of these files."""
    for name, content in files.items():
        path = root / "brooq" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(content), encoding="utf-8")
    return Tree(root / "brooq")


def test_imports_go_downward(tree: Tree) -> None:
    faults = direction_faults(tree, LAYERS)
    assert len(tree.files) > 30
    assert not faults, "\n".join(faults)


def test_no_modules_import_each_other(tree: Tree) -> None:
    faults = cycle_faults(tree)
    assert not faults, "\n".join(faults)


def test_only_the_adapter_holds_sql(tree: Tree) -> None:
    faults = sql_faults(tree, ADAPTER)
    assert not faults, "\n".join(faults)


@pytest.mark.security("S11")
def test_statements_are_not_put_together(tree: Tree) -> None:
    faults = composition_faults(tree, ADAPTER)
    assert not faults, "\n".join(faults)


def test_contracts_of_import_linter_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    answer = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_contracts_of_import_linter_do_not_forbid_what_is_allowed_here() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert settings["exclude_type_checking_imports"] is False
    for contract in settings["contracts"]:
        if contract["type"] == "forbidden" and ADAPTER in contract["source_modules"]:
            assert not set(contract["forbidden_modules"]) & set(OPEN_ENGINE)


@pytest.mark.parametrize(
    ("importer", "line", "imported"),
    [
        ("vocabulary/job.py", "import psycopg", "psycopg"),
        ("vocabulary/job.py", "from brooq.engine import queue", "brooq.engine.queue"),
        ("vocabulary/job.py", "from ..engine.queue import Queue", "brooq.engine.queue"),
        ("vocabulary/__init__.py", "from ..engine import queue", "brooq.engine.queue"),
        ("engine/queue.py", "import pydantic.fields", "pydantic.fields"),
        ("engine/queue.py", "import brooq.postgres.store", "brooq.postgres.store"),
        ("engine/queue.py", "from brooq import testing", "brooq.testing"),
        ("engine/queue.py", "from brooq import Queue", "brooq"),
        ("testing.py", "from brooq.postgres.store import PostgresStore", "brooq.postgres.store"),
        ("postgres/store.py", "from brooq.engine.queue import Queue", "brooq.engine.queue"),
        ("postgres/store.py", "from brooq import engine", "brooq.engine"),
        ("postgres/store.py", "from brooq.service import settings", "brooq.service"),
        ("__init__.py", "from brooq.postgres.store import PostgresStore", "brooq.postgres.store"),
        ("__init__.py", "import psycopg", "psycopg"),
    ],
)
def test_an_upward_import_is_named_with_its_file_and_line(
    tmp_path: Path, importer: str, line: str, imported: str
) -> None:
    files = {
        "__init__.py": "",
        "vocabulary/__init__.py": "",
        "vocabulary/job.py": "",
        "engine/__init__.py": "",
        "engine/queue.py": "",
        "testing.py": "",
        "postgres/store.py": "",
        "service/__init__.py": "",
    }
    [fault] = direction_faults(plant(tmp_path, files | {importer: f"import json\n{line}\n"}), LAYERS)
    assert fault.startswith(f"brooq/{importer}:2: ")
    assert f"imports {imported};" in fault
    assert "may see" in fault


@pytest.mark.parametrize(
    "source",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from brooq.engine.queue import Queue\n",
        "def late() -> None:\n    from brooq.engine.queue import Queue\n",
        "try:\n    import orjson\nexcept ImportError:\n    pass\n",
    ],
)
def test_no_place_in_a_file_hides_an_import(tmp_path: Path, source: str) -> None:
    files = {"engine/queue.py": "", "vocabulary/job.py": source}
    assert len(direction_faults(plant(tmp_path, files), LAYERS)) == 1


def test_allowed_imports_pass(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from brooq.engine.queue import Queue\n",
        "vocabulary/job.py": "import json\nfrom . import error\n",
        "vocabulary/error.py": "",
        "engine/store.py": "from brooq.vocabulary.job import Job\n",
        "engine/queue.py": "from brooq.engine.store import Store\n",
        "postgres/store.py": "import psycopg\nfrom brooq.engine import outcome, store\nfrom brooq.postgres import tx\n",
        "postgres/tx.py": "",
        "engine/outcome.py": "",
        "service/cli.py": "import click\nfrom brooq import Queue\nfrom brooq.postgres import store\n",
    }
    tree = plant(tmp_path, files)
    assert direction_faults(tree, LAYERS) == []
    assert cycle_faults(tree) == []


def test_a_module_outside_of_the_layers_is_named(tmp_path: Path) -> None:
    [fault] = direction_faults(plant(tmp_path, {"utils.py": ""}), LAYERS)
    assert fault.startswith("brooq/utils.py:1: brooq.utils belongs to no layer")


def test_a_cycle_is_named_with_its_imports(tmp_path: Path) -> None:
    files = {
        "engine/a.py": "from brooq.engine import b\n",
        "engine/b.py": "from brooq.engine.c import thing\n",
        "engine/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from brooq.engine.a import Thing\n",
        "engine/d.py": "from brooq.engine.a import Thing\n",
    }
    [fault] = cycle_faults(plant(tmp_path, files))
    assert fault == (
        "brooq/engine/a.py:1, brooq/engine/b.py:1, brooq/engine/c.py:3: "
        "brooq.engine.a, brooq.engine.b, brooq.engine.c import each other; imports go one way only"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "select id from job where state = 'pending'",
        "SELECT\n  id\nFROM job",
        "select 1",
        "insert into job (topic) values ($1)",
        "update job set state = 'canceled'",
        'update "brooq".job set state = $1',
        "delete from job",
        "create unique index job_ready on job (topic)",
        "where id = $1 for no key update skip locked",
        "begin",
    ],
)
def test_sql_outside_of_the_adapter_is_named(tmp_path: Path, statement: str) -> None:
    files = {"engine/queue.py": f"\nSTATEMENT = {statement!r}\n", "postgres/store.py": f"STATEMENT = {statement!r}\n"}
    [fault] = sql_faults(plant(tmp_path, files), ADAPTER)
    assert fault == f"brooq/engine/queue.py:2: brooq.engine.queue holds SQL text; it belongs to {ADAPTER}"


@pytest.mark.parametrize(
    "text", ["selected by the worker", "the update of a lease", "select a job", "insert it", "beginning"]
)
def test_prose_is_not_taken_for_sql(tmp_path: Path, text: str) -> None:
    source = f'"""A docstring may say: select id from job."""\nTEXT = {text!r}\n'
    assert sql_faults(plant(tmp_path, {"engine/queue.py": source}), ADAPTER) == []


@pytest.mark.parametrize(
    "body",
    [
        'c.execute(f"select {name}")',
        'c.execute("select %s" % name)',
        'c.execute("select {}".format(name))',
        'c.execute("select " + name)',
        "c.execute(name + name)",
        'c.execute(query=f"select {name}")',
        'c.executemany(f"insert into {name}", [])',
        'c.fetchrow(" ".join([name]))',
        'query = f"select {name}"; c.execute(query)',
        'query = "select "; query += "x" + name; c.execute(query)',
        'c.execute(f"select {name}".encode())',
        'c.execute(sql.SQL(f"select {name}"))',
        'c.execute("a" if name else f"select {name}")',
    ],
)
def test_a_statement_put_together_is_named(tmp_path: Path, body: str) -> None:
    source = f"async def run(c, name):\n    {body}\n"
    [fault] = composition_faults(plant(tmp_path, {"postgres/store.py": source}), ADAPTER)
    assert fault.startswith("brooq/postgres/store.py:2: brooq.postgres.store puts a statement together;")


@pytest.mark.parametrize(
    "body",
    [
        'c.execute("select %s", (name,))',
        "c.execute(statements.claim, [name])",
        'c.execute(sql.SQL("select {}").format(sql.Identifier(name)))',
        'c.execute(sql.SQL("select ") + sql.Identifier(name))',
        'log(f"running {name}"); c.execute(STATEMENT)',
    ],
)
def test_constant_statements_and_quoted_names_pass(tmp_path: Path, body: str) -> None:
    source = f"async def run(c, name):\n    {body}\n\nasync def other(c, name):\n    name = f'{{name}}'\n"
    assert composition_faults(plant(tmp_path, {"postgres/store.py": source}), ADAPTER) == []
