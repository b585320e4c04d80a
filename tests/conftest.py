"""Fixtures of all tests: `postgres` (a server), `dsn` (a fresh migrated database), `empty_dsn` (a fresh empty one)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from tests.database import Server, server

from brooq.postgres.dsn import describe
from brooq.postgres.local.binaries import LocalPostgresError, find

_VERSIONS = pytest.StashKey[set[str]]()
_OUTPUT = "brooq_postgres"


def pytest_configure(config: pytest.Config) -> None:
    """Markers of this project, and the reports of xdist's workers."""
    config.addinivalue_line("markers", "fault(number): the test shows what happens under this fault of the catalogue")
    config.addinivalue_line("markers", "security(rule): the test shows that this rule of SECURITY.md is kept")
    config.addinivalue_line(
        "markers", "xdist_group(name): tests that share a server of theirs; known without xdist too"
    )
    config.stash[_VERSIONS] = set()
    # Tests compare texts: a developer's language must not decide.
    os.environ.setdefault("BROOQ_LANG", "en")
    # A shell that starts this in the background lets it ignore Ctrl-C, and what it starts would inherit that: the tests that
    # interrupt programs of ours could then wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Reports(config), "brooq-postgres-versions")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups of tests hold: what one worker is to run once must not be run by two."""
    if getattr(config.option, "loadgroup", False):
        lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(f"this pytest-xdist does not keep groups with this pytest: {lost[0]}")


class _Reports:
    """Takes from each worker of xdist what it ran on; the worker's own summary is never shown."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A worker has ended."""
        output: dict[str, object] = getattr(node, "workeroutput", {})
        if found := output.get(_OUTPUT):
            self._config.stash[_VERSIONS].add(str(found))


def pytest_report_header() -> str:
    """What the tests are going to run on."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        return f"postgres: TEST_DATABASE_URL, {describe(given)}"
    try:
        binaries = find()
    except LocalPostgresError as error:
        return f"postgres: {error}"
    return f"postgres: {binaries.version} (local), {binaries.folder}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the tests have run on."""
    versions: set[str] = config.stash[_VERSIONS]
    terminalreporter.write_line(f"Tests ran on: {', '.join(sorted(versions)) or 'no PostgreSQL was needed'}")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server of this run, or of this worker of xdist."""
    with server(os.environ.get("PYTEST_XDIST_WORKER", "main")) as found:
        request.config.stash[_VERSIONS].add(found.description)
        output: dict[str, object] | None = getattr(request.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = found.description
        yield found


@pytest.fixture
def dsn(postgres: Server) -> Iterator[str]:
    """A fresh database with the shipped migrations in `public`."""
    with postgres.database(migrated=True) as found:
        yield found


@pytest.fixture
def empty_dsn(postgres: Server) -> Iterator[str]:
    """A fresh database without anything of brooq."""
    with postgres.database(migrated=False) as found:
        yield found
