"""Where settings come from, before anybody asks what they mean: environment, `.env`, systemd's credentials."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from brooq.vocabulary.message import text
from brooq.vocabulary.payload import printable

NAMES = (
    "DATABASE_URL", "HTTP_ADDR", "HTTP_TOKEN", "HTTP_READ_TOKEN", "HTTP_PAYLOADS", "QUEUE_WORKERS",
    "QUEUE_POLL_INTERVAL", "QUEUE_LEASE",
    "QUEUE_ATTEMPT_TIMEOUT", "QUEUE_MAX_EXECUTION_TIMEOUT", "QUEUE_BACKOFF_BASE", "QUEUE_BACKOFF_MAX",
    "QUEUE_MAX_ATTEMPTS", "QUEUE_REAPER_PERIOD", "QUEUE_WATCHDOG_GRACE", "QUEUE_SHUTDOWN_GRACE", "QUEUE_RETENTION_TTL",
    "QUEUE_RETENTION_BATCH", "QUEUE_RETENTION_PERIOD", "QUEUE_SCHEMA", "QUEUE_PREPARED", "QUEUE_WAKEUPS", "QUEUE_DRIVER",
    "QUEUE_PREFETCH", "QUEUE_PROCESSES", "QUEUE_LOOP", "LOG_FORMAT", "LOG_LEVEL", "BROOQ_LANG",
)  # fmt: skip
"""Every setting."""

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""Names the folder where systemd puts what `LoadCredential=` names: here files such as
`database_url` and `http_token`."""
SECRETS = ("DATABASE_URL", "HTTP_TOKEN", "HTTP_READ_TOKEN")
_MAX_BYTES = 64 * 1024


def read(env_file: Path) -> tuple[dict[str, str], list[str]]:
    """Every setting that has a value, as it is written, and what was wrong with the reading itself.

    The environment wins over `.env`, that over credentials; an empty value is none. The language that `.env` names
    holds from here on.
    """
    problems: list[str] = []
    found: dict[str, str] = {}
    for source in (_credentials(problems), _file(env_file, problems), os.environ):
        found.update((name, value.strip()) for name, value in source.items() if value.strip())
    problems.extend(_unknown(found))
    values = {name: found[name] for name in NAMES if name in found}
    if "BROOQ_LANG" in values:
        os.environ.setdefault("BROOQ_LANG", values["BROOQ_LANG"])
    return values, problems


def _file(path: Path, problems: list[str]) -> Mapping[str, str]:
    try:
        if path.is_file():
            # Without interpolation: `${` may stand in a password.
            values = dotenv_values(path, encoding="utf-8", interpolate=False)
            return {name: value for name, value in values.items() if value}
    except (OSError, UnicodeError) as error:
        problems.append(text("setting.file", file=path, reason=_reason(error)))
    return {}


def _credentials(problems: list[str]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    folder = os.environ.get(CREDENTIALS, "")
    for name in SECRETS if folder else ():
        path = Path(folder) / name.lower()
        try:
            with path.open("rb") as file:
                if open_to_others(file.fileno()):
                    problems.append(text("setting.open", file=path))
                    continue
                values[name] = file.read(_MAX_BYTES).decode("utf-8")
        except FileNotFoundError:
            pass  # not every unit has every credential
        except (OSError, UnicodeError) as error:
            problems.append(text("setting.file", file=path, reason=_reason(error)))
    return values


def open_to_others(file: int | Path) -> bool:
    """Whether users beside the owner may read a file. An access list, which systemd uses for credentials, shows its mask
    in the place of the group's rights, and names whom it lets in."""
    mode = os.stat(file).st_mode  # noqa: PTH116  a descriptor too: what is asked about is what is read
    if mode & stat.S_IROTH:
        return True
    return bool(mode & stat.S_IRGRP) and not _has_access_list(file)


def exposed(env_file: Path = Path(".env")) -> bool:
    """Whether `.env` holds a secret and other users may read it. No error, since it is a developer's file first."""
    return any(name in SECRETS for name in _file(env_file, [])) and open_to_others(env_file)


def _has_access_list(file: int | Path) -> bool:
    try:
        return bool(os.getxattr(file, "system.posix_acl_access"))
    except (OSError, AttributeError):
        return False


def _unknown(names: Mapping[str, str]) -> list[str]:
    problems = []
    for name in sorted(set(names) - set(NAMES)):
        if name.startswith("QUEUE_"):
            close = difflib.get_close_matches(name, NAMES, 1)
            hint = text("setting.did_you_mean", name=close[0]) if close else ""
            problems.append(text("setting.unknown", name=printable(name[:80])) + hint)
    return problems


def _reason(error: OSError | UnicodeError) -> str:
    return text("setting.not_text") if isinstance(error, UnicodeError) else error.strerror or type(error).__name__
