"""The settings of the process: environment, `.env`, credentials of systemd; every problem at once (requirements S1-S4).

An application that builds its own queue takes them too: `settings = load(database=True)`, then `settings.make_pool()`,
`settings.schema` and `settings.config`.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import durationpy

from brooq.engine.config import Config
from brooq.postgres.dsn import mask
from brooq.service.environment import NAMES, read
from brooq.service.eventloop import AUTO, LOOPS
from brooq.service.loopback import MAX_PORT, Address, parse
from brooq.service.secret import Secret
from brooq.service.token import parse as parse_tokens
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import LANGUAGES, text
from brooq.vocabulary.payload import printable

if TYPE_CHECKING:
    import asyncpg

    from brooq.postgres.pool import Pool

PREFIX = "QUEUE_"
LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("json", "console")
OFF = "off"
PSYCOPG, ASYNCPG = "psycopg", "asyncpg"
DRIVERS = (PSYCOPG, ASYNCPG)
MOST_PROCESSES = 256
_ON = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
# durationpy alone would pass over what stands between two parts, and read "5mm" as five months.
_DURATION = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h|d|w))+|[+-]?0", re.ASCII)
_BARE = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process runs with."""

    config: Config = field(default_factory=Config)
    database_url: Secret | None = None
    schema: str = "public"
    prepared: bool = True
    """Whether prepared statements may be used; off behind PgBouncer in transaction mode."""
    wakeups: bool = True
    """Whether enqueues wake idle workers; off leaves it all to polling."""
    http_addr: Address | None = Address("127.0.0.1", 8090)  # noqa: RUF009  frozen
    """None: no HTTP surface (`HTTP_ADDR=off`)."""
    http_token: tuple[Secret, ...] = ()
    """Up to two tokens, either of which may read and change things through the surface. Without any token at all metrics
    are open, and whatever shows or changes jobs is off."""
    http_read_token: tuple[Secret, ...] = ()
    """Up to two tokens that may only read."""
    http_payloads: bool = False
    """Whether the dashboard shows payloads and results to whoever may write."""
    driver: str = PSYCOPG
    """What connects: psycopg, or asyncpg. Never guessed: `on_succeeded` gets a connection of it."""
    processes: int = 1
    """How many worker processes `brooq worker` runs."""
    loop: str = AUTO
    """The event loop of the handlers: auto (uvloop where it is installed), asyncio or uvloop."""
    log_format: str | None = None
    """None: console on a terminal, else JSON."""
    log_level: str = "info"
    given: frozenset[str] = frozenset()
    """The settings of the queue that were set, as the user writes them."""

    @property
    def dsn(self) -> str:
        """Where the database is. Raises ConfigError when DATABASE_URL is not set."""
        if self.database_url is None:
            raise ConfigError([text("setting.no_database")])
        return self.database_url.reveal()

    @overload
    def make_pool(self, max_size: int = 10, *, driver: Literal["psycopg"]) -> Pool: ...

    @overload
    def make_pool(self, max_size: int = 10, *, driver: Literal["asyncpg"]) -> asyncpg.Pool[asyncpg.Record]: ...

    @overload
    def make_pool(self, max_size: int = 10, *, driver: str | None = None) -> Pool | asyncpg.Pool[asyncpg.Record]: ...

    def make_pool(self, max_size: int = 10, *, driver: str | None = None) -> Pool | asyncpg.Pool[asyncpg.Record]:
        """A pool that is not open yet, for DATABASE_URL; it connects only when it is asked for a connection.

        `driver` is for whoever uses the pool beside the queue, and so must know which it is; None: QUEUE_DRIVER decides.
        """
        from brooq.postgres.pool import make_asyncpg_pool, make_pool  # noqa: PLC0415  not needed to read settings

        driver = driver or self.driver
        if driver == ASYNCPG:
            return make_asyncpg_pool(self.dsn, min_size=0, max_size=max_size, prepared=self.prepared)
        return make_pool(self.dsn, min_size=0, max_size=max_size, prepared=self.prepared)


