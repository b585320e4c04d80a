"""Settings: where they come from, what they refuse, and that they keep secrets (requirements S1 to S4)."""

from __future__ import annotations

import copy
import pickle
import sys
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from psycopg_pool import AsyncConnectionPool

from brooq import Config, ConfigError
from brooq.service.environment import NAMES
from brooq.service.secret import Secret
from brooq.service.settings import Settings, load
from brooq.vocabulary.duration import to_timedelta

TOKEN = "n" * 32
OLD_TOKEN = "o" * 40
CANARY = "pa55-canary"
DSN = f"postgresql://user:{CANARY}@db.example/app"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer's reaches a test."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        if name != "BROOQ_LANG":
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


def problems(**values: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        with pytest.raises(ConfigError) as caught:
            load()
    return caught.value.problems


def test_defaults_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", DSN)
    settings = load(database=True)
    assert settings.config == Config()
    assert str(settings.http_addr) == "127.0.0.1:8090"
    assert (settings.schema, settings.prepared, settings.log_level, settings.log_format) == (
        "public",
        True,
        "info",
        None,
    )
    assert (settings.processes, settings.loop) == (1, "auto")
    config = settings.config
    seconds = {
        "poll_interval": 1, "lease": 120, "attempt_timeout": 60, "max_execution_timeout": 300, "backoff_base": 1,
        "backoff_max": 60, "retention_ttl": 720 * 3600, "retention_period": 0,
    }  # fmt: skip
    assert {name: to_timedelta(getattr(config, name)).total_seconds() for name in seconds} == seconds
    assert (config.workers, config.max_attempts) == (2, 5)


def test_every_setting_reaches_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = {
        "POLL_INTERVAL": "1500ms", "LEASE": "3m", "ATTEMPT_TIMEOUT": "1m30s", "MAX_EXECUTION_TIMEOUT": "1h30m",
        "BACKOFF_BASE": "2s", "BACKOFF_MAX": "5m", "REAPER_PERIOD": "7s", "WATCHDOG_GRACE": "8s",
        "SHUTDOWN_GRACE": "9s", "RETENTION_TTL": "2d", "RETENTION_PERIOD": "0",
    }  # fmt: skip
    whole = {"WORKERS": "7", "PREFETCH": "20", "MAX_ATTEMPTS": "9", "RETENTION_BATCH": "50"}
    others = {
        "QUEUE_PROCESSES": "3", "QUEUE_LOOP": "Asyncio",
        "QUEUE_SCHEMA": "My Queue", "QUEUE_PREPARED": "off", "QUEUE_DRIVER": "psycopg",
        "LOG_FORMAT": "JSON", "LOG_LEVEL": "Warning",
        "HTTP_ADDR": "[::1]:0", "HTTP_TOKEN": f"{TOKEN} {OLD_TOKEN}", "DATABASE_URL": DSN,
    }  # fmt: skip
    for name, value in {**{f"QUEUE_{key}": each for key, each in {**durations, **whole}.items()}, **others}.items():
        monkeypatch.setenv(name, value)
    settings = load()
    config = settings.config
    assert config.poll_interval == timedelta(seconds=1.5)
    assert config.lease == timedelta(minutes=3)
    assert config.attempt_timeout == timedelta(seconds=90)
    assert config.max_execution_timeout == timedelta(minutes=90)
    assert (config.backoff_base, config.backoff_max) == (timedelta(seconds=2), timedelta(minutes=5))
    assert (config.reaper_seconds, config.watchdog_seconds) == (7, 8)
    assert config.shutdown_grace == timedelta(seconds=9)
    assert (config.retention_ttl, config.retention_period) == (timedelta(days=2), timedelta(0))
    assert (config.workers, config.max_attempts, config.retention_batch) == (7, 9, 50)
    assert (settings.schema, settings.prepared, settings.log_format, settings.log_level) == (
        "My Queue", False, "json", "warning",
    )  # fmt: skip
    assert (settings.processes, settings.loop, settings.driver) == (3, "asyncio", "psycopg")
    assert config.prefetch == 20
    assert str(settings.http_addr) == "[::1]:0"
    assert settings.http_token == (Secret(TOKEN), Secret(OLD_TOKEN))
    assert settings.dsn == DSN
    assert settings.given == {f"QUEUE_{name}" for name in {**durations, **whole}}


def test_a_token_of_one_attempt_may_exceed_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_LEASE", "3s")
    assert load().config.lease_seconds == 3


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("BROOQ_LANG", "de", "en, ru"),
        ("BROOQ_LANG", "russian", "en, ru"),
        ("QUEUE_LEASE", "120", "write 120s"),
        ("QUEUE_LEASE", "1.5", "write 1.5s"),
        ("QUEUE_LEASE", "-30", "has no unit"),
        ("QUEUE_LEASE", "PT30S", "is no duration"),
        ("QUEUE_LEASE", "30 s", "is no duration"),
        ("QUEUE_LEASE", "1h 30m", "is no duration"),
        ("QUEUE_LEASE", "1h!30m", "is no duration"),
        ("QUEUE_LEASE", "5mm", "is no duration"),
        ("QUEUE_LEASE", "١s", "is no duration"),
        ("QUEUE_LEASE", "1.2.3s", "is no duration"),
        ("QUEUE_LEASE", "99999999999999999999h", "is no duration"),
        ("QUEUE_LEASE", "0", "longer than zero"),
        ("QUEUE_LEASE", "0s", "longer than zero"),
        ("QUEUE_LEASE", "1ns", "longer than zero"),
        ("QUEUE_POLL_INTERVAL", "-1s", "longer than zero"),
        ("QUEUE_REAPER_PERIOD", "0", "longer than zero"),
        ("QUEUE_WATCHDOG_GRACE", "0", "longer than zero"),
        ("QUEUE_RETENTION_TTL", "-1h", "must not be negative"),
        ("QUEUE_RETENTION_PERIOD", "-1h", "must not be negative"),
        ("QUEUE_WORKERS", "0", "a whole number from 1"),
        ("QUEUE_WORKERS", "two", "no whole number"),
        ("QUEUE_WORKERS", "2.0", "no whole number"),
        ("QUEUE_WORKERS", "٢", "no whole number"),
        ("QUEUE_WORKERS", "1_000", "no whole number"),
        ("QUEUE_MAX_ATTEMPTS", "-5", "a whole number from 1"),
        ("QUEUE_RETENTION_BATCH", "0", "a whole number from 1"),
        ("QUEUE_ATTEMPT_TIMEOUT", "6m", "QUEUE_MAX_EXECUTION_TIMEOUT (300 s)"),
        ("QUEUE_PREPARED", "maybe", "not one of: on, off"),
        ("QUEUE_PROCESSES", "0", "not between 1 and 256"),
        ("QUEUE_PROCESSES", "257", "not between 1 and 256"),
        ("QUEUE_PROCESSES", "two", "no whole number"),
        ("QUEUE_PREFETCH", "-1", "QUEUE_PREFETCH is -1"),
        ("QUEUE_PREFETCH", "many", "no whole number"),
        ("QUEUE_DRIVER", "psycopg3", "did you mean psycopg?"),
        ("QUEUE_LOOP", "uvlop", "did you mean uvloop?"),
        ("QUEUE_SCHEMA", "x" * 64, "schema name"),
        ("LOG_LEVEL", "warnin", "did you mean warning?"),
        ("LOG_FORMAT", "xml", "not one of: json, console"),
        ("HTTP_ADDR", "0.0.0.0:8090", "not loopback"),
        ("HTTP_ADDR", "8090", "no address"),
        ("DATABASE_URL", "nonsense", "malformed"),
        ("QUEUE_WORKER", "3", "did you mean QUEUE_WORKERS?"),
        ("QUEUE_COLOUR_OF_THE_SKY", "blue", "no such setting"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_the_user_wrote(name: str, value: str, told: str) -> None:
    (problem,) = problems(**{name: value})
    assert problem.startswith(name)
    assert told in problem


def test_all_problems_come_at_once_those_between_settings_too() -> None:
    found = problems(
        QUEUE_WORKERS="0",
        QUEUE_LEASE="30",
        QUEUE_POLL_INTERVAL="-1s",
        QUEUE_ATTEMPT_TIMEOUT="10m",
        QUEUE_RETENTION_BATCH="x",
        HTTP_ADDR="192.168.1.5:80",
        QUEUE_WORKERZ="1",
        LOG_LEVEL="loud",
    )
    starts = sorted(problem.replace(":", " ").split()[0] for problem in found)
    assert starts == [
        "HTTP_ADDR", "LOG_LEVEL", "QUEUE_ATTEMPT_TIMEOUT", "QUEUE_LEASE", "QUEUE_POLL_INTERVAL", "QUEUE_RETENTION_BATCH",
        "QUEUE_WORKERS", "QUEUE_WORKERZ",
    ]  # fmt: skip


def test_a_value_that_could_not_be_read_is_not_compared_by_its_default() -> None:
    found = problems(QUEUE_ATTEMPT_TIMEOUT="5", QUEUE_MAX_EXECUTION_TIMEOUT="30s")
    assert len(found) == 1
    assert found[0].startswith("QUEUE_ATTEMPT_TIMEOUT:")


def test_a_default_counts_when_it_was_left_alone() -> None:
    (problem,) = problems(QUEUE_MAX_EXECUTION_TIMEOUT="30s")
    assert "QUEUE_ATTEMPT_TIMEOUT (60 s) is longer than QUEUE_MAX_EXECUTION_TIMEOUT (30 s)" in problem


def test_an_empty_value_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        if name != "BROOQ_LANG":
            monkeypatch.setenv(name, "" if name != "QUEUE_LEASE" else "  ")
    monkeypatch.setenv("QUEUE_NO_SUCH", "")
    assert load() == Settings()


def test_the_environment_wins_over_the_file_and_the_file_over_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    of_credential, of_file, of_environment = (f"{where}-{TOKEN}" for where in ("credential", "file", "environment"))
    (credentials / "http_token").write_text(f"{of_credential}\n")
    (credentials / "database_url").write_text("postgresql://credential/x\n")
    for file in credentials.iterdir():
        file.chmod(0o400)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    assert load().http_token == (Secret(of_credential),)
    assert load().dsn == "postgresql://credential/x"
    (tmp_path / ".env").write_text(f"HTTP_TOKEN={of_file}\nQUEUE_WORKERS=3\nQUEUE_LEASE=\n")
    assert load().http_token == (Secret(of_file),)
    monkeypatch.setenv("HTTP_TOKEN", of_environment)
    monkeypatch.setenv("QUEUE_WORKERS", "")
    assert load().http_token == (Secret(of_environment),)
    assert load().config.workers == 3


def test_a_password_in_the_file_is_taken_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DATABASE_URL='postgresql://u:a${HOME}b@h/x'\n")
    assert load().dsn == "postgresql://u:a${HOME}b@h/x"


def test_an_unknown_setting_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("QUEUE_LEESE=30s\nOTHER=1\n")
    with pytest.raises(ConfigError, match="QUEUE_LEESE: there is no such setting; did you mean QUEUE_LEASE"):
        load()


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"QUEUE_WORKERS=\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"\.env cannot be read: not valid UTF-8"):
        load()


def test_bytes_of_the_environment_that_are_no_text_are_refused_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "QUEUE_LEASE", "QUEUE_WORKERS", "QUEUE_SCHEMA", "LOG_LEVEL", "HTTP_ADDR"):
        (problem,) = problems(**{name: "\udcff"})
        assert problem.startswith(name)
        problem.encode()


def test_a_missing_database_is_one_of_the_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_WORKERS", "0")
    with pytest.raises(ConfigError) as caught:
        load(database=True)
    assert [problem.split()[0].rstrip(":") for problem in caught.value.problems] == ["QUEUE_WORKERS", "DATABASE_URL"]


@pytest.mark.parametrize(
    "value",
    [
        f"postgresql://user:{CANARY}@h:notaport/x",
        f"postgres//user:{CANARY}@h/x",
        f"host=h password={CANARY} unknown=1",
        f"host=h password='{CANARY}",
        f"mysql://user:{CANARY}@h/x?a=b",
    ],
)
def test_no_problem_shows_the_password(value: str) -> None:
    assert CANARY not in "\n".join(problems(DATABASE_URL=value, QUEUE_WORKERS="0"))


def test_a_password_in_the_wrong_setting_is_masked_too() -> None:
    for name in ("QUEUE_LEASE", "QUEUE_WORKERS", "LOG_LEVEL", "HTTP_ADDR"):
        assert CANARY not in "\n".join(problems(**{name: DSN}))


def test_secrets_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", DSN)
    monkeypatch.setenv("HTTP_TOKEN", f"{CANARY}-{TOKEN}")
    settings = load()
    secret = settings.database_url
    assert secret is not None
    shown = [repr(settings), str(settings), repr(secret), str(secret), f"{secret}", f"{secret:>5}", "%s" % secret]  # noqa: UP031
    assert all(CANARY not in each and "***" in each for each in shown)
    assert CANARY.encode() not in pickle.dumps(settings)
    assert pickle.loads(pickle.dumps(secret)).reveal() == "***"  # noqa: S301  our own pickle
    assert copy.deepcopy(settings) == settings
    assert not hasattr(secret, "__dict__")
    with pytest.raises(AttributeError) as caught:
        secret.no_such  # type: ignore[attr-defined]  # noqa: B018
    assert CANARY not in str(caught.value)


def test_secrets_compare_by_value_whatever_they_hold() -> None:
    assert Secret("\udcff") == Secret("\udcff")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    ("setting", "argument", "kind"),
    [
        ("asyncpg", None, asyncpg.Pool),
        ("psycopg", None, AsyncConnectionPool),
        ("asyncpg", "psycopg", AsyncConnectionPool),
        ("psycopg", "asyncpg", asyncpg.Pool),
    ],
)
async def test_a_pool_is_of_the_driver_that_was_chosen(setting: str, argument: str | None, kind: type) -> None:
    settings = Settings(database_url=Secret(DSN), driver=setting)
    assert isinstance(settings.make_pool(driver=argument), kind)


async def test_without_asyncpg_its_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    (problem,) = problems(QUEUE_DRIVER="asyncpg")
    assert "pip install 'brooq[asyncpg]'" in problem
