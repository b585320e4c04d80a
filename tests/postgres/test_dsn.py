"""Passwords never come back out of a DSN."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from brooq.postgres import migrate
from brooq.postgres.dsn import describe, mask, unverified
from brooq.vocabulary.error import BrooqError, ConfigError, StoreUnavailable


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:s3cret@host/db",
        "postgres://user:s3cret@host:5432/db?sslmode=require",
        "postgresql+psycopg://user:s3cret@host/db",
        "postgresql://user:a@s3cret@host/db",
        "postgresql://user:a%40s3cret@host/db",
        "postgresql://user:a/s3cret?#@host/db",
        "postgresql://user:two s3cret@host/db",
        "postgresql://host/db?user=user&password=s3cret&sslmode=require",
        "postgresql://:s3cret@host/db",
        "postgres:/user:s3cret@host/db",
        "host=host password=s3cret dbname=db",
        "host=host password = s3cret dbname=db",
        "host=host password='two s3cret' dbname=db",
        r"host=host password='it\'s s3cret' dbname=db",
        "host=host password='never closed s3cret",
        "host=host PASSWORD=s3cret",
        "host=host sslpassword=s3cret",
        'missing "=" after "user:s3cret@host" in connection info string',
    ],
)
def test_a_password_is_masked_in_every_form(dsn: str) -> None:
    assert "s3cret" not in mask(dsn)
    assert "***" in mask(dsn)
    assert "host" in mask(dsn)


@pytest.mark.parametrize(
    "message",
    [
        "postgresql://user@host:5432/db",
        "postgresql://host:5432/db",
        "host=host port=5432",
        'connection to server at "127.0.0.1", port 5432 failed: Connection refused',
        "2026-11-30 05:31:54 write to admin@example.org",
        "the password is wrong",
    ],
)
def test_a_text_without_a_password_is_left_alone(message: str) -> None:
    assert mask(message) == message


def test_the_password_of_a_known_dsn_is_masked_decoded_and_in_pieces() -> None:
    assert mask('invalid port "pa55"', "postgresql://user:pa55/word@host/db") == 'invalid port "***"'
    assert mask("no database word@host", "postgresql://user:pa55/word@host/db") == "no database ***@host"
    assert mask("it was p@55", "postgresql://user:p%4055@host/db") == "it was ***"
    assert mask("it was s3cret", "host=h password='s3cret'") == "it was ***"


def test_the_driver_really_quotes_secrets_of_a_malformed_dsn() -> None:
    with pytest.raises(psycopg.ProgrammingError, match="s3cret"):
        conninfo_to_dict("postgres:/user:s3cret@host/db")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres:/user:s3cret@127.0.0.1/db",
        "postgresql://user:two s3cret@127.0.0.1/db",
        "postgresql://user:s3cret%zz@127.0.0.1/db",
        "postgresql://user:12/s3cret@127.0.0.1/db",
        "postgresql://user:s3cret/12@127.0.0.1/db",
        "host=127.0.0.1 password=two s3cret",
        "postgresql://user:s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret@127.0.0.1:port/db",
    ],
)
def test_no_error_nor_its_context_shows_the_password(dsn: str) -> None:
    with pytest.raises((ConfigError, StoreUnavailable)) as caught:
        migrate.up(dsn)
    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cret" not in str(error)
        assert isinstance(error, BrooqError)
        error = error.__cause__ or error.__context__


def test_a_dsn_is_described_without_its_password() -> None:
    assert describe("postgresql://app:s3cret@db.example:6543/shop") == "db.example:6543/shop as app"
    assert describe("host=a,b port=1,2 dbname=shop user=app password=s3cret") == "a:1,b:2/shop as app"


def test_defaults_and_environment_are_those_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGUSER", "app")
    assert describe("") == "localhost:5432/app as app"
    monkeypatch.setenv("PGHOST", "elsewhere")
    assert describe("dbname=shop") == "elsewhere:5432/shop as app"


def test_a_malformed_dsn_is_not_described_at_all() -> None:
    assert describe("postgres:/user:s3cret@host/db") == "a malformed DSN"


@pytest.mark.security("S20")
@pytest.mark.parametrize(
    ("dsn", "mode"),
    [
        ("postgresql://u@db.example/x", "prefer"),
        ("postgresql://u@db.example/x?sslmode=disable", "disable"),
        ("postgresql://u@db.example/x?sslmode=require", "require"),
        ("postgresql://u@10.0.0.5/x?sslmode=verify-ca", "verify-ca"),
        ("postgresql://u@127.0.0.1,db.example/x", "prefer"),
        ("host=localhost hostaddr=10.0.0.5", "prefer"),
        ("postgresql://u@db.example/x?sslmode=verify-full", None),
        ("postgresql://u@127.0.0.1/x", None),
        ("postgresql://u@127.8.8.8/x", None),
        ("postgresql://u@[::1]/x", None),
        ("postgresql://u@localhost/x", None),
        ("host=/run/postgresql", None),
        ("host=@socket", None),
        ("host=db.example hostaddr=127.0.0.1", None),
        ("not a dsn", None),
    ],
)
def test_a_way_to_the_database_that_can_be_listened_to_is_told(
    dsn: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)
    assert unverified(dsn) == mode
