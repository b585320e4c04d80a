"""What an error of the driver means for the engine: try again, unknown, refused, or schema."""

from __future__ import annotations

from typing import TypeVar

import psycopg
import psycopg_pool

from brooq.postgres.dsn import mask
from brooq.vocabulary.error import BrooqError, OutcomeUnknown, SchemaError, StoreBusy, StoreRefused, StoreUnavailable
from brooq.vocabulary.message import text

_SCHEMA = {"42P01", "42703", "42883", "3F000"}
_CONNECTION_LOST = {"57P01", "57P02", "57P03", "25P03", "25P04"}


E = TypeVar("E", bound=Exception)


class PoolExhausted(StoreUnavailable):
    """No connection of the consumer's pool became free in time: waiting once more would only double the wait."""


class ReadOnlyServer(StoreUnavailable):
    """The server answers, and only reads: a standby, or one that was told to."""


def reads_only(error: Exception) -> bool:
    """Whether the server only reads. Such a connection is closed, never kept: after a failover its address may lead to
    another server, and only a new connection finds that one."""
    return getattr(error, "sqlstate", None) == "25006"


def translate(error: Exception, *, writing: bool = False, dsn: str = "") -> BrooqError:
    """The engine's word for a driver's error. `writing`: a commit may have been on its way when it came. `dsn`: what
    it came of, whose password is hidden."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg_pool.PoolTimeout):
        return PoolExhausted(text("postgres.pool_exhausted", reason=_first_line(error, dsn)))
    if state is None:
        # asyncpg calls a value that it cannot send a ValueError.
        if isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, ValueError)):
            return StoreRefused(_first_line(error, dsn))
        # Lost on the way, or never there: connect-time errors have no SQLSTATE.
        return OutcomeUnknown(_first_line(error, dsn)) if writing else StoreUnavailable(_first_line(error, dsn))
    if state in _SCHEMA:
        return SchemaError(text("postgres.schema_broken", reason=_first_line(error, dsn)))
    if state == "42501":
        return StoreUnavailable(text("postgres.no_right", reason=_first_line(error, dsn)))
    if state.startswith(("22", "23")):
        return StoreRefused(_first_line(error, dsn))
    if reads_only(error):
        return ReadOnlyServer(_first_line(error, dsn))
    if state == "55P03":
        return StoreBusy(_first_line(error, dsn))
    if writing and (state in _CONNECTION_LOST or state.startswith("08")):
        return OutcomeUnknown(_first_line(error, dsn))
    return StoreUnavailable(_first_line(error, dsn))


def without_password(error: E, dsn: str) -> E:
    """The driver's error without the password of the DSN that it came of. An unencoded '@' in a password makes its end a
    part of the host, which errors name: only who knows the DSN can tell."""
    said = str(error)
    hidden = mask(said, dsn)
    return error if hidden == said else type(error)(hidden)


def _first_line(error: Exception, dsn: str) -> str:
    """Without DETAIL, which quotes the row, and without a password."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    message = primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
    return mask(message, dsn)
