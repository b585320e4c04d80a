"""`brooq cron` and `brooq limit`: what they do, how they fail, who is written down."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.postgres.observer import Observer
from tests.service.brooq_process import inside as brooq


def test_a_periodic_job_from_its_first_day_to_its_last(dsn: str, observer: Observer, tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = brooq("cron", *arguments, dsn=dsn, cwd=tmp_path, SUDO_USER="ann")
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    assert run("list") == "there are no periodic jobs\n"
    added = run("add", "cleanup", "30 2 * * *", "t", '{"days": 30}', "--timezone", "Europe/Berlin", "--missed", "all",
                "--reason", "disk")  # fmt: skip
    assert added.startswith("cleanup is set; its next tick is 2")
    (line,) = run("list", "--json").splitlines()
    told = json.loads(line)
    assert (told["name"], told["cron"], told["missed"]) == ("cleanup", "30 2 * * *", "all")
    assert told["timezone"] == "Europe/Berlin"
    assert (told["payload"], told["declared"]) == ({"days": 30}, False)
    assert datetime.fromisoformat(told["next_at"]) > datetime.now(UTC)
    heading, row = run("list").splitlines()
    assert heading.split() == ["name", "cron", "zone", "topic", "next", "last", "from"]
    assert row.startswith("cleanup")
    id = run("run", "cleanup", "--reason", "now").strip()
    assert observer.run("select topic, payload, idempotency_key from job where id = %s", id) == [
        ("t", {"days": 30}, None)
    ]
    assert run("pause", "cleanup") == "cleanup is paused\n"
    assert "no such periodic job, or it is so already" in run("pause", "cleanup", code=1)
    assert "paused" in run("list")
    assert run("resume", "cleanup") == "cleanup goes on with its next tick\n"
    assert len(run("next", "cleanup", "--count", "3").splitlines()) == 3
    assert run("remove", "cleanup") == "cleanup is removed\n"
    assert "no periodic job cleanup" in run("run", "cleanup", code=1)
    trail = observer.run("select split_part(actor, ' ', 1), found, reason from brooq_operation order by id")
    assert trail == [
        ("ann", "set cleanup", "disk"),
        ("ann", "ran cleanup", "now"),
        ("ann", "paused cleanup", None),
        ("ann", "resumed cleanup", None),
        ("ann", "removed cleanup", None),
    ]


def test_the_next_times_of_an_expression_need_no_database(tmp_path: Path) -> None:
    done = brooq("cron", "next", "0 12 1 1 *", "--timezone", "Asia/Tokyo", "--count", "2", dsn=None, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "-01-01T12:00:00+09:00  " in first
    assert first.endswith("-01-01T03:00:00Z")
    assert int(second[:4]) == int(first[:4]) + 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cron", "add", "n", "61 * * * *", "t"], "the cron expression '61 * * * *' is refused"),
        (
            ["cron", "add", "n", "@daily", "t", "--timezone", "Mars"],
            "the time zone 'Mars' is not in the time zone database",
        ),
        (["cron", "add", "No Name", "@daily", "t"], "a schedule's name is lowercase words"),
        (["cron", "add", "n", "@daily", "t", "{bad"], "not JSON"),
        (["cron", "add", "n", "@daily", "t", "--missed", "twice"], "'twice' is not one of"),
        (["cron", "next", "* * *"], "the cron expression '* * *' is refused"),
        (["limit", "t", "--max-running", "0"], "0 is not in the range"),
        (["limit", "t", "--rate", "100"], "100 is no rate"),
        (["limit", "t", "--rate", "0/1m"], "rate is 0"),
        (["limit", "t", "--rate", "5/0"], "rate_period is 0 s"),
        (["limit", "t", "--clear", "--ordered"], "--clear and --none stand alone"),
    ],
)
def test_wrong_usage_is_told_before_any_connection(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = brooq(*arguments, dsn=None, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_limits_are_set_told_and_handed_back(dsn: str, observer: Observer, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = brooq("limit", "mail", *arguments, dsn=dsn, cwd=tmp_path, SUDO_USER="ann")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert run() == "mail: no limits (code)\n"
    said = run("--max-running", "5", "--max-running-per-key", "2", "--rate", "600/1m", "--reason", "slow")
    assert said.startswith("mail: at most 5 at one time, at most 2 of a key at one time, 600 claims in 1m (ann as ")
    limits = json.loads(run("--json"))["limits"]
    assert limits == {"max_running": 5, "max_running_per_key": 2, "rate": 600, "rate_period": 60}
    assert "keys in their order" in run("--ordered")
    assert run("--none").startswith("mail: no limits (ann as ")
    assert run("--clear") == "mail: no limits (code)\n"
    assert run("--clear") == "mail: no limits were set by hand\n"
    assert observer.value("select count(*) from brooq_operation where action = 'limit' and done") == 4
