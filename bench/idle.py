"""What an idle worker costs: the real process, its memory and its transactions."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from bench.place import SCHEMA, Place
from bench.result import Sample

SETTLE = 5.0
WATCH = 20.0


def idle(place: Place) -> list[Sample]:
    """Memory in MB, and transactions a second, of `brooq worker` with default settings and nothing to do."""
    place.empty()
    environment = {**os.environ, "DATABASE_URL": place.dsn, "QUEUE_SCHEMA": SCHEMA, "HTTP_ADDR": "127.0.0.1:0"}
    process = subprocess.Popen([sys.executable, "-m", "brooq", "worker"], env=environment, stderr=subprocess.DEVNULL)
    try:
        time.sleep(SETTLE)
        before = _transactions(place)
        time.sleep(WATCH)
        rate = (_transactions(place) - before) / WATCH
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
    finally:
        process.terminate()
        process.wait(60)
    return [
        Sample("brooq", "idle worker", "memory", memory, "MB"),
        Sample("brooq", "idle worker", "statements", rate, "1/s"),
    ]


def _transactions(place: Place) -> float:
    """Statements of brooq's sessions so far; each is a transaction of its own."""
    rows = place.sql(
        "select coalesce(sum(calls), 0) from pg_stat_statements where query not ilike '%pg_stat_statements%'"
        " and query not ilike '%truncate%' and query not ilike 'set %'"
    )
    return float(rows[0][0])


def import_time() -> Sample:
    """Seconds of `import brooq`, over the interpreter's own start."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return Sample(
        "brooq",
        "import brooq",
        "import",
        min(run("import brooq") for _ in range(5)) - min(run("") for _ in range(5)),
        "s",
    )
