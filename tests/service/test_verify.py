"""`brooq verify`: what it says, how it exits, what it shows of a violation."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from tests.service.brooq_process import brooq as process
from tests.service.brooq_process import inside as brooq

from brooq import Claim, Config, Job, JobDead, JobDone, Queue
from brooq.postgres import PostgresStore, open_pool
from brooq.service.journal import Journal, ProducerLog
from brooq.service.verify.ledger import NEEDS

CUT = "update job set state = 'pending', locked_by = null, locked_until = null where state = 'processing'"


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def audited(dsn: str) -> str:
    done = brooq("verify", "--install", dsn=dsn)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the audit of the schema public is installed in public_audit\n"
    return dsn


async def work(dsn: str, folder: Path, count: int = 5) -> tuple[Path, Path]:
    """Some jobs through a queue with journal and producers' log; one of them fails for good."""
    journal, producers = Journal(folder / "journal.jsonl"), ProducerLog(folder / "producers.jsonl")
    async with open_pool(dsn, min_size=0) as pool:
        queue = Queue(PostgresStore(pool), Config(poll_interval=0.05, max_attempts=1))
        left = set()

        async def handler(claim: Claim) -> None:
            if claim.payload == 0:
                raise RuntimeError

        queue.register_kind("t", journal.around(handler))
        queue.listen(journal)
        queue.listen(lambda event: left.discard(event.id) if isinstance(event, JobDone | JobDead) else None)
        for number in range(count):
            left.add((await producers.enqueue(queue, Job("t", number))).id)
        async with queue:
            await until(lambda: not left)
    journal.close()
    producers.close()
    return journal.path, producers.path


async def until(condition: object) -> None:
    import asyncio

    assert callable(condition)
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  listeners are called in the engine's own turn
            await asyncio.sleep(0.005)


async def test_a_sound_history_is_told_to_be_so(audited: str, tmp_path: Path) -> None:
    journal, producers = await work(audited, tmp_path)
    done = brooq("verify", "--drained", "--journal", str(journal), "--producers", str(producers), dsn=audited)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["promise", "meaning", "rows", "checked", "violations"]
    assert [line.split()[0] for line in lines[1:18]] == list(NEEDS)
    assert "15 changes of 5 jobs, read in" in done.stdout
    assert lines[-1] == "no violation"
    told = json.loads(brooq(
        "verify", "--drained", "--journal", str(journal), "--producers", str(producers), "--json", dsn=audited
    ).stdout)  # fmt: skip
    checked = {each["promise"]: each["rows_checked"] for each in told["promises"]}
    assert (checked["C1"], checked["C2"], checked["C10"]) == (5, 5, 5)
    assert told["violations"] == []
    assert told["unreadable_lines"] == 0


def test_what_cannot_be_looked_at_is_not_said_to_be_well(audited: str) -> None:
    done = brooq("verify", dsn=audited)
    assert done.returncode == 0
    for promise, need in (("C1", "--producers"), ("C2", "--producers"), ("C10", "--journal"), ("C14", "--journal")):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{promise} ")]
        assert line.endswith("-")
        assert f"not checked: needs {need}" in line


