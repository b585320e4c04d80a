"""`deploy/.env.example`: every setting with its default, and nothing that is none."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from tests.deploy.stand import ROOT

from brooq.service.environment import NAMES, SECRETS
from brooq.service.settings import load

EXAMPLE = ROOT / "deploy" / ".env.example"
LINE = re.compile(r"^(?P<off>#?)(?P<name>[A-Z][A-Z_]+)=(?P<value>.*)$", re.MULTILINE)
LINES = {match["name"]: match for match in LINE.finditer(EXAMPLE.read_text(encoding="utf-8"))}
LEFT_OPEN = {*SECRETS, "QUEUE_REAPER_PERIOD", "QUEUE_WATCHDOG_GRACE", "LOG_FORMAT", "BROOQ_LANG"}
"""What has no fixed default."""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting from outside."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_every_setting_is_there_once_and_nothing_else() -> None:
    names = [match["name"] for match in LINE.finditer(EXAMPLE.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(NAMES)
    assert {name for name, match in LINES.items() if match["off"]} == LEFT_OPEN


def test_as_it_is_shipped_it_changes_nothing(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / ".env")
    given, default = load(env_file=tmp_path / ".env"), load(env_file=tmp_path / "none")
    for name in default.config.__dataclass_fields__:
        assert in_seconds(getattr(given.config, name)) == in_seconds(getattr(default.config, name)), name
    for name in set(default.__dataclass_fields__) - {"config", "given"}:
        assert getattr(given, name) == getattr(default, name), name


def in_seconds(value: object) -> object:
    """A duration as its seconds, however it is written."""
    return value.total_seconds() if isinstance(value, timedelta) else value


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"BROOQ_LANG"}))
def test_every_line_is_what_its_setting_takes(name: str, tmp_path: Path) -> None:
    value = LINES[name]["value"] or "a-token-of-thirty-two-bytes-or-more"
    (tmp_path / ".env").write_text(f"{name}={value}\n")
    load(env_file=tmp_path / ".env")