def load(*, database: bool = False, env_file: str | os.PathLike[str] = ".env") -> Settings:
    """Read the settings. `database`: DATABASE_URL must be set.

    Raises ConfigError with every problem at once, each naming its setting as the user wrote it; no secret is in any.
    """
    written, problems = read(Path(env_file))
    reading = _Reading(written, problems)
    settings = reading.settings()
    if database and settings.database_url is None and not reading.failed & {"DATABASE_URL"}:
        problems.append(text("setting.no_database"))
    if problems:
        raise ConfigError([mask(problem, written.get("DATABASE_URL", "")) for problem in problems])
    return settings


class _Reading:
    """One pass over every value, then one over all of them together, whatever failed in the first (S3)."""

    def __init__(self, written: Mapping[str, str], problems: list[str]) -> None:
        self._written = written
        self._problems = problems
        self.failed: set[str] = set()

    def settings(self) -> Settings:
        """What could be read; problems are added to the list."""
        values: dict[str, Any] = {}
        for name, parser in _PARSERS.items():
            parsed = self._parse(name, parser)
            if parsed is not None:
                values[_attribute(name)] = parsed
        if values.get("http_addr") == OFF:
            values["http_addr"] = None
        self._parse("BROOQ_LANG", _language)
        options = {}
        for name, parser in _OPTIONS.items():
            option = self._parse(name, parser)
            if option is not None:
                options[_attribute(name)] = option
        given = frozenset(PREFIX + name.upper() for name in options)
        return Settings(config=self._config(options), given=given, **values)

    def _parse(self, name: str, parser: Callable[[str], T]) -> T | None:
        value = self._written.get(name)
        if value is None:
            return None
        try:
            return parser(value)
        except (ValueError, OverflowError) as error:
            self.failed.add(name)
            self._problems.append(text("setting.problem", name=name, problem=error))
            return None

    def _config(self, options: Mapping[str, Any]) -> Config:
        try:
            return Config(**options)
        except ConfigError as error:
            for problem in error.problems:
                names, renamed = _rename(problem)
                # Checked against a default that stands in for a value that could not be read: nobody asked for that.
                if not names & self.failed:
                    self._problems.append(renamed)
            return Config()


def _rename(problem: str) -> tuple[set[str], str]:
    """A problem of the engine's Config in the user's words: which settings it names, and its text."""
    names: set[str] = set()

    def setting(match: re.Match[str]) -> str:
        names.add(PREFIX + match.group().upper())
        return PREFIX + match.group().upper()

    return names, _CONFIG_NAME.sub(setting, problem)


def _attribute(name: str) -> str:
    return name.removeprefix(PREFIX).lower()


def _shown(value: str) -> str:
    return printable(repr(value[:60]))


def duration(value: str) -> timedelta:
    """`1h30m`, `500ms`. Raises ValueError for a bare number and for anything else (S2)."""
    if _BARE.fullmatch(value) and float(value) != 0:
        raise ValueError(text("setting.bare_number", value=_shown(value), example=f"{value}s"))
    try:
        found: timedelta | None = durationpy.from_str(value) if _DURATION.fullmatch(value) else None
    except (durationpy.DurationError, ValueError, ArithmeticError):
        found = None
    if found is None:
        raise ValueError(text("setting.duration", value=_shown(value)))
    return found


