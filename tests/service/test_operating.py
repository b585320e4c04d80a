"""What operators do from a terminal: do again, pause, look at the dead and at the workers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.postgres.roles import place
from tests.service.brooq_process import Table, Worker, environment, worker, write
from tests.service.brooq_process import brooq as process
from tests.service.brooq_process import inside as brooq

from brooq import Job, Limits, Queue
from brooq.postgres import PostgresStore, open_pool
from brooq.postgres.reader import Reader

APPLICATION = """
    @queue.kind("mail", max_attempts=1)
    async def mail(claim: Claim) -> None:
        if claim.payload["to"] == "nobody":
            raise LookupError(f"no such user {claim.payload['n']}\\nsecond line")
        if claim.payload["to"] == "down":
            raise ConnectionError("smtp is down")

    @queue.kind("slow")
    async def slow(claim: Claim) -> None:
        await asyncio.sleep(3600)
"""


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def execute(dsn: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def running(dsn: str, tmp_path: Path) -> Iterator[Worker]:
    """A real worker, and twelve jobs of which nine have died."""
    write(tmp_path, APPLICATION)
    with worker("--app", "jobs:queue", dsn=dsn, cwd=tmp_path) as started:
        with closing(Table(dsn)) as table:
            made = [
                table.insert("mail", json.dumps({"to": to, "n": number}))
                for to, count in (("nobody", 6), ("down", 3), ("somebody", 3))
                for number in range(count)
            ]
            for id, state in zip(made, ["dead"] * 9 + ["done"] * 3, strict=True):
                table.wait(id, state)
        yield started


def test_the_dead_are_grouped_and_a_group_is_done_again(dsn: str, running: Worker, tmp_path: Path) -> None:
    groups = lines(brooq("dead", "--json", dsn=dsn, cwd=tmp_path).stdout)
    assert [(each["topic"], each["error"], each["jobs"]) for each in groups] == [
        ("mail", "LookupError: no such user …", 6), ("mail", "ConnectionError: smtp is down", 3),
    ]  # fmt: skip
    mark = groups[0]["group"]
    spoken = brooq("dead", dsn=dsn, cwd=tmp_path)
    assert mark in spoken.stdout
    assert "brooq retry --group" in spoken.stderr
    ids = brooq("dead", "--ids", mark, dsn=dsn, cwd=tmp_path).stdout.splitlines()
    assert len(ids) == 6
    assert ids == sorted(ids)
    done = brooq("retry", "--group", mark, "--reason", "mended", "--json", dsn=dsn, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = lines(done.stdout)
    assert [each["id"] for each in made] == ids
    assert len({each["retried_as"] for each in made}) == 6
    reasons = execute(dsn, "select distinct action, reason from brooq_operation where done")
    assert reasons == [("retry", "mended")]
    assert execute(dsn, "select count(distinct retry_of) from job where retry_of is not null") == [(6,)]


def test_a_job_that_was_done_again_says_so(dsn: str, running: Worker, tmp_path: Path) -> None:
    ((id,),) = execute(dsn, "select id from job where state = 'dead' and last_error like 'Conn%%' order by id limit 1")
    told = brooq("retry", str(id), dsn=dsn, cwd=tmp_path)
    assert (told.returncode, "retried as" in told.stdout) == (0, True)
    made = UUID(told.stdout.split()[-1])
    assert f"done again as job {made}" in brooq("explain", str(id), dsn=dsn, cwd=tmp_path).stdout
    assert f"it repeats job {id}" in brooq("explain", str(made), dsn=dsn, cwd=tmp_path).stdout
    groups = lines(brooq("dead", "--json", dsn=dsn, cwd=tmp_path).stdout)
    mark = next(each["group"] for each in groups if each["error"].startswith("Conn"))
    assert str(id) not in brooq("dead", "--ids", mark, dsn=dsn, cwd=tmp_path).stdout


def test_retry_tells_what_it_cannot_do(dsn: str, tmp_path: Path) -> None:
    pending = UUID(brooq("enqueue", "t", "1", dsn=dsn, cwd=tmp_path).stdout.strip())
    early = brooq("retry", str(pending), dsn=dsn, cwd=tmp_path)
    assert (early.returncode, "not retried: it is pending" in early.stdout) == (1, True)
    assert brooq("cancel", str(pending), dsn=dsn, cwd=tmp_path).returncode == 0
    first = brooq("retry", str(pending), dsn=dsn, cwd=tmp_path)
    second = brooq("retry", str(pending), dsn=dsn, cwd=tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout.split()[-1] in second.stdout
    assert "under way already" in second.stdout
    absent = brooq("retry", str(uuid4()), dsn=dsn, cwd=tmp_path)
    assert (absent.returncode, "not found" in absent.stdout) == (1, True)
    for wrong in ([], ["--group", "0badc0de"], [str(pending), "--group", "0badc0de"]):
        assert brooq("retry", *wrong, dsn=dsn, cwd=tmp_path).returncode == 2


def test_ids_come_from_a_pipe(dsn: str, tmp_path: Path) -> None:
    ids = [brooq("enqueue", "t", "1", dsn=dsn, cwd=tmp_path).stdout.strip() for _ in range(3)]
    table = brooq("jobs", dsn=dsn, cwd=tmp_path).stdout
    done = brooq("cancel", "-", "--json", dsn=dsn, cwd=tmp_path, stdin=table.encode())
    assert done.returncode == 0, done.stderr
    assert [each["id"] for each in lines(done.stdout)] == ids[::-1]
    objects = brooq("jobs", "--state", "canceled", "--json", dsn=dsn, cwd=tmp_path).stdout
    again = brooq("retry", ids[0], "-", dsn=dsn, cwd=tmp_path, stdin=f"\n{objects}".encode())
    assert again.returncode == 0
    assert [line.split()[0] for line in again.stdout.splitlines()] == [ids[0], ids[2], ids[1]]
    assert brooq("cancel", "-", dsn=dsn, cwd=tmp_path, stdin=b"").returncode == 0


@pytest.mark.parametrize("bad", ["x", "{}", '{"id": 7}', "{bad", "[" * 10_000, "\x1b[31m"])
def test_a_bad_line_of_a_pipe_changes_nothing(dsn: str, tmp_path: Path, bad: str) -> None:
    id = brooq("enqueue", "t", "1", dsn=dsn, cwd=tmp_path).stdout.strip()
    done = brooq("cancel", "-", dsn=dsn, cwd=tmp_path, stdin=f"{id}\n{bad}\n".encode())
    assert done.returncode == 2
    assert "line 2 of the input holds no id" in done.stderr
    assert "\x1b" not in done.stderr
    assert execute(dsn, "select state from job") == [("pending",)]


def test_a_topic_is_paused_and_resumed(dsn: str, running: Worker, tmp_path: Path) -> None:
    paused = brooq("pause", "mail", "slow", "--reason", "smtp is down", dsn=dsn, cwd=tmp_path)
    assert paused.returncode == 0, paused.stderr
    assert "mail is paused" in paused.stdout
    assert paused.stderr == ""
    id = UUID(brooq("enqueue", "mail", '{"to": "somebody"}', dsn=dsn, cwd=tmp_path).stdout.strip())
    told = brooq("explain", str(id), dsn=dsn, cwd=tmp_path).stdout
    assert "its topic is paused since" in told
    assert "smtp is down" in told
    assert "brooq resume mail" in told
    again = brooq("pause", "mail", dsn=dsn, cwd=tmp_path)
    assert (again.returncode, "paused already, since" in again.stdout) == (0, True)
    resumed = lines(brooq("resume", "mail", "--json", dsn=dsn, cwd=tmp_path).stdout)
    assert [(each["topic"], each["done"], each["paused_at"]) for each in resumed] == [("mail", True, None)]
    with closing(Table(dsn)) as table:
        table.wait(id, "done")
    assert "was not paused" in brooq("resume", "mail", dsn=dsn, cwd=tmp_path).stdout


async def test_what_is_set_for_topics(dsn: str, tmp_path: Path) -> None:
    async with open_pool(dsn) as pool:
        queue = Queue(PostgresStore(pool))
        await queue.limit("mail", Limits(max_running=3, ordered=True, rate=10, rate_period=60), by="ada")
        await queue.pause("sms", "no\x1b[31m credit", by="eve")
        await queue.pause("fax")
        await queue.resume("fax")
    spoken = await asyncio.to_thread(brooq, "topics", dsn=dsn, cwd=tmp_path)
    assert "max_running=3 ordered rate=10/1m" in spoken.stdout
    assert "no\\x1b[31m credit" in spoken.stdout
    read = lines((await asyncio.to_thread(brooq, "topics", "--json", dsn=dsn, cwd=tmp_path)).stdout)
    assert [(each["topic"], each["paused_by"], each["limits_by"]) for each in read] == [
        ("mail", None, "ada"), ("sms", "eve", None),
    ]  # fmt: skip


def test_nothing_is_set_for_topics(dsn: str, tmp_path: Path) -> None:
    assert "no topic is paused or limited" in brooq("topics", dsn=dsn, cwd=tmp_path).stderr


def test_least_privilege_is_enough_and_what_lacks_is_told(empty_dsn: str, tmp_path: Path) -> None:
    with place(empty_dsn) as made:
        operator, viewer = made.login("ada", "producer", "worker", "viewer"), made.login("eve", "viewer")
        here: dict[str, Any] = {"cwd": tmp_path, "QUEUE_SCHEMA": "jobs"}
        id = brooq("enqueue", "t", "1", dsn=operator, **here).stdout.strip()
        for command in (
            ["cancel", id], ["retry", id], ["explain", id], ["show", id], ["jobs"], ["pause", "t"], ["resume", "t"],
            ["topics"], ["workers"], ["dead"], ["top", "--once"], ["stats"],
        ):  # fmt: skip
            done = brooq(*command, dsn=operator, **here)
            assert done.returncode == 0, (command, done.stderr)
        for command in (["explain", id], ["topics"], ["workers"], ["dead"], ["top", "--once"], ["stats"]):
            assert brooq(*command, dsn=viewer, **here).returncode == 0, command
        for command in (["cancel", id], ["retry", id], ["pause", "t"]):
            done = brooq(*command, dsn=viewer, **here)
            assert (done.returncode, "`brooq doctor` tells which" in done.stderr) == (1, True), (command, done.stderr)


def test_a_topic_that_nobody_knows_is_told_of(dsn: str, running: Worker, tmp_path: Path) -> None:
    done = brooq("pause", "mial", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, "did you mean mail?" in done.stderr) == (0, True)
    assert "did you mean mail?" in brooq("dead", "--topic", "mial", dsn=dsn, cwd=tmp_path).stderr


def test_workers_and_what_their_slots_do(dsn: str, running: Worker, tmp_path: Path) -> None:
    with closing(Table(dsn)) as table:
        id = table.insert("slow")
        table.wait(id, "processing")
    until_seen(dsn, "busy <> '{}'")
    (seen,) = lines(brooq("workers", "--json", dsn=dsn, cwd=tmp_path).stdout)
    assert (seen["there"], seen["slots"], seen["occupied"], seen["topics"]) == (True, 1, 1, ["mail", "slow"])
    assert [(each["id"], each["topic"]) for each in seen["running"]] == [(str(id), "slow")]
    spoken = brooq("workers", dsn=dsn, cwd=tmp_path).stdout
    assert "1/1" in spoken
    assert str(id) in brooq("workers", "--slots", dsn=dsn, cwd=tmp_path).stdout
    # All of its slots are busy: the next job waits, and is told why.
    waiting = brooq("enqueue", "mail", '{"to": "somebody"}', dsn=dsn, cwd=tmp_path).stdout.strip()
    read = json.loads(brooq("explain", waiting, "--json", dsn=dsn, cwd=tmp_path).stdout)
    assert (read["cause"], read["before"]) == ("busy", 0)
    assert read["starts_at"] is not None, "mails have ended in the last minute"
    # Nobody has its topic: those who are there are named, and the topic that may have been meant.
    lost = brooq("enqueue", "mial", "1", dsn=dsn, cwd=tmp_path).stdout.strip()
    told = brooq("explain", lost, dsn=dsn, cwd=tmp_path).stdout
    assert "no running worker has a kind for the topic mial" in told
    assert f"{seen['name']}, there: mail, slow" in told
    assert "workers know the topic mail" in told
    # A worker that was killed stays on the list, and is told of.
    running.process.kill()
    running.exit_code()
    execute(dsn, "update brooq_worker set seen_at = now() - interval '2 minutes'")
    assert "silent, 2m" in brooq("workers", dsn=dsn, cwd=tmp_path).stdout
    found = {each["name"]: each for each in lines(brooq("doctor", "--json", dsn=dsn, cwd=tmp_path).stdout)}
    assert found["worker_silent"]["values"]["name"] == seen["name"]


def until_seen(dsn: str, condition: str) -> None:
    """Until a worker has said so of itself."""
    for _ in range(600):
        if execute(dsn, f"select name from brooq_worker where {condition}"):
            return
        execute(dsn, "select pg_sleep(0.05)")
    raise AssertionError(condition)


def test_without_workers_and_without_dead(dsn: str, tmp_path: Path) -> None:
    assert "no worker has been seen" in brooq("workers", dsn=dsn, cwd=tmp_path).stderr
    assert "no dead jobs" in brooq("dead", dsn=dsn, cwd=tmp_path).stderr
    assert brooq("workers", "--json", dsn=dsn, cwd=tmp_path).stdout == ""
    assert brooq("dead", "--json", dsn=dsn, cwd=tmp_path).stdout == ""


ERRORS = [
    "E: at 0x7f00dead, id 550e8400-e29b-41d4-a716-446655440000", "E: at 0x7f00beef, id 00000000-e29b-41d4-a716-446655440000",
    "", "   ", "\nsecond", "12", "34", "deadbeefcafe", "x" * 600, "ошибка 5", "ошибка 6", "…", "a\\b", "%s",
]  # fmt: skip


async def test_every_group_finds_its_own_jobs_again(dsn: str) -> None:
    async with open_pool(dsn) as pool:
        store = PostgresStore(pool)
        await store.enqueue(None, [Job("t") for _ in ERRORS] + [Job("u")])
        for index, error in enumerate([*ERRORS, None]):
            next_one = "(select id from job where state = 'pending' order by id limit 1)"
            execute(dsn, f"update job set state = 'dead', last_error = %s where id = {next_one}", error)
            assert execute(dsn, "select count(*) from job where state = 'dead'") == [(index + 1,)]
        reader = Reader(store)
        groups = await reader.dead(limit=100)
        for group in groups:
            assert len(await reader.dead_group(group.topic, group.kind)) == group.jobs, group.kind
        assert sum(group.jobs for group in groups) == len(ERRORS) + 1
        await reader.close()
        await store.close()


async def test_the_pace_is_that_of_what_happened(dsn: str) -> None:
    execute(dsn, "insert into job (topic) select 'made' from generate_series(1, 30)")
    execute(dsn, "insert into job (topic, state) select 'done', 'done' from generate_series(1, 60)")
    execute(dsn, "insert into job (topic, state, updated_at) select 'old', 'done', now() - interval '1 hour'"
                 " from generate_series(1, 60)")  # fmt: skip
    async with open_pool(dsn) as pool:
        reader = Reader(PostgresStore(pool))
        pace = await reader.pace()
        await reader.close()
    assert pace.done == {"done": 2.0}
    assert pace.made["made"] == 1.0
    assert abs((pace.now - (await asyncio.to_thread(execute, dsn, "select now()"))[0][0]).total_seconds()) < 30


def test_every_command_that_tells_something_speaks_json(dsn: str, tmp_path: Path) -> None:
    id = lines(brooq("enqueue", "t", "1", "--json", dsn=dsn, cwd=tmp_path).stdout)[0]["id"]
    for command in (
        ["jobs"], ["show", id], ["explain", id], ["stats"], ["check"], ["doctor"], ["workers"], ["dead"], ["cancel", id],
        ["retry", id], ["pause", "t"], ["resume", "t"], ["topics"], ["migrate", "status"], ["migrate", "up"],
        ["migrate", "down"],
    ):  # fmt: skip
        done = brooq(*command, "--json", dsn=dsn, cwd=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        assert all(isinstance(each, dict) for each in lines(done.stdout)), command
    bulk = tmp_path / "bulk"
    bulk.write_text("1\n2\nbad\n")
    brooq("migrate", "up", dsn=dsn, cwd=tmp_path)
    done = brooq("enqueue", "t", "--jsonl", str(bulk), "--json", dsn=dsn, cwd=tmp_path)
    assert (done.returncode, lines(done.stdout)) == (1, [{"enqueued": 0, "created": 0}])


@pytest.mark.parametrize(
    "command", ["jobs --limit 5000", "dead", "doctor", "workers", "explain {id}", "show {id}", "--help"]
)
def test_a_reader_that_has_enough_is_no_error(dsn: str, tmp_path: Path, command: str) -> None:
    execute(dsn, "insert into job (topic, state) select 'many', 'dead' from generate_series(1, 5000)")
    ((id,),) = execute(dsn, "select id from job limit 1")
    shell = f"{sys.executable} -m brooq {command.format(id=id)} | true"
    done = subprocess.run(
        ["bash", "-c", shell], env=environment(dsn), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert process("--help").returncode == 0
