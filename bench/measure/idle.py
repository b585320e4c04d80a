"""What an idle `brooq worker` costs: the real process, its memory and its statements; and what importing brooq costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from bench.results import Sample
from bench.stage import Stage
from bench.systems import BROOQ

STATEMENTS = """
select coalesce(sum(calls), 0) from pg_stat_statements
where dbid = (select oid from pg_database where datname = '{database}')
"""


def idle(stage: Stage, settle: float, watch: float) -> list[Sample]:
    """Memory in MB, and statements a second, with default settings and nothing to do."""
    dsn = stage.fresh(BROOQ)
    stage.place.sql("create extension if not exists pg_stat_statements")
    environment = {**os.environ, "DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0"}
    process = subprocess.Popen([sys.executable, "-m", "brooq", "worker"], env=environment, stderr=subprocess.DEVNULL)
    try:
        time.sleep(settle)
        before = _statements(stage)
        time.sleep(watch)
        rate = (_statements(stage) - before) / watch
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
    finally:
        process.terminate()
        process.wait(60)
    return [
        Sample(BROOQ.name, "brooq worker", "memory, idle", memory, "MB"),
        Sample(BROOQ.name, "brooq worker", "idle statements", rate, "1/s"),
    ]


def import_time() -> Sample:
    """Seconds of `import brooq`, over the interpreter's own start."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    seconds = min(run("import brooq") for _ in range(5)) - min(run("") for _ in range(5))
    return Sample(BROOQ.name, "import brooq", "import", seconds * 1000, "ms")


def _statements(stage: Stage) -> float:
    return float(stage.place.sql(STATEMENTS.format(database=BROOQ.database))[0][0])
