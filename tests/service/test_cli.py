"""The command line: what each command does, how it fails, what it never prints."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import psycopg
import pytest
from click.testing import CliRunner
from tests.service.brooq_process import brooq as process
from tests.service.brooq_process import environment
from tests.service.brooq_process import inside as brooq

from brooq.service.commands import root
from brooq.service.environment import NAMES

CANARY = "pa55-canary"
UNREACHABLE = f"postgresql://user:{CANARY}@127.0.0.1:1/x"
NOBODY = "00000000-0000-0000-0000-000000000000"


def rows(dsn: str, query: str = "select topic, payload, idempotency_key, state from job order by id") -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command by its words."""
    found = [path]
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", commands(root), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    answer = CliRunner().invoke(root, [*path, "--help"], prog_name="brooq")
    assert answer.exit_code == 0
    assert answer.output.startswith(f"Usage: {' '.join(('brooq', *path))}")
    assert len(answer.output.splitlines()) > 4


def test_the_commands_are_the_documented_ones() -> None:
    assert {" ".join(path) for path in commands(root)} == {
        "", "migrate", "migrate up", "migrate down", "migrate status", "migrate sql", "worker", "enqueue", "jobs", "show",
        "explain", "cancel", "retry", "dead", "pause", "resume", "topics", "limit", "cron", "cron list", "cron add",
        "cron remove", "cron pause", "cron resume", "cron run", "cron next", "workers", "top", "stats", "check", "doctor",
        "completion", "grants", "verify", "local", "local start", "local stop", "local url",
    }  # fmt: skip


