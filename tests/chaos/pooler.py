"""PgBouncer in transaction mode, for runs whose sessions are shared."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.postgres.test_pgbouncer import CONFIGURATION, wait_until_it_answers
from tests.tools import pgbouncer


@contextmanager
def pooled(dsn: str, folder: Path) -> Iterator[str]:
    """The DSN of the same database through PgBouncer. Skips the test where there is none."""
    tool = pgbouncer()
    place = conninfo_to_dict(dsn)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    values = {"host": "127.0.0.1", "port": "5432", "user": "postgres"} | place | {"listen": port}
    secret = str(place.get("password") or "").replace("'", "''")
    file = folder / "pgbouncer.ini"
    file.write_text(CONFIGURATION.format(secret=f" password='{secret}'" if secret else "", **values))
    account = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen([tool.program, *account, str(file)], env=tool.environment, stdout=log, stderr=log)
    try:
        through = make_conninfo(dsn, host="127.0.0.1", port=port)
        wait_until_it_answers(through, process, folder / "pgbouncer.log")
        yield through
    finally:
        process.terminate()
        process.wait(timeout=20)