def test_a_violation_is_shown_with_its_history_and_the_faults_around_it(audited: str, tmp_path: Path) -> None:
    run(
        audited,
        "insert into job (topic) values ('t')",
        "update job set state = 'processing', attempts = 1, claim_seq = 1, locked_by = 'w', locked_until = now() + '1 h'",
        CUT,
    )
    with psycopg.connect(audited) as connection:
        at, id = connection.execute("select extract(epoch from max(at))::float8, min(job_id::text)"
                                    " from public_audit.change").fetchone() or (0, "")  # fmt: skip
    faults = tmp_path / "faults.jsonl"
    faults.write_text(
        json.dumps({"at": at - 1, "kind": "kill", "target": "worker \x1b[31m"}) + "\n"
        + json.dumps({"at": at - 60, "kind": "reset", "target": "long ago"}) + "\n"
        + '{"at": 1, "ki'
    )  # fmt: skip
    done = brooq("verify", "--faults", str(faults), dsn=audited)
    assert done.returncode == 1
    assert f"C9, job {id}: handed back with attempts +0" in done.stdout
    for piece in ("insert  - -> pending", "update  pending -> processing", "update  processing -> pending"):
        assert piece in done.stdout
    assert "kind=kill target=worker \\u001b[31m" in done.stdout
    assert "long ago" not in done.stdout
    assert "1 lines of the logs could not be read" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 violations"
    told = json.loads(brooq("verify", "--faults", str(faults), "--json", dsn=audited).stdout)
    (violation,) = told["violations"]
    assert (violation["promise"], violation["job"]) == ("C9", id)
    assert [line["op"] for line in violation["history"]] == ["INSERT", "UPDATE", "UPDATE"]
    assert [fault["kind"] for fault in violation["faults"]] == ["kill"]


def test_many_violations_are_counted_and_some_are_shown(audited: str) -> None:
    run(audited, "insert into job (topic, state) select 't', 'done' from generate_series(1, 30)")
    done = brooq("verify", "--limit", "2", dsn=audited)
    assert done.returncode == 1
    assert done.stdout.count("C7, job ") == 2
    assert "28 more violations of C7 are not shown" in done.stdout
    assert done.stdout.splitlines()[-1] == "30 violations"


def test_jobs_that_are_older_than_the_audit_are_told_and_not_judged(dsn: str) -> None:
    run(dsn, "insert into job (topic, state, attempts, claim_seq, locked_by, locked_until)"
             " values ('t', 'processing', 7, 9, 'w', now() + '1 h'), ('t', 'done', 1, 1, 'w', now())")  # fmt: skip
    assert brooq("verify", "--install", dsn=dsn).returncode == 0
    run(dsn, "update job set state = 'done' where attempts = 7")
    done = brooq("verify", dsn=dsn)
    assert done.returncode == 0, done.stdout
    assert "2 jobs are older than the audit" in done.stdout


def test_drained_wants_every_job_to_be_at_its_end(audited: str) -> None:
    run(audited, "insert into job (topic) values ('t')")
    assert brooq("verify", dsn=audited).returncode == 0
    done = brooq("verify", "--drained", dsn=audited)
    assert done.returncode == 1
    assert "still pending" in done.stdout


def test_retention_is_judged_by_its_setting(audited: str) -> None:
    run(audited, "insert into job (topic) values ('t')", "update job set state = 'canceled'", "delete from job")
    assert brooq("verify", dsn=audited).returncode == 1
    assert brooq("verify", dsn=audited, QUEUE_RETENTION_TTL="1us").returncode == 0
    assert brooq("verify", dsn=audited, QUEUE_RETENTION_TTL="0").returncode == 0


def test_nothing_is_installed_twice_and_nothing_missing_is_taken_away(audited: str) -> None:
    assert "was there already, in public_audit" in brooq("verify", "--install", dsn=audited).stdout
    assert "is gone" in brooq("verify", "--uninstall", "--yes", dsn=audited).stdout
    assert "there is no audit in public_audit" in brooq("verify", "--uninstall", dsn=audited).stdout
    done = brooq("verify", dsn=audited)
    assert done.returncode == 1
    assert "run `brooq verify --install`" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--install", "--uninstall"],
        ["--install", "--drained"],
        ["--uninstall", "--json"],
        ["--journal", "no such file"],
        ["--limit", "-1"],
        ["extra"],
    ],
)
def test_wrong_usage_is_told_apart_from_a_broken_promise(audited: str, arguments: list[str]) -> None:
    done = brooq("verify", *arguments, dsn=audited)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr


def test_it_speaks_russian(audited: str) -> None:
    done = process("verify", dsn=audited, BROOQ_LANG="ru")
    assert done.returncode == 0
    assert "ни одно подтверждённое задание не потеряно" in done.stdout
    assert done.stdout.splitlines()[-1] == "нарушений нет"