def _whole(value: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise ValueError(text("setting.whole", value=_shown(value)))
    return int(value)


def _processes(value: str) -> int:
    count = _whole(value)
    if not 1 <= count <= MOST_PROCESSES:
        raise ValueError(text("setting.between", value=_shown(value), least=1, most=MOST_PROCESSES))
    return count


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _driver(value: str) -> str:
    chosen = _one_of(*DRIVERS)(value)
    if chosen == ASYNCPG and not _installed(ASYNCPG):
        raise ValueError(text("postgres.no_asyncpg"))
    return chosen


def _switch(value: str) -> bool:
    if value.lower() not in _ON:
        raise ValueError(text("setting.choice", value=_shown(value), choices="on, off"))
    return _ON[value.lower()]


def _one_of(*choices: str) -> Callable[[str], str]:
    def choose(value: str) -> str:
        if value.lower() not in choices:
            close = difflib.get_close_matches(value.lower(), choices, 1)
            hint = text("setting.did_you_mean", name=close[0]) if close else ""
            raise ValueError(text("setting.choice", value=_shown(value), choices=", ".join(choices)) + hint)
        return value.lower()

    return choose


def _language(value: str) -> str:
    """`ru`, or the name of a locale, `ru_RU.UTF-8`. It is the catalogue that asks for it, long before the settings."""
    if value[:2].lower() not in LANGUAGES or value[2:3].isalpha():
        raise ValueError(text("setting.choice", value=_shown(value), choices=", ".join(LANGUAGES)))
    return value[:2].lower()


def _database_url(value: str) -> Secret:
    import psycopg  # noqa: PLC0415  only when there is a DSN to look at
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        ports = str(conninfo_to_dict(value).get("port") or "").split(",")
    except (psycopg.Error, UnicodeError):
        ports = ["?"]
    # libpq looks at the port only when it connects; a worker would try again for ever.
    if all(not port or (port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT) for port in ports):
        return Secret(value)
    problem = text("dsn.invalid")
    raise ValueError(problem)  # outside of the except block: libpq's own text quotes the DSN, secrets and all


def _http_addr(value: str) -> Address | str:
    return OFF if value.lower() == OFF else parse(value)


def _schema(value: str) -> str:
    from brooq.postgres.statement import statements  # noqa: PLC0415

    try:
        statements(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return value


_PARSERS: dict[str, Callable[[str], Any]] = {
    "DATABASE_URL": _database_url,
    "HTTP_ADDR": _http_addr,
    "HTTP_TOKEN": parse_tokens,
    "HTTP_READ_TOKEN": parse_tokens,
    "HTTP_PAYLOADS": _switch,
    "QUEUE_SCHEMA": _schema,
    "QUEUE_PREPARED": _switch,
    "QUEUE_WAKEUPS": _switch,
    "QUEUE_DRIVER": _driver,
    "QUEUE_PROCESSES": _processes,
    "QUEUE_LOOP": _one_of(*LOOPS),
    "LOG_FORMAT": _one_of(*FORMATS),
    "LOG_LEVEL": _one_of(*LEVELS),
}
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "QUEUE_WORKERS": _whole,
    "QUEUE_PREFETCH": _whole,
    "QUEUE_POLL_INTERVAL": duration,
    "QUEUE_LEASE": duration,
    "QUEUE_ATTEMPT_TIMEOUT": duration,
    "QUEUE_MAX_EXECUTION_TIMEOUT": duration,
    "QUEUE_BACKOFF_BASE": duration,
    "QUEUE_BACKOFF_MAX": duration,
    "QUEUE_MAX_ATTEMPTS": _whole,
    "QUEUE_REAPER_PERIOD": duration,
    "QUEUE_WATCHDOG_GRACE": duration,
    "QUEUE_SHUTDOWN_GRACE": duration,
    "QUEUE_RETENTION_TTL": duration,
    "QUEUE_RETENTION_BATCH": _whole,
    "QUEUE_RETENTION_PERIOD": duration,
}
# The engine's problems begin with a field's name; within a text only names that can be nothing else are taken for one.
_FIELDS = "|".join(sorted(map(_attribute, _OPTIONS), key=len, reverse=True))
_CONFIG_NAME = re.compile(rf"^(?:{_FIELDS})\b|\b(?:attempt_timeout|max_execution_timeout|backoff_base|backoff_max)\b")

assert {*_PARSERS, *_OPTIONS, "BROOQ_LANG"} == set(NAMES), "every setting is read and understood"
