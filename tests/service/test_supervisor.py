"""Several worker processes under a supervisor: they share the work, come back, speak with one voice and end in order."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.service.brooq_process import Table, Worker, brooq, worker, write

from brooq.service import supervisor
from brooq.service.child import Ending
from brooq.service.logging import Masker
from brooq.service.settings import Settings
from brooq.service.supervisor import Supervisor, same_command

APP = """
    from pathlib import Path

    grace = float(os.environ["GRACE"])
    queue.config = Config(lease=3, poll_interval=0.1, reaper_period=0.5, shutdown_grace=grace, workers=1)

    @queue.kind("gate")
    async def gate(claim: Claim) -> None:
        print("begun", flush=True)
        while not Path("open").exists():
            await asyncio.sleep(0.02)

    @queue.kind("blocked")
    async def blocked(claim: Claim) -> None:
        print("begun", flush=True)
        time.sleep(600)

    @queue.kind("exit", max_attempts=1)
    async def exit(claim: Claim) -> None:
        if claim.attempt == 1:
            os._exit(7)

    @queue.kind("quick", max_attempts=1)
    async def quick(claim: Claim) -> None:
        if claim.payload.get("fail"):
            raise ValueError("as asked")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an application of one slot a process."""
    monkeypatch.setenv("GRACE", "1")
    write(tmp_path, APP)
    return tmp_path


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What the condition says once it holds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)
    return found


def pids(process: Worker, count: int = 2) -> dict[int, int]:
    """The processes by number, once so many have started."""
    process.wait_for("has started", count)
    started = [line for line in process.lines if "has started" in str(line["message"])]
    return {line["process"]: int(str(line["message"]).split(":")[1]) for line in started}


def get(process: Worker, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{process.port()}{path}", trust_env=False, timeout=20)


def samples(process: Worker) -> dict[str, float]:
    """Every sample as it is written."""
    lines = [line for line in get(process, "/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def owners(dsn: str, topic: str) -> set[str]:
    """Who holds the jobs of a topic that are being processed."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select locked_by from job where topic = %s and state = 'processing'", (topic,))
        return {str(row[0]) for row in rows}


def states(dsn: str) -> Counter[str]:
    with psycopg.connect(dsn) as connection:
        return Counter(str(row[0]) for row in connection.execute("select state from job"))


def test_every_process_works_and_one_signal_ends_them_all_well(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "3", dsn=dsn, cwd=app, GRACE="60") as process:
        numbered = pids(process, 3)
        assert set(numbered) == {1, 2, 3}
        ids = [table.insert("gate") for _ in range(3)]
        held = until(lambda: (found := owners(dsn, "gate")) and len(found) == 3 and found)
        assert {int(each.split(":")[1]) for each in held} == set(numbered.values())
        until(lambda: samples(process).get('brooq_worker_busy{topic="gate"}') == 3)
        process.send()
        until(lambda: process.log.count("stopping: no more claims") == 3)
        (app / "open").touch()
        assert process.exit_code() == 0
        assert [table.row(id) for id in ids] == [("done", 1, None)] * 3
        assert all(line["level"] not in {"error", "critical"} for line in process.lines), process.log
        assert "exit code 0" in process.wait_for("all worker processes have ended")["message"]


def test_what_does_not_end_within_the_grace_is_given_back_by_all(dsn: str, table: Table, app: Path) -> None:
    ids = [table.insert("gate") for _ in range(2)]
    with worker("--app", "jobs:queue", dsn=dsn, cwd=app, QUEUE_PROCESSES="2") as process:
        process.wait_for("begun", 2)
        process.send(signal.SIGINT)
        assert process.exit_code() == 0
    assert [table.row(id) for id in ids] == [("pending", 0, None)] * 2


def test_a_second_signal_is_the_second_for_all(dsn: str, table: Table, app: Path) -> None:
    ids = [table.insert("gate") for _ in range(2)]
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app, GRACE="300") as process:
        process.wait_for("begun", 2)
        process.send()
        process.wait_for("stopping", 2)
        process.send(signal.SIGINT)
        assert process.exit_code() == 1
        process.wait_for("second signal", 2)
    assert [table.row(id) for id in ids] == [("pending", 0, None)] * 2