def test_help_needs_no_driver_and_little_time() -> None:
    source = (
        "import sys; from brooq.service.cli import run; code = run(['--help']);"
        "print(sorted({'psycopg', 'rich', 'starlette', 'uvicorn', 'structlog', 'pydantic'} & set(sys.modules)), code)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_help_speaks_russian_too() -> None:
    done = process("--help", BROOQ_LANG="ru")
    assert done.returncode == 0
    assert "Очередь заданий" in done.stdout


def test_version() -> None:
    assert process("--version").stdout.startswith("brooq 0.")


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    # A click that is not there: the first folder of the path shadows the real one.
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')\n")
    env = environment(None, PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "brooq", "jobs"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'brooq[worker]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["jbos"], "did you mean jobs?"),
        (["migrate", "upp"], "did you mean up?"),
        (["enqueue"], "Missing argument"),
        (["enqueue", "Email_Send", "1"], "did you mean email-send?"),
        (["enqueue", "a", "{bad"], "not JSON"),
        (["enqueue", "a", "NaN"], "NaN"),
        (["enqueue", "a", '"\\u0000"'], "NUL"),
        (["enqueue", "a", "[" * 100 + "]" * 100], "64"),
        (["enqueue", "a", "1", "--key", "x" * 1025], "1024"),
        (["enqueue", "a", "1", "--at", "2027-01-01T00:00:00"], "no time zone"),
        (["enqueue", "a", "1", "--at", "tomorrow"], "no moment"),
        (["enqueue", "a", "1", "--at", "+10"], "has no unit"),
        (["enqueue", "a", "1", "--at", "+99999999d"], "no moment"),
        (["enqueue", "a", "1", "--at", "9999-12-31T23:59:59Z"], "out of range"),
        (["enqueue", "a", "1", "--jsonl", "f"], "--jsonl takes neither"),
        (["jobs", "--state", "dne"], "'dne' is not one of"),
        (["jobs", "--limit", "0"], "0"),
        (["jobs", "--limit", "many"], "many"),
        (["jobs", "--topic", "A B"], "did you mean a-b?"),
        (["show"], "Missing argument"),
        (["show", "7"], "'7' is no id of a job"),
        (["enqueue", "a", "-"], "standard input is empty"),
        (["cancel"], "Missing argument"),
        (["cancel", NOBODY, "x\x1b[31m"], "\\u001b"),
        (["stats", "extra"], "extra"),
        (["jobs", "--no-such"], "--no-such"),
    ],
)
def test_wrong_usage_is_code_2_and_says_what_is_wrong(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = brooq(*arguments, dsn=UNREACHABLE, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert CANARY not in done.stderr + done.stdout


EVERY = [
    ["migrate", "up"], ["migrate", "down"], ["migrate", "status"], ["enqueue", "a", "1"], ["enqueue", "a", "--jsonl", "-"],
    ["jobs"], ["jobs", "--json"], ["show", NOBODY], ["explain", NOBODY], ["retry", NOBODY], ["dead"],
    ["pause", "t"], ["resume", "t"], ["workers"], ["top", "--once"], ["cancel", NOBODY], ["stats"], ["check"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        (UNREACHABLE, 1),
        (f"host=127.0.0.1 port=1 user=u password={CANARY}", 1),
        (f"postgresql://user:{CANARY}@127.0.0.1:1:2/x", 2),
        (f"user:{CANARY}@nowhere/x", 2),
        (None, 2),
    ],
    ids=["unreachable", "pairs", "malformed", "no scheme", "not set"],
)
def test_no_command_shows_the_password_when_it_fails(
    arguments: list[str], dsn: str | None, code: int, tmp_path: Path
) -> None:
    # In a process of its own where it matters most: nothing is printed behind the back of the command either.
    call = process if dsn == UNREACHABLE else brooq
    done = call(*arguments, dsn=dsn, cwd=tmp_path, stdin=b"1\n", LOG_LEVEL="debug")
    assert done.returncode == code, done.stderr
    output = done.stderr + done.stdout
    assert "canary" not in output
    assert "Traceback" not in output
    assert ("127.0.0.1:1/" in output) == (code == 1)
    assert ("DATABASE_URL" in output) == (code == 2)


def test_a_wrong_password_is_not_shown_either(dsn: str, tmp_path: Path) -> None:
    info = psycopg.conninfo.conninfo_to_dict(dsn)
    wrong = f"postgresql://nobody:{CANARY}@{info['host']}:{info['port']}/{info['dbname']}"
    for arguments in EVERY:
        done = brooq(*arguments, dsn=wrong, cwd=tmp_path, stdin=b"1\n")
        assert done.returncode == 1
        assert CANARY not in done.stderr + done.stdout


def test_a_schema_that_is_missing_says_what_to_do(empty_dsn: str, tmp_path: Path) -> None:
    for arguments in EVERY[3:]:
        done = brooq(*arguments, dsn=empty_dsn, cwd=tmp_path, stdin=b"1\n")
        assert done.returncode == 1
        assert "brooq migrate up" in done.stderr + done.stdout


def test_migrate_up_status_down(empty_dsn: str, tmp_path: Path) -> None:
    status = brooq("migrate", "status", dsn=empty_dsn, cwd=tmp_path)
    assert (status.returncode, "not applied" in status.stdout) == (1, True)
    first = brooq("migrate", "up", dsn=empty_dsn, cwd=tmp_path)
    assert (first.returncode, "applied 00001" in first.stdout) == (0, True)
    assert "up to date" in brooq("migrate", "up", dsn=empty_dsn, cwd=tmp_path).stdout
    assert brooq("migrate", "status", dsn=empty_dsn, cwd=tmp_path).returncode == 0
    assert brooq("check", dsn=empty_dsn, cwd=tmp_path).returncode == 0
    down = brooq("migrate", "down", dsn=empty_dsn, cwd=tmp_path)
    assert (down.returncode, "taken back" in down.stdout) == (0, True)
    everything = brooq("migrate", "down", "--steps", "99", dsn=empty_dsn, cwd=tmp_path)
    assert "taken back: 00001" in everything.stdout
    assert "nothing is applied" in brooq("migrate", "down", dsn=empty_dsn, cwd=tmp_path).stdout


def test_a_schema_of_another_name_by_option_and_by_setting(empty_dsn: str, tmp_path: Path) -> None:
    assert brooq("migrate", "up", "--schema", "My Queue", dsn=empty_dsn, cwd=tmp_path).returncode == 0
    assert brooq("jobs", dsn=empty_dsn, cwd=tmp_path).returncode == 1
    done = brooq("enqueue", "a", "1", dsn=empty_dsn, cwd=tmp_path, QUEUE_SCHEMA="My Queue")
    assert done.returncode == 0
    assert rows(empty_dsn, 'select topic from "My Queue".job') == [("a",)]


def test_migrate_sql_needs_no_database_and_is_the_schema(empty_dsn: str, tmp_path: Path) -> None:
    script = brooq("migrate", "sql", cwd=tmp_path)
    assert script.returncode == 0
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(script.stdout.encode())
    assert brooq("check", dsn=empty_dsn, cwd=tmp_path).returncode == 0


def test_enqueue_from_argument_input_and_nothing(dsn: str, tmp_path: Path) -> None:
    first = brooq("enqueue", "email.send", '{"a": [1, 12345678901234567890.5]}', "--key", "k", dsn=dsn, cwd=tmp_path)
    second = brooq("enqueue", "email.send", "-", "--key", "k", dsn=dsn, cwd=tmp_path, stdin=b'"other"')
    assert first.stdout == second.stdout
    UUID(first.stdout.strip())
    assert (first.stderr, "existed already" in second.stderr) == ("", True)
    assert brooq("enqueue", "x", "-", dsn=dsn, cwd=tmp_path, stdin='"ж"'.encode()).returncode == 0
    assert brooq("enqueue", "x", dsn=dsn, cwd=tmp_path).returncode == 0
    assert [row[:3] for row in rows(dsn, "select topic, payload::text, idempotency_key from job order by id")] == [
        ("email.send", '{"a": [1, 12345678901234567890.5]}', "k"),
        ("x", '"ж"', None),
        ("x", "null", None),
    ]


@pytest.mark.parametrize("at", ["2030-06-01T12:00:00+03:00", "2030-06-01T09:00:00Z", "2030-06-01T09:00:00z"])
def test_enqueue_at_a_moment(dsn: str, tmp_path: Path, at: str) -> None:
    assert brooq("enqueue", "x", "1", "--at", at, dsn=dsn, cwd=tmp_path).returncode == 0
    assert rows(dsn, "select available_at = '2030-06-01T09:00:00Z' from job") == [(True,)]


def test_enqueue_a_while_from_now(dsn: str, tmp_path: Path) -> None:
    assert brooq("enqueue", "x", "1", "--at", "+1h30m", dsn=dsn, cwd=tmp_path).returncode == 0
    query = "select available_at - now() between interval '89 minutes' and interval '91 minutes' from job"
    assert rows(dsn, query) == [(True,)]


def test_bulk_enqueues_every_line(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    lines = [json.dumps({"n": number}) for number in range(2500)]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines[:5], "", "  ", *lines[5:]]).encode())
    done = brooq("enqueue", "bulk", "--jsonl", str(file), dsn=dsn, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2500 jobs enqueued\n", "")
    assert rows(dsn, "select count(*), sum((payload->>'n')::int) from job") == [(2500, sum(range(2500)))]
    # In the order of the file.
    assert rows(dsn, "select bool_and(n = row) from (select (payload->>'n')::int as n,"
                     " row_number() over (order by id) - 1 as row from job) as found") == [(True,)]  # fmt: skip
    assert (
        brooq("enqueue", "bulk", "--jsonl", "-", dsn=dsn, cwd=tmp_path, stdin=b"1\n2\n3").stdout == "3 jobs enqueued\n"
    )


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (b'{"a":', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'"' + b"x" * 1024 * 1024 + b'"', "longer than"),
        (b"1 2", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_batch_is_written(
    dsn: str, tmp_path: Path, bad: bytes, told: str
) -> None:
    lines = [b"%d" % number for number in range(2700)]
    lines[2345] = bad
    done = brooq("enqueue", "bulk", "--jsonl", "-", dsn=dsn, cwd=tmp_path, stdin=b"\n".join(lines))
    assert done.returncode == 1
    assert "line 2346: " in done.stderr
    assert told in done.stderr
    assert "2000 jobs were enqueued before" in done.stderr
    assert rows(dsn, "select count(*) from job") == [(2000,)]


def test_a_file_that_is_not_there(dsn: str, tmp_path: Path) -> None:
    done = brooq("enqueue", "bulk", "--jsonl", "nowhere.jsonl", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "nowhere.jsonl: No such file" in done.stderr) == (1, True)
    done = brooq("enqueue", "bulk", "--jsonl", ".", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def seed(dsn: str) -> list[UUID]:
    """Jobs of every state, oldest first."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        made = []
        for state in ("pending", "processing", "failed", "done", "dead", "canceled"):
            held = "'w', now() + interval '1 hour'" if state == "processing" else "null, null"
            row: Any = connection.execute(
                "insert into job (topic, state, payload, locked_by, locked_until, last_error, failures)"
                f" values ('t.{state}', '{state}', '{{\"n\": 1.50}}', {held}, E'Oh\\n[bold]no\\x1b[31m\\u2028!',"
                ' \'[{"attempt": 1, "at": "2026-01-01T00:00:00+00:00", "worker": "w", "error": "e\\nf"}]\')'
                " returning id"
            ).fetchone()
            made.append(row[0])
        return made


def test_jobs_lists_newest_first_with_filters(dsn: str, tmp_path: Path) -> None:
    ids = seed(dsn)
    done = brooq("jobs", dsn=dsn, cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [str(id) for id in reversed(ids)]
    assert "\x1b" not in done.stdout
    assert "Oh\\n[bold]no" in done.stdout
    for state, id in zip(("pending", "processing", "failed", "done", "dead", "canceled"), ids, strict=True):
        for arguments in (["--state", state], ["--topic", f"t.{state}"], ["--state", state, "--topic", f"t.{state}"]):
            found = brooq("jobs", "--json", *arguments, dsn=dsn, cwd=tmp_path).stdout.splitlines()
            assert [json.loads(line)["id"] for line in found] == [str(id)]
    assert brooq("jobs", "--state", "dead", "--topic", "t.done", "--json", dsn=dsn, cwd=tmp_path).stdout == ""
    assert len(brooq("jobs", "--json", "--limit", "4", dsn=dsn, cwd=tmp_path).stdout.splitlines()) == 4
    page = brooq("jobs", "--json", "--before", str(ids[2]), dsn=dsn, cwd=tmp_path).stdout.splitlines()
    assert [json.loads(line)["id"] for line in page] == [str(ids[1]), str(ids[0])]


def test_a_topic_without_jobs_suggests_one_with_jobs(dsn: str, tmp_path: Path) -> None:
    seed(dsn)
    done = brooq("jobs", "--topic", "t.daed", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "did you mean t.dead?" in done.stderr) == (0, True)


def test_long_lists_come_in_pages_and_a_closed_pipe_is_no_error(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into job (topic) select 'many' from generate_series(1, 5000)")
    found = brooq("jobs", "--limit", "4500", "--json", dsn=dsn, cwd=tmp_path).stdout.splitlines()
    assert len({json.loads(line)["id"] for line in found}) == 4500
    command = f"{sys.executable} -m brooq jobs --limit 5000 --json | head -1"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(dsn), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_job_that_python_cannot_read_hides_nothing(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into job (topic, payload) values ('huge', (repeat('9', 5000))::jsonb)")
    done = brooq("jobs", "--json", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "9" * 5000 in done.stdout) == (0, True)


def test_show(dsn: str, tmp_path: Path) -> None:
    dead = seed(dsn)[4]
    done = brooq("show", str(dead), dsn=dsn, cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    for part in ("state            dead", "t.dead", '{"n": 1.50}', "[bold]no\\u001b[31m\\u2028!", "e\\nf"):
        assert part in done.stdout
    (line,) = brooq("show", str(dead), "--json", dsn=dsn, cwd=tmp_path).stdout.splitlines()
    read = json.loads(line)
    assert read["id"] == str(dead)
    assert read["payload"] == {"n": 1.5}
    assert '"payload": {"n": 1.50}' in line  # as it stands in the row
    assert read["failures"][0]["error"] == "e\nf"
    absent = brooq("show", NOBODY, dsn=dsn, cwd=tmp_path)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert NOBODY in absent.stderr


def test_show_tells_what_a_handler_has_told(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row: Any = connection.execute(
            "insert into job (topic, concurrency_key, result, progress, retry_of) values ('t', 'ada',"
            ' \'{"total": 1.50, "big": 12345678901234567890.5}\','
            ' \'{"done": 0.4, "note": "half\\u001b way", "at": "2027-01-01T00:00:00+00:00"}\', %s) returning id',
            [UUID(NOBODY)],
        ).fetchone()
    done = brooq("show", str(row[0]), dsn=dsn, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in (
        "concurrency_key  ada",
        f"retry_of         {NOBODY}",
        "40%  half\\u001b way",
        "12345678901234567890.5",
    ):
        assert part in done.stdout
    assert "\x1b" not in done.stdout
    (line,) = brooq("show", str(row[0]), "--json", dsn=dsn, cwd=tmp_path).stdout.splitlines()
    read = json.loads(line)
    assert read["progress"]["done"] == 0.4
    assert "12345678901234567890.5" in line


def test_cancel_says_of_each_what_was_found(dsn: str, tmp_path: Path) -> None:
    pending, processing, failed, finished, dead, canceled = seed(dsn)
    alive = brooq("cancel", *map(str, (pending, processing, failed, canceled)), dsn=dsn, cwd=tmp_path)
    assert alive.returncode == 0
    assert [line.split("  ")[1] for line in alive.stdout.splitlines()] == [
        "canceled (it was pending)", "canceled (it was processing)", "canceled (it was failed)",
        "not canceled: it is canceled already",
    ]  # fmt: skip
    late = brooq("cancel", str(finished), str(dead), str(uuid4()), dsn=dsn, cwd=tmp_path)
    assert late.returncode == 1
    assert [line.split("  ")[1] for line in late.stdout.splitlines()] == [
        "not canceled: it is done already", "not canceled: it is dead already", "not found",
    ]  # fmt: skip
    states = {row[0] for row in rows(dsn, "select state from job")}
    assert states == {"canceled", "done", "dead"}


def test_stats_finds_every_topic_whatever_its_state(dsn: str, tmp_path: Path) -> None:
    seed(dsn)
    read = [json.loads(line) for line in brooq("stats", "--json", dsn=dsn, cwd=tmp_path).stdout.splitlines()]
    assert [each["topic"] for each in read] == sorted(each["topic"] for each in read)
    for each in read:
        state = each["topic"].removeprefix("t.")
        counts = {name: each[name] for name in ("pending", "processing", "failed", "done", "dead", "canceled")}
        assert counts == dict.fromkeys(counts, 0) | {state: 1}
    assert len(read) == 6
    table = brooq("stats", dsn=dsn, cwd=tmp_path).stdout.splitlines()
    assert len(table) == 7
    assert table[0].split()[:4] == ["topic", "pending", "processing", "failed"]
    assert len({line.rindex(" ") for line in table if not line.startswith("topic")}) > 0


def test_an_empty_table(dsn: str, tmp_path: Path) -> None:
    assert brooq("stats", "--json", dsn=dsn, cwd=tmp_path).stdout == ""
    assert brooq("jobs", "--json", dsn=dsn, cwd=tmp_path).stdout == ""
    assert "no jobs found" in brooq("jobs", dsn=dsn, cwd=tmp_path).stderr


def test_check_notes_what_is_open_and_passes_all_the_same(dsn: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"DATABASE_URL={dsn}\n")
    (tmp_path / ".env").chmod(0o644)
    done = brooq("check", cwd=tmp_path)
    assert done.returncode == 0
    assert ".env holds secrets" in done.stdout
    assert "HTTP_TOKEN is not set" in done.stdout
    (tmp_path / ".env").chmod(0o600)
    done = brooq("check", cwd=tmp_path, HTTP_TOKEN="t" * 32)
    notes = [line for line in done.stdout.splitlines() if line.startswith("note")]
    assert all("durability" in line for line in notes)


def test_check_tells_the_version_the_schema_and_what_durability_rests_on(dsn: str, tmp_path: Path) -> None:
    done = brooq("check", dsn=dsn, cwd=tmp_path)
    assert done.returncode == 0
    for part in ("settings", "database: PostgreSQL 1", "schema public: migration", "fsync", "synchronous_commit"):
        assert part in done.stdout
    assert dsn not in done.stdout
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into brooq_migration (version, name, checksum) values (999, 'later', 'x')")
    done = brooq("check", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "999" in done.stdout) == (1, True)


def test_a_local_postgresql_from_start_to_stop(tmp_path: Path) -> None:
    path = ["--path", str(tmp_path / "a folder")]
    absent = brooq("local", "url", *path, cwd=tmp_path)
    assert (absent.returncode, absent.stdout) == (1, "")
    try:
        started = process("local", "start", *path, cwd=tmp_path)
        assert started.returncode == 0, started.stderr
        url = brooq("local", "url", *path, cwd=tmp_path).stdout.strip()
        password = psycopg.conninfo.conninfo_to_dict(url)["password"]
        assert str(password) not in started.stdout + started.stderr
        assert brooq("local", "start", *path, cwd=tmp_path).returncode == 0
        assert brooq("migrate", "up", dsn=url, cwd=tmp_path).returncode == 0
        checked = brooq("check", dsn=url, cwd=tmp_path)
        assert (checked.returncode, str(password) in checked.stdout) == (0, False)
    finally:
        stopped = brooq("local", "stop", *path, cwd=tmp_path)
    assert (stopped.returncode, "is stopped" in stopped.stdout) == (0, True)
    again = brooq("local", "stop", *path, cwd=tmp_path)
    assert (again.returncode, "no PostgreSQL runs" in again.stdout) == (0, True)


def on_terminal(*arguments: str, dsn: str, cwd: Path) -> str:
    """What a person sees."""
    leader, follower = pty.openpty()
    env = environment(dsn) | {"TERM": "xterm", "COLUMNS": "140"}
    env.pop("NO_COLOR")
    process = subprocess.Popen(
        [sys.executable, "-m", "brooq", *arguments], stdin=follower, stdout=follower, stderr=follower, env=env, cwd=cwd
    )
    os.close(follower)
    seen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    process.wait(30)
    os.close(leader)
    return seen.decode()


def test_a_terminal_gets_tables_without_markup_or_commands_of_the_data(dsn: str, tmp_path: Path) -> None:
    ids = seed(dsn)
    seen = on_terminal("jobs", dsn=dsn, cwd=tmp_path)
    assert all(str(id) in seen for id in ids)
    assert "[bold]" in seen
    assert "\x1b[31m" not in seen.replace("\\u001b[31m", "")
    assert "─" in seen or "━" in seen


def test_a_terminal_is_asked_before_everything_is_deleted(dsn: str, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "brooq", "migrate", "down"],
        stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(dsn), cwd=tmp_path,
    )  # fmt: skip
    os.write(leader, b"n\n")
    output, _ = process.communicate(timeout=60)
    os.close(leader)
    os.close(follower)
    assert b"deletes all jobs" in output
    assert process.returncode != 0
    assert rows(dsn, "select count(*) from job") == [(0,)]


def test_a_person_who_enqueues_hears_of_a_topic_that_may_have_been_meant(dsn: str, tmp_path: Path) -> None:
    assert "did you mean" not in on_terminal("enqueue", "email.send", "1", dsn=dsn, cwd=tmp_path)
    seen = on_terminal("enqueue", "emial.send", "1", dsn=dsn, cwd=tmp_path)
    assert "did you mean email.send?" in seen
    assert "did you mean" not in on_terminal("enqueue", "report", "1", dsn=dsn, cwd=tmp_path)
    assert "did you mean" not in on_terminal("enqueue", "email.send", "1", dsn=dsn, cwd=tmp_path)
    # A program is told nothing that it has not asked for.
    assert brooq("enqueue", "email.sned", "1", dsn=dsn, cwd=tmp_path).stderr == ""
    assert rows(dsn, "select count(*) from job") == [(5,)]


def test_a_progress_bar_on_a_terminal(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("1\n" * 3000)
    seen = on_terminal("enqueue", "bulk", "--jsonl", str(file), dsn=dsn, cwd=tmp_path)
    assert "3000 jobs enqueued" in seen
    assert "━" in seen


def test_settings_of_the_tests_are_those_of_the_product() -> None:
    assert not [name for name in environment(None) if name in NAMES and name != "BROOQ_LANG"]
