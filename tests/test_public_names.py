"""The public face: sorted, importable without a driver, and importing starts nothing (requirements G4.9, A1)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import brooq
from brooq.vocabulary import error


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_names_are_sorted_and_exist() -> None:
    assert brooq.__all__ == sorted(brooq.__all__)
    assert all(hasattr(brooq, name) for name in brooq.__all__)


def test_every_error_hangs_in_one_tree() -> None:
    errors = [each for each in vars(error).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert all(issubclass(each, brooq.BrooqError) for each in errors)
    assert {each.__name__ for each in errors} <= set(brooq.__all__)
    assert all(each.__name__ in (error.__doc__ or "") for each in errors)


def test_importing_brooq_needs_no_driver() -> None:
    assert (
        run("""
        import sys
        for name in ("psycopg", "psycopg_pool", "asyncpg", "click", "pydantic", "starlette", "prometheus_client"):
            sys.modules[name] = None
        import brooq, brooq.testing
        print("imported")
    """)
        == "imported"
    )


def test_importing_and_constructing_start_nothing_and_open_nothing() -> None:
    assert (
        run("""
        import os, threading
        def opened():
            places = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
            return {os.readlink(place) for place in places if os.path.exists(place)}
        import psycopg_pool
        before, threads = opened(), threading.active_count()
        import brooq, brooq.postgres, brooq.testing
        from psycopg_pool import AsyncConnectionPool
        pool = AsyncConnectionPool("postgresql://nowhere.invalid/none", open=False)
        queue = brooq.Queue(brooq.postgres.PostgresStore(pool))
        async def handler(claim): ...
        queue.register_kind("a", handler)
        assert threading.active_count() == threads, threading.enumerate()
        assert {v for v in opened() - before if "socket" in v} == set()
        print(queue.health().running)
    """)
        == "False"
    )