def test_a_third_signal_ends_all_at_once_whatever_they_do(dsn: str, table: Table, app: Path) -> None:
    ids = [str(table.insert("blocked")) for _ in range(2)]
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app, GRACE="300") as process:
        process.wait_for("begun", 2)
        for number in (1, 2, 3):
            process.send()
            process.wait_for(f"signal {number}: it goes to every")
        assert process.exit_code() == 1
        told = [str(line["message"]) for line in process.lines if "third signal" in str(line["message"])]
        assert len(told) == 2
        assert all(any(id in each for each in told) for id in ids)


def test_a_signal_that_reaches_everybody_counts_once(dsn: str, table: Table, app: Path) -> None:
    """As systemd sends it: to the supervisor and to every process."""
    ids = [table.insert("gate") for _ in range(2)]
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app, GRACE="60") as process:
        process.wait_for("begun", 2)
        numbered = pids(process)
        for pid in (process.process.pid, *numbered.values()):
            os.kill(pid, signal.SIGTERM)
        process.wait_for("stopping: no more claims", 2)
        process.wait_for("signal 1: it goes to every")
        (app / "open").touch()
        assert process.exit_code() == 0
        assert "second signal" not in process.log
    assert [table.row(id) for id in ids] == [("done", 1, None)] * 2


