"""The setting `BROOQ`: one dictionary, checked as a whole."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections

from brooq.engine.config import Config
from brooq.postgres.statement import statements
from brooq.vocabulary.error import ConfigError
from brooq.vocabulary.message import text

_OWN = ("DATABASE", "SCHEMA", "WAKEUPS")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What `BROOQ` says. `database` is an alias of DATABASES, `schema` where brooq's tables are in it, `wakeups` whether an
    enqueue wakes idle workers; the rest is the worker's Config, in capitals (`WORKERS`, `LEASE`…, seconds or timedeltas)."""

    database: str
    schema: str
    wakeups: bool
    config: Config


@cache
def configuration() -> Configuration:
    """Read the settings, once. Raises ConfigError with every problem, each naming its setting."""
    given: dict[str, Any] = getattr(settings, "BROOQ", {})
    known = {*_OWN, *(each.name.upper() for each in fields(Config))}
    problems = []
    for name in sorted(given.keys() - known):
        close = difflib.get_close_matches(name, known, 1)
        hint = text("contrib.did_you_mean", name=close[0]) if close else ""
        problems.append(text("contrib.django_unknown", name=name) + hint)
    database = given.get("DATABASE", "default")
    if database not in connections:
        problems.append(text("contrib.django_database", database=repr(database)))
    elif connections[database].vendor != "postgresql":
        problems.append(text("contrib.django_vendor", database=database, vendor=connections[database].display_name))
    schema = given.get("SCHEMA", "public")
    config = Config()
    try:
        statements(schema)
        config = Config(**{name.lower(): value for name, value in given.items() if name in known - {*_OWN}})
    except ConfigError as error:
        problems += [text("contrib.django_setting", problem=problem) for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return Configuration(database, schema, bool(given.get("WAKEUPS", True)), config)


def _forget(*, setting: str, **_: Any) -> None:
    """A test has changed a setting."""
    if setting in ("BROOQ", "DATABASES"):
        configuration.cache_clear()


setting_changed.connect(_forget)
