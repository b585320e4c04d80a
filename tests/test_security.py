"""The rules of SECURITY.md: each has a test that names it; and those that only the source text can keep."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.documents import SECURITY, table
from tests.test_specifications import defined_tests

import brooq
from brooq.postgres.local import LocalPostgres
from brooq.postgres.local.environment import SECRET, environment
from brooq.service.environment import CREDENTIALS, SECRETS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(brooq.__file__).parent
PROOF = re.compile(r"`(?P<path>tests/[\w/.]+)::(?P<name>\w+)`")
RULES = {f"S{number}" for number in range(1, 27)} - {"S15", "S21"}
"""What the surface's server and the supply chain promise is told elsewhere."""


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every call in the package: its file, its name as it is written, and itself."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield file.relative_to(PACKAGE).as_posix(), ast.unparse(node.func), node


def imported() -> Iterator[tuple[str, str]]:
    """Every module that is imported: where, and which."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                yield file.relative_to(PACKAGE).as_posix(), name


@pytest.mark.security("S24")
def test_every_rule_has_its_line_and_its_tests() -> None:
    rows = {row[0]: row for row in table(SECURITY, "rule")}
    assert set(rows) == RULES
    for number, row in rows.items():
        proofs = list(PROOF.finditer(row[-1]))
        assert proofs, number
        for proof in proofs:
            path = ROOT / proof["path"]
            assert path.is_file(), proof.group()
            assert proof["name"] in defined_tests(path), proof.group()


@pytest.mark.security("S24")
def test_every_rule_is_named_by_a_test() -> None:
    named = set()
    for file in (ROOT / "tests").rglob("*.py"):
        named |= set(re.findall(r'mark\.security\(\s*"(S\d+)"', file.read_text(encoding="utf-8")))
    assert named == RULES


@pytest.mark.security("S18")
def test_nothing_is_unpickled_evaluated_or_imported_by_a_name_from_data() -> None:
    modules = {"pickle", "marshal", "shelve", "yaml", "dill", "cloudpickle", "jsonpickle", "code", "codeop"}
    assert [each for each in imported() if each[1].partition(".")[0] in modules] == []
    names = {"eval", "exec", "compile", "__import__", "yaml.load", "pickle.loads"}
    # Annotations of a handler, which are the consumer's code, as typing.get_type_hints evaluates them.
    assert [(file, name) for file, name, _ in calls() if name in names] == [("engine/reading.py", "eval")]
    # Three places import by a name: that of a command, from a table of ours, that which --app gives, and the place of a
    # handler that runs in a child process, which its registration gives.
    dynamic = {file for file, name, _ in calls() if name.endswith("import_module")}
    assert dynamic == {"service/commands/group.py", "service/app.py", "engine/process/place.py"}
    assert not [file for file, name in imported() if name == "importlib" and file not in dynamic]


@pytest.mark.security("S18")
def test_a_handler_is_found_by_its_registered_topic_alone() -> None:
    """No attribute is looked up by a name that came with a job."""
    looked_up = [(file, node.args[1]) for file, name, node in calls() if name == "getattr"]
    dynamic = {file for file, name in looked_up if not isinstance(name, ast.Constant)}
    # Fields of values, by the names that their classes have; the attributes that --app and the place of a registered
    # handler give; and what a test asks.
    assert dynamic == {"engine/config.py", "engine/process/place.py", "engine/process/record.py",
                       "engine/process/travel.py", "postgres/grants.py", "service/api/deed.py", "service/app.py",
                       "service/commands/cron.py", "service/commands/group.py", "service/commands/limit.py",
                       "service/dashboard/overview.py", "service/metrics.py", "service/output.py",
                       "service/verify/report.py",
                       "testing/enqueued.py", "testing/step.py", "vocabulary/kind.py", "vocabulary/plain.py"}  # fmt: skip


def starts() -> Iterator[tuple[str, str, ast.Call]]:
    """Every call that starts a program, or becomes one."""
    starting = {"create_subprocess_exec", "subprocess_exec", "posix_spawn", "posix_spawnp", "fork", "forkpty"}
    for file, name, node in calls():
        if name.startswith(("subprocess.", "os.exec", "os.spawn")) or name.rpartition(".")[2] in starting:
            yield file, name, node


@pytest.mark.security("S19")
def test_programs_are_started_by_argument_lists_and_only_those_of_a_local_postgresql_and_our_own() -> None:
    users = {file for file, name in imported() if name in {"subprocess", "multiprocessing", "pty"}}
    # The supervisor of several worker processes starts this very program, and so does a worker whose handlers run in
    # processes of their own.
    assert all(file.startswith("postgres/local/") for file in users - {"engine/process/child.py"}), users
    others = {file for file, _, _ in starts() if not file.startswith("postgres/local/")}
    assert others == {"service/child.py", "engine/process/child.py"}
    shells = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
    assert not [(file, name) for file, name, _ in calls() if name in shells or name.endswith("subprocess_shell")]
    for file, _, node in starts():
        assert not [word for word in node.keywords if word.arg == "shell"], file
        # A fork has no arguments.
        assert not [each for each in node.args[:1] if isinstance(each, ast.JoinedStr | ast.BinOp | ast.Constant)], file


@pytest.mark.security("S19")
def test_every_program_of_a_local_postgresql_is_started_without_our_secrets() -> None:
    environments = {
        f"{file}:{node.lineno}": {ast.unparse(word.value) for word in node.keywords if word.arg == "env"}
        for file, name, node in starts()
        if file.startswith("postgres/local/") and name.startswith("subprocess.")
    }
    assert environments
    assert {place: given for place, given in environments.items() if given != {"environment()"}} == {}


@pytest.mark.security("S19")
def test_a_program_that_is_started_is_not_given_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(SECRET) == {*SECRETS, CREDENTIALS}
    for name in (*SECRET, "PGPASSWORD", "PGPASSFILE"):
        monkeypatch.setenv(name, "c4nary")
    assert "c4nary" not in environment().values()
    assert environment()["PATH"] == os.environ["PATH"]


@pytest.mark.security("S17")
def test_files_are_written_by_a_local_postgresql_and_journals_alone() -> None:
    """Nothing else of the package writes a file, and no file is served: no path can lead out of where it belongs. Where a
    journal is, the program says that keeps it; no path comes from a job."""
    writers = {"write_text", "write_bytes", "mkdir", "rename", "unlink", "touch", "symlink_to", "chmod"}
    found = set()
    for file, name, node in calls():
        method = name.rpartition(".")[2]
        modes = [each.value for each in (*node.args[:2], *(word.value for word in node.keywords if word.arg == "mode"))
                 if isinstance(each, ast.Constant)]  # fmt: skip
        opens = method == "open" and any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
        if name == "os.open" or opens or (method in writers and len(node.args) <= 1):
            found.add(file)
    # os.open of /dev/null, for an output that nobody reads any more; and memory that a dying child writes its stack to.
    assert found - {"service/cli.py", "service/journal.py", "engine/process/child.py"} <= {
        f"postgres/local/{name}.py" for name in ("cluster", "binaries", "server")
    }
    assert not [each for each in imported() if "staticfiles" in each[1]]
    assert not [name for _, name, _ in calls() if name.endswith(("FileResponse", "StaticFiles"))]


@pytest.mark.security("S17")
def test_what_holds_a_secret_is_for_its_owner_alone_and_never_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    folder = tmp_path / "pg"
    folder.mkdir(mode=0o700)
    (folder / "password").symlink_to(elsewhere)
    old = os.umask(0)
    try:
        with LocalPostgres(folder) as local:
            password = local.dsn.rpartition("@")[0].rpartition(":")[2]
            for name in ("password", "server.log"):
                assert stat.S_IMODE((local.path / name).stat().st_mode) == 0o600
            assert not (folder / "password").is_symlink()
            assert (folder / "password").read_text().strip() == password
    finally:
        os.umask(old)
    assert elsewhere.read_text() == "untouched"