def test_processes_are_not_in_the_group_that_a_terminal_interrupts(dsn: str, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        assert all(os.getpgid(pid) == pid for pid in pids(process).values())


@pytest.mark.fault(1)
def test_a_killed_process_comes_back_and_so_do_its_jobs(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        ids = [table.insert("gate") for _ in range(2)]
        process.wait_for("begun", 2)
        os.kill(numbered[2], signal.SIGKILL)
        record = process.wait_for("was ended by SIGKILL")
        assert f"process 2 (pid {numbered[2]})" in record["message"]
        assert record["level"] == "error"
        process.wait_for("has started", 3)
        assert pids(process)[2] != numbered[2]
        (app / "open").touch()
        for id in ids:
            assert table.wait(id, "done")[0] == "done"
        until(lambda: get(process, "/healthz").status_code == 200)
        assert samples(process)['brooq_process_restarts_total{process="2"}'] == 1
        assert samples(process)['brooq_process_restarts_total{process="1"}'] == 0
        process.send()
        assert process.exit_code() == 0


def test_a_process_that_exits_by_itself_is_named_by_its_code_and_comes_back(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        pids(process)
        id = table.insert("exit")
        process.wait_for("ended with exit code 7")
        process.wait_for("has started", 3)
        assert table.wait(id, "done")[1] == 2
        process.send()
        assert process.exit_code() == 0


def test_a_process_that_is_told_to_stop_alone_is_replaced(dsn: str, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        os.kill(pids(process)[1], signal.SIGTERM)
        assert process.wait_for("ended with exit code 0")["level"] == "info"
        process.wait_for("has started", 3)
        process.send()
        assert process.exit_code() == 0


def test_a_stop_while_a_restart_is_waited_for_is_a_good_end(dsn: str, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        os.kill(numbered[2], signal.SIGKILL)
        process.wait_for("was ended by SIGKILL")
        process.send()
        assert process.exit_code() == 0


@pytest.mark.security("S19")
def test_it_starts_nothing_but_itself_with_no_secret_on_the_command_line(dsn: str, app: Path) -> None:
    token = "c4nary" * 8
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app, HTTP_TOKEN=token) as process:
        numbered = pids(process)
        children = {child.pid: child for child in psutil.Process(process.process.pid).children(recursive=True)}
        assert set(children) == set(numbered.values())
        for number, pid in numbered.items():
            *command, descriptor = children[pid].cmdline()
            own = [sys.executable, "-m", "brooq", "worker", "--app", "jobs:queue", "--supervised", str(number)]
            assert command == own
            assert descriptor.isdecimal()
            assert {name: children[pid].environ()[name] for name in ("DATABASE_URL", "HTTP_TOKEN")} == {
                "DATABASE_URL": dsn, "HTTP_TOKEN": token,
            }  # fmt: skip
        process.send()
        assert process.exit_code() == 0


def test_a_program_that_cannot_be_started_ends_all(caplog: pytest.LogCaptureFixture) -> None:
    made = Supervisor(Settings(processes=3), lambda number, descriptor: ["/nowhere/brooq"], None, Masker())
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert made.run() == 1
    finally:
        signal.signal(signal.SIGHUP, before)
    assert caplog.text.count("process 1 could not be started") == 1
    assert "process 2" not in caplog.text


def test_pauses_before_a_restart_grow_to_a_bound_and_are_jittered() -> None:
    tops = [supervisor.pause(failures, 1.0) for failures in range(1, 12)]
    assert tops[:4] == [0.5, 1.0, 2.0, 4.0]
    assert tops[-1] == max(tops) == supervisor.pause(10**6, 1.0) == supervisor.LONGEST
    assert [supervisor.pause(failures, 0.0) for failures in range(1, 12)] == [top / 2 for top in tops]


@pytest.mark.fault(1)
def test_a_supervisor_that_is_killed_leaves_nobody_behind(dsn: str, table: Table, app: Path) -> None:
    ids = [table.insert("gate") for _ in range(2)]
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        process.wait_for("begun", 2)
        numbered = pids(process)
        process.process.kill()
        process.wait_for("the process that supervised this one is gone", 2)
        process.wait_for("has stopped", 2)
        until(lambda: all(_ended(pid) for pid in numbered.values()))
    assert [table.row(id) for id in ids] == [("pending", 0, None)] * 2


def _ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_wrong_app_is_told_once_and_ends_all_with_code_2(app: Path) -> None:
    done = brooq(
        "worker", "--app", "jobs:queu", "--processes", "3", dsn="postgresql://127.0.0.1/x", cwd=app, HTTP_ADDR="off"
    )
    assert done.returncode == 2
    assert done.stderr.count("did you mean jobs:queue?") == 1
    assert "Traceback" not in done.stderr


def test_wrong_settings_are_told_once_and_end_it_with_code_2(app: Path) -> None:
    done = brooq("worker", "--processes", "3", cwd=app, QUEUE_WORKERS="0", QUEUE_LOOP="fast")
    assert done.returncode == 2
    for name in ("DATABASE_URL", "QUEUE_WORKERS", "QUEUE_LOOP"):
        assert done.stderr.count(f"{name}: ") + done.stderr.count(f"{name} is") == 1, done.stderr


@pytest.mark.parametrize("count", ["0", "-1", "257", "two"])
def test_a_wrong_number_of_processes_is_wrong_usage(app: Path, count: str) -> None:
    by_option = brooq("worker", "--processes", count, dsn="postgresql://127.0.0.1/x", cwd=app)
    by_setting = brooq("worker", dsn="postgresql://127.0.0.1/x", cwd=app, QUEUE_PROCESSES=count)
    assert (by_option.returncode, by_setting.returncode) == (2, 2)
    assert "QUEUE_PROCESSES" in by_setting.stderr


def test_a_schema_that_is_missing_is_told_once_and_ends_all(empty_dsn: str, tmp_path: Path) -> None:
    with worker("--processes", "3", dsn=empty_dsn, cwd=tmp_path) as process:
        assert process.exit_code() == 1
        assert process.log.count("brooq migrate up") == 1
        assert "process 1 ended with exit code 1" in process.wait_for("another start would end alike")["message"]


def test_a_first_process_that_is_killed_again_and_again_does_not_keep_the_others_from_work(
    dsn: str, table: Table, app: Path
) -> None:
    (app / "doomed.py").write_text(
        "import os, signal, sys\nfrom jobs import queue\n"
        "if sys.argv[sys.argv.index('--supervised') + 1] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with worker("--app", "doomed:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        assert process.wait_for("has started")["process"] == 2
        table.wait(table.insert("quick"), "done")
        assert "process 1 (pid" in process.wait_for("was ended by SIGKILL")["message"]
        process.send()
        assert process.exit_code() == 0


def test_a_schema_that_a_restart_finds_wrong_ends_all(dsn: str, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("drop table brooq_migration")
        os.kill(numbered[2], signal.SIGKILL)
        process.wait_for("another start would end alike")
        assert process.exit_code() == 1


def test_a_stop_before_anything_has_begun_is_a_good_end(tmp_path: Path) -> None:
    # Importing takes for ever: the process cannot hear anybody yet.
    (tmp_path / "endless.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(600)\n")
    dsn = "postgresql://127.0.0.1/x"
    with worker("--app", "endless:queue", "--processes", "2", dsn=dsn, cwd=tmp_path) as process:
        process.wait_for("importing")
        process.send()
        assert process.exit_code() == 0
        assert process.log.count("importing") == 1


def test_the_numbers_of_all_processes_are_summed_and_never_go_down(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        expected = Counter[str]()

        def work(done: int, dead: int) -> dict[str, float]:
            for number in range(done + dead):
                table.insert("quick", '{"fail": true}' if number < dead else "{}")
            expected.update({"done": done, "dead": dead})
            until(lambda: states(dsn) == expected)
            return until(lambda: _same(samples(process), expected))  # type: ignore[no-any-return]

        found = work(60, 20)
        os.kill(numbered[1], signal.SIGKILL)
        process.wait_for("has started", 3)
        again = samples(process)
        for name, value in found.items():
            if "_total" in name or "_bucket" in name or "_count" in name:
                assert again[name] >= value, name
        work(30, 10)
        until(lambda: samples(process).get('brooq_jobs{state="done",topic="quick"}') == 90)
        found = samples(process)
        assert found['brooq_jobs{state="dead",topic="quick"}'] == 30
        assert sum(name.startswith('brooq_jobs{state="done",topic="quick"') for name in found) == 1
        assert found["brooq_census_age_seconds"] < 60
        assert found['brooq_worker_busy{topic="quick"}'] == 0


def _same(found: dict[str, float], expected: Counter[str]) -> dict[str, float] | None:
    total = expected.total()
    same = (
        all(found.get(f'brooq_settle_total{{outcome="{each}",topic="quick"}}') == expected[each] for each in expected)
        and found['brooq_claimed_total{topic="quick"}'] == total
        and found['brooq_attempt_duration_seconds_count{topic="quick"}'] == total
        and found['brooq_attempt_duration_seconds_bucket{le="+Inf",topic="quick"}'] == total
    )
    return found if same else None


def test_a_process_that_is_stopped_is_seen_and_holds_nothing_up(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        table.wait(table.insert("quick"), "done")
        until(lambda: samples(process).get('brooq_settle_total{outcome="done",topic="quick"}') == 1)
        assert get(process, "/healthz").json()["well"] is True
        os.kill(numbered[2], signal.SIGSTOP)
        assert get(process, "/healthz").status_code == 503
        answer = get(process, "/readyz")
        assert answer.status_code == 503
        assert answer.json()["wrong"] == ["process 2: no answer"]
        assert answer.json()["processes"]["1"]["well"] is True
        assert answer.json()["database"] == "ok"
        until(lambda: samples(process).get('brooq_process_up{process="2"}') == 0)
        found = samples(process)
        assert found['brooq_process_up{process="1"}'] == 1
        assert (
            found['brooq_process_report_age_seconds{process="2"}']
            > found['brooq_process_report_age_seconds{process="1"}']
        )
        assert found['brooq_settle_total{outcome="done",topic="quick"}'] == 1
        os.kill(numbered[2], signal.SIGCONT)
        until(lambda: get(process, "/healthz").status_code == 200)
        # And it cannot keep the whole from ending.
        os.kill(numbered[2], signal.SIGSTOP)
        process.send()
        assert process.exit_code(60) == 1
        assert f"process 2 (pid {numbered[2]})" in process.wait_for("has not ended in time and is killed")["message"]


def test_a_blocked_loop_hides_neither_health_nor_numbers(dsn: str, table: Table, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        pids(process)
        table.insert("blocked")
        process.wait_for("begun")
        (wrong,) = until(lambda: get(process, "/healthz").json()["wrong"])
        assert wrong.endswith("no answer")
        until(lambda: samples(process).get('brooq_worker_busy{topic="blocked"}') == 1)
        found = samples(process)
        assert found['brooq_process_up{process="1"}'] == found['brooq_process_up{process="2"}'] == 1


def test_without_a_database_the_first_waits_and_a_signal_ends_it_well(tmp_path: Path) -> None:
    with worker("--processes", "2", dsn="postgresql://127.0.0.1:1/x", cwd=tmp_path) as process:
        process.wait_for("does not answer")
        assert get(process, "/healthz").status_code == 200  # to start it anew would not help
        answer = get(process, "/readyz")
        assert answer.status_code == 503
        assert answer.json()["database"] == "no answer"
        assert "process 2: not running" in answer.json()["wrong"]
        assert get(process, "/metrics").status_code == 200
        process.send()
        assert process.exit_code() == 0


def test_one_process_is_today_s_worker_and_nothing_more(dsn: str, app: Path) -> None:
    with worker("--app", "jobs:queue", "--processes", "1", dsn=dsn, cwd=app) as process:
        record = process.wait_for("has started")
        assert f":{process.process.pid}:" in record["message"]
        assert "process" not in record
        assert psutil.Process(process.process.pid).children() == []
        assert "processes" not in get(process, "/healthz").json()
        assert "brooq_process_up" not in get(process, "/metrics").text


def test_the_metrics_of_several_are_those_of_one_and_three_more(dsn: str, app: Path) -> None:
    with (
        worker("--app", "jobs:queue", dsn=dsn, cwd=app) as one,
        worker("--app", "jobs:queue", "--processes", "2", dsn=dsn, cwd=app) as two,
    ):
        one.wait_for("has started")
        pids(two)
        wanted = until(lambda: (found := _families(one)).get("brooq_jobs") and found)
        more = {
            "brooq_process_up": ("gauge", ("process",)),
            "brooq_process_report_age_seconds": ("gauge", ("process",)),
            "brooq_process_restarts": ("counter", ("process",)),
        }
        until(lambda: _families(two) == wanted | more)


def _families(process: Worker) -> dict[str, tuple[str, tuple[str, ...]]]:
    get(process, "/metrics")
    found = text_string_to_metric_families(get(process, "/metrics").text)
    return {
        family.name: (family.type, tuple(sorted({label for each in family.samples for label in each.labels})))
        for family in found
    }


def test_the_same_command_is_started_again() -> None:
    assert same_command()[0] == sys.executable
    assert same_command()[1:] + sys.argv[1:] == sys.orig_argv[1:]


def test_a_process_that_had_not_begun_may_end_by_the_signal_itself() -> None:
    def judged(code: int, *, greeted: bool) -> int:
        return supervisor.judged(Ending(1, code, 1.0, greeted=greeted, gave_up=False))

    assert judged(0, greeted=True) == 0
    assert judged(1, greeted=True) == 1
    assert judged(-signal.SIGTERM, greeted=False) == 0
    assert judged(-signal.SIGTERM, greeted=True) == 1
    assert judged(-signal.SIGKILL, greeted=False) == 1
    assert judged(supervisor.INTERRUPTED, greeted=False) == 0


def test_the_supervisor_loads_neither_the_application_nor_an_engine(app: Path, dsn: str) -> None:
    (app / "loud.py").write_text("import os\nprint('loaded by', os.getpid(), flush=True)\nfrom jobs import queue\n")
    with worker("--app", "loud:queue", "--processes", "2", dsn=dsn, cwd=app) as process:
        numbered = pids(process)
        loaded = [str(line["message"]).split()[-1] for line in process.lines if "loaded by" in str(line["message"])]
        assert sorted(loaded) == sorted(map(str, numbered.values()))
